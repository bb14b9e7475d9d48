"""A board's bitstream from Python: Verilog, synthesis, place and route, packing, manifest.

    symlight_board.v        the design (hw.board.generate), with its identity
    symlight_ulx3s.*        what Amaranth's platform and the tools write
    symlight_ulx3s.bit      the bitstream, compressed
    manifest.json           hw.compiler.manifest, and `board` (with the result), `model`, `hbm_map`

The same sources, tools and seed give the same bytes.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from amaranth_boards.ulx3s import ULX3S_85F_Platform

from symlight.base.errors import UserError
from symlight.base.files import write_whole
from symlight.hw.board.board import Board
from symlight.hw.board.generate import BOARD_MODULE, generate_board
from symlight.hw.board.ulx3s import Ulx3sTop, platform
from symlight.hw.compiler.hbm_map import hbm_map
from symlight.hw.compiler.layout import Layout
from symlight.hw.compiler.manifest import kernel_manifest
from symlight.model.config import ModelShape

from .reports import read_report, timing_met
from .synthesis import FIRST, remaining_commands
from .tools import ECPPACK, NEXTPNR, YOSYS, require_tools, run_tool, versions

NAME = "symlight_ulx3s"
BITSTREAM, MANIFEST = f"{NAME}.bit", "manifest.json"
WORK = "build"  # folder of what the tools write
STEPS = ("verilog", "synthesis", "place and route", "packing")

Say = Callable[[str, int, int], None]


def build_bitstream(
    board: Board, shape: ModelShape, model: str, out: Path, *, seed: int = 1, progress: Say | None = None
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
    say = progress or (lambda stage, done, total: None)
    layout = Layout(board.engine, shape)
    say(STEPS[0], 0, len(STEPS))
    text, build_id = generate_board(board)
    work = out / WORK
    work.mkdir(parents=True, exist_ok=True)
    target = platform()
    target.add_file(f"{BOARD_MODULE}.v", text)
    plan = target.prepare(
        Ulx3sTop(board), NAME, synth_opts=FIRST, script_after_synth=remaining_commands(NAME)
    )
    plan.extract(str(work))
    say(STEPS[1], 1, len(STEPS))
    run_tool(YOSYS, ["-q", "-l", f"{NAME}.rpt", f"{NAME}.ys"], work)
    say(STEPS[2], 2, len(STEPS))
    run_tool(NEXTPNR, [*_place(target, seed)], work)
    report = read_report(work / f"{NAME}.report.json")
    if not timing_met(report):
        clocks = ", ".join(
            f"{name} {c['mhz']} of {c['wanted_mhz']} MHz" for name, c in report["clocks"].items()
        )
        raise UserError(
            f"place and route with seed {seed} does not meet the clocks: {clocks}; try another --seed"
        )
    say(STEPS[3], 3, len(STEPS))
    run_tool(ECPPACK, ["--compress", "--input", f"{NAME}.config", "--bit", BITSTREAM], work)
    bits = (work / BITSTREAM).read_bytes()
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
    say(STEPS[3], len(STEPS), len(STEPS))
    return manifest


def _place(target: ULX3S_85F_Platform, seed: int) -> list[str]:
    """Arguments of nextpnr: a failed clock is this module's to report."""
    return [
        *("--quiet", "--log", f"{NAME}.tim", "--report", f"{NAME}.report.json"),
        *("--seed", str(seed), "--timing-allow-fail"),
        *("--85k", "--package", "CABGA381", "--speed", target.speed),
        *("--json", f"{NAME}.json", "--lpf", f"{NAME}.lpf", "--textcfg", f"{NAME}.config"),
    ]


def _identity(bits: bytes) -> dict:
    return {"sha256": hashlib.sha256(bits).hexdigest(), "bytes": len(bits)}
