"""The manifest of a generated kernel: what it is, how it was configured, and what the host sees of it.

    format_version, kernel, version of the file, of the module, of the generator
    card, build, build_id           names, and the number of the kernel in every mailbox (32 hex digits)
    generator                       digest of the generator that wrote the files (sources.generator_digest)
    engine, clock_mhz               config.Engine, and the clock that the kernel is aimed at
    files                           Verilog: name -> sha256 and bytes
    interface                       control registers and memory ports

`symlight package` adds what depends on platform, model and finished bitstream (bitstreams.package).
"""

import hashlib

import symlight

from ..axi import AxiLite
from ..config import Engine
from ..control import CTRL, GIE, IER, ISR
from ..interface import KERNEL_NAME, arguments
from .sources import generator_digest

FORMAT_VERSION = 1
PROBE = "probe"  # in the place of a build's name: hw.probe
CLOCK_PORT, RESET_PORT, INTERRUPT_PORT = "ap_clk", "ap_rst_n", "interrupt"  # names that the linker knows
CONTROL_PORT, CONTROL_PROTOCOL = "s_axi_control", "ap_ctrl_hs"
REGISTERS = {"CTRL": CTRL, "GIE": GIE, "IER": IER, "ISR": ISR}


def interface_map(engine: Engine) -> dict:
    """Control registers and memory ports of a kernel."""
    table = arguments(engine.channels)
    control = AxiLite().members
    registers = [{"name": name, "offset": offset, "bytes": 4} for name, offset in REGISTERS.items()]
    registers += [{"name": a.name, "offset": a.offset, "bytes": a.size} for a in table]
    ports = dict.fromkeys(a.port for a in table if a.port)
    return {
        "control": {
            "port": CONTROL_PORT,
            "protocol": CONTROL_PROTOCOL,
            "address_bits": control["awaddr"].shape,
            "data_bits": control["wdata"].shape,
            "registers": registers,
        },
        "memory": [
            {
                "port": port,
                "data_bits": 8 * engine.beat_bytes,
                "arguments": [a.name for a in table if a.port == port],
            }
            for port in ports
        ],
    }


def kernel_manifest(engine: Engine, build_id: int, files: dict[str, str], *, card: str, build: str) -> dict:
    """The manifest of `files` (name -> Verilog text)."""
    return {
        "format_version": FORMAT_VERSION,
        "kernel": KERNEL_NAME,
        "version": symlight.__version__,
        "card": card,
        "build": build,
        "build_id": f"{build_id:032x}",
        "generator": generator_digest(),
        "engine": engine.to_json(),
        "clock_mhz": engine.clock_mhz,
        "interface": interface_map(engine),
        "files": {
            name: {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text.encode())}
            for name, text in sorted(files.items())
        },
    }
