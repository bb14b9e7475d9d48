"""A session of a kernel in Icarus Verilog, whose signals are 0, 1, X or Z: no X may leave the kernel."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from symlight.base import process
from symlight.host.device.mailbox import BYTES as MAILBOX_BYTES
from symlight.hw.axi import AxiMaster, axi_pins
from symlight.hw.compiler.image import build_images
from symlight.hw.compiler.layout import Layout
from symlight.hw.config import Engine
from symlight.hw.control import CTRL
from symlight.hw.interface import NO_EOS, Command, Io, arguments
from symlight.model.weights import IntegerModel
from symlight.sim.power_up import without_register_initials

BENCH = Path(__file__).with_name("four_state.v")
RESET_CYCLES = 16
MEMORY_STEP = 1 << 32  # between the buffers of two channels
IO_BASE = 0x7_0000_0000


def require_icarus() -> None:
    if not (shutil.which("iverilog") and shutil.which("vvp")):
        pytest.skip("Icarus Verilog is not installed")


@dataclass(frozen=True)
class Ended:
    """How a simulation ended.

    Members
    -------
    output : str
        "DONE: ..." if the script came to its end, else "UNKNOWN: ..." or "FAILED: ...".
    io : list of bytes
        The io buffer after each run.
    """

    output: str
    io: list[bytes]


class Session:
    """Commands to a kernel of `engine` with `model`, and what the simulator makes of them.

    Parameters
    ----------
    verilog : list of str
        The kernel's files as packaged; initial values of registers are taken away here.
    """

    def __init__(self, engine: Engine, model: IntegerModel, verilog: list[str], folder: Path):
        self.engine, self.layout, self.folder = engine, Layout(engine, model.shape), folder
        self.images = build_images(self.layout, model)
        self.io = np.zeros(Io.SIZE, np.uint8)
        self.script, self.runs = [], 0
        for number, text in enumerate(verilog):
            (folder / f"design{number}.v").write_bytes(without_register_initials(text.encode()))

    def command(self, command: Command, prompt: list[int] = (), n_new: int = 0) -> None:
        """Add a run; prompts of all runs are the same place in memory, so one run may have one."""
        if prompt:
            self.io[Io.PROMPT : Io.PROMPT + 4 * len(prompt)] = np.asarray(prompt, "<u4").view(np.uint8)
        self.runs += 1
        scalars = {
            "command": command,
            "run_id": self.runs,
            "n_prompt": len(prompt),
            "n_new": n_new,
            "eos": NO_EOS,
            "watchdog": 1_000_000,
        }
        for argument in arguments(self.engine.channels):
            value = scalars.get(argument.name, 0)
            if argument.port:
                number = argument.name.removeprefix("hbm")
                value = IO_BASE if argument.name == "io" else MEMORY_STEP * (1 + int(number))
            for part in range(argument.size // 4):
                self._write(argument.offset + 4 * part, value >> 32 * part & 0xFFFF_FFFF)
        self._write(CTRL, 1)
        self.script.append(1 << 44)

    def _write(self, offset: int, value: int) -> None:
        self.script.append(offset << 32 | value)

    def _ports(self) -> str:
        """ports.vh: the kernel, a memory a port, the looks at its outputs, and `keep`."""
        lanes, beats = self.engine.lanes, self.images[0].size // self.engine.lanes
        io_beats = Io.SIZE // lanes
        connections = ["ap_clk(clk)", "ap_rst_n(rst_n)", "interrupt(interrupt)"]
        lite = {
            "awaddr": "address", "awvalid": "awvalid", "awready": "awready", "wdata": "value",
            "wstrb": "4'hf", "wvalid": "wvalid", "wready": "wready", "bresp": "bresp", "bvalid": "bvalid",
            "bready": "1'b1", "araddr": "address", "arvalid": "arvalid", "arready": "arready",
            "rdata": "rdata", "rresp": "rresp", "rvalid": "rvalid", "rready": "1'b1",
        }  # fmt: skip
        connections += [f"s_axi_control_{name}({net})" for name, net in lite.items()]
        pins = axi_pins(AxiMaster(self.engine.beat_bytes).create())
        lines, looks, loads = [], [], []
        for k in range(self.engine.channels):
            nets = {name: f"p{k}_{name}" for name in pins}
            lines += [f"    wire [{len(pin) - 1}:0] {nets[name]};" for name, pin in pins.items()]
            lines += [f"    assign {nets['rresp']} = 0;", f"    assign {nets['bresp']} = 0;"]
            connections += [f"m_axi_hbm{k:02d}_{name}({net})" for name, net in nets.items()]
            inside = (
                "araddr arlen arvalid arready rdata rlast rvalid rready "
                "awaddr awvalid awready wdata wvalid wready bvalid bready"
            ).split()
            wires = ", ".join(f".{name}({nets[name]})" for name in inside)
            lines.append(
                f"    memory #(.NUMBER({k}), .BEATS({beats}), .IO_BEATS({io_beats if k == 0 else 1})) m{k}"
                f"(.clk(clk), .base(64'h{MEMORY_STEP * (k + 1):x}), .io_base(64'h{IO_BASE:x}), {wires});"
            )
            loads.append(f'        $readmemh("hbm{k}.hex", m{k}.data);')
            for valid, payload in (
                (None, ("arvalid", "rready", "awvalid", "wvalid", "bready")),
                ("arvalid", ("araddr", "arlen", "arsize", "arburst")),
                ("awvalid", ("awaddr", "awlen", "awsize", "awburst")),
                ("wvalid", ("wdata", "wstrb", "wlast")),
            ):
                gate = f"{nets[valid]} && " if valid else ""
                looks += [
                    f'        if ({gate}^{nets[name]} === 1\'bx) unknown("{name}", {k});' for name in payload
                ]
        lines.append("    symlight dut(\n        ." + ",\n        .".join(connections) + ");")
        lines += ["    always @(posedge clk) if (watched) begin", *looks, "    end"]
        lines += ["    initial begin", '        $readmemh("script.hex", script);', *loads]
        lines += ['        $readmemh("io.hex", m0.io);', "    end"]
        lines += [
            "    task keep;",
            "        input integer run;",
            "        reg [8*16:1] name;",
            "        begin",
            '            $sformat(name, "io%0d.hex", run);',
            "            $writememh(name, m0.io);",
            "        end",
            "    endtask",
        ]
        return "\n".join(lines) + "\n"

    def run(self, limit: int = 200_000) -> Ended:
        """Simulate all commands; `limit` in cycles."""
        lanes = self.engine.lanes
        for name, image in (*((f"hbm{k}", image) for k, image in enumerate(self.images)), ("io", self.io)):
            (self.folder / f"{name}.hex").write_text(_hex(image, lanes))
        (self.folder / "script.hex").write_text("\n".join(f"{word:012x}" for word in self.script) + "\n")
        (self.folder / "ports.vh").write_text(self._ports())
        shutil.copy(BENCH, self.folder / "bench.v")
        macros = {
            "LANES": lanes,
            "CHANNELS": self.engine.channels,
            "SCRIPT": len(self.script),
            "LIMIT": limit,
            "RESET": RESET_CYCLES,
        }
        designs = sorted(path.name for path in self.folder.glob("design*.v"))
        options = [f"-D{name}={value}" for name, value in macros.items()]
        self._do(["iverilog", "-g2005", *options, "-s", "bench", "-o", "bench.vvp", "bench.v", *designs])
        output = self._do(["vvp", "-n", "bench.vvp"])
        verdict = [line for line in output.splitlines() if line.startswith(("DONE", "UNKNOWN", "FAILED"))]
        kept = [self.folder / f"io{run}.hex" for run in range(self.runs)]
        return Ended((verdict or [output[-500:]])[0], [_bytes(path, lanes) for path in kept if path.exists()])

    def _do(self, command: list[str]) -> str:
        done = process.run(command, self.folder)
        assert done.status == 0, done.output[-2000:]
        return done.output

    def mailbox(self, io: bytes) -> bytes:
        return io[Io.MAILBOX : Io.MAILBOX + MAILBOX_BYTES]


def _hex(data: np.ndarray, lanes: int) -> str:
    """Beats as `$readmemh` reads them: the last byte first."""
    return "\n".join(row[::-1].tobytes().hex() for row in data.reshape(-1, lanes)) + "\n"


def _bytes(path: Path, lanes: int) -> bytes:
    """What `$writememh` wrote; a `ValueError` if there is an X in it."""
    words = [line for line in path.read_text().split("\n") if line and not line.startswith("//")]
    return b"".join(bytes.fromhex(word)[::-1] for word in words)
