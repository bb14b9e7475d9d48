"""A board's bitstream from Python: Verilog, synthesis, place and route, packing, manifest.

    symlight_board.v        the design (hw.board.generate), with its identity
    symlight_ulx3s.*        what Amaranth's platform and the tools write
    symlight_ulx3s.bit      the bitstream, compressed
    manifest.json           hw.compiler.manifest, and `board` (with the result), `model`, `hbm_map`

The same sources, tools and seed give the same bytes.
"""

import hashlib
import json
from pathlib import Path

from symlight.base.files import write_whole
from symlight.base.tools import Progress
from symlight.hw.board.board import Board
from symlight.hw.board.generate import BOARD_MODULE, generate_board
from symlight.hw.board.ulx3s import Ulx3sTop, platform
from symlight.hw.compiler.hbm_map import hbm_map
from symlight.hw.compiler.layout import Layout
from symlight.hw.compiler.manifest import kernel_manifest
from symlight.model.config import ModelShape

from .route import place_and_route, require_timing
from .synthesis import FIRST, remaining_commands
from .tools import ECPPACK, YOSYS, require_tools, run_tool, versions

NAME = "symlight_ulx3s"
BITSTREAM, MANIFEST = f"{NAME}.bit", "manifest.json"
WORK = "build"  # folder of what the tools write


def build_bitstream(
    board: Board, shape: ModelShape, model: str, out: Path, *, seed: int = 1, progress: Progress | None = None
) -> dict:
    """Write bitstream and manifest of `board` into folder `out`; return the manifest.

    Parameters
    ----------
    board : Board
    shape, model
        Whose memory map the manifest carries, and what to call it.
    seed : int
        Of place and route.

    Raises
    ------
    UserError
        A tool is missing or fails, or a clock does not reach its frequency.
    """
    require_tools()
    layout = Layout(board.engine, shape)
    work = out / WORK
    text, build_id = synthesise(board, work, progress)
    report = place_and_route(NAME, work, seed, progress)
    require_timing(report, seed)
    bits = pack(work)
    manifest: dict = kernel_manifest(
        board.engine, build_id, {f"{BOARD_MODULE}.v": text}, card=board.card, build=board.build
    ) | {
        "board": {
            "name": board.name,
            "kernel_mhz": board.kernel_hz / 1e6,
            "sdram_mhz": board.sdram_mhz,
            "baud": board.baud,
            "sdram_bytes": board.chip.size,
            "tools": versions(),
            "seed": seed,
            "result": report | {"bitstream": _identity(bits)},
        },
        "model": {"name": model, "shape": shape.to_json()},
        "hbm_map": hbm_map(layout),
    }
    (out / BITSTREAM).write_bytes(bits)
    write_whole(out / MANIFEST, json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    return manifest


def pack(work: Path) -> bytes:
    """The bitstream, compressed, of what is placed and routed in folder `work`."""
    run_tool(ECPPACK, ["--compress", "--input", f"{NAME}.config", "--bit", BITSTREAM], work)
    return (work / BITSTREAM).read_bytes()


def synthesise(board: Board, work: Path, progress: Progress | None = None) -> tuple[str, int]:
    """Write the netlist NAME.json and the pins NAME.lpf into folder `work`; returns the design's Verilog and
    its build id."""
    say = progress or (lambda stage, done, total: None)
    say("verilog", 0, 0)
    text, build_id = generate_board(board)
    work.mkdir(parents=True, exist_ok=True)
    target = platform()
    target.add_file(f"{BOARD_MODULE}.v", text)
    plan = target.prepare(
        Ulx3sTop(board), NAME, synth_opts=FIRST, script_after_synth=remaining_commands(NAME)
    )
    plan.extract(str(work))
    say("verilog", 1, 1)
    say("synthesis", 0, 0)
    run_tool(YOSYS, ["-q", "-l", f"{NAME}.rpt", f"{NAME}.ys"], work, log=f"{NAME}.rpt")
    say("synthesis", 1, 1)
    return text, build_id


def _identity(bits: bytes) -> dict:
    return {"sha256": hashlib.sha256(bits).hexdigest(), "bytes": len(bits)}
