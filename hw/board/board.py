"""Boards that the kernel is made for: engine, clocks, memory, link."""

from dataclasses import dataclass

from symlight.base.errors import UserError

from ..config import Engine, build, card
from .chip import ULX3S_SDRAM, Cycles, SdramChip
from .uart import divisor


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board and the kernel on it."""

    name: str
    card: str  # preset of the engine (hw.config.CARDS)
    build: str  # of the engine (hw.config.BUILDS)
    chip: SdramChip
    input_mhz: float  # oscillator
    vco_mhz: float  # of the PLL; kernel and SDRAM clock are whole fractions of it
    sdram_mhz: float
    baud: int
    seed: int = 1  # of place and route: the released bitstream's
    gap_ms: float = 80.0  # silence on the line after which half a request is given up

    def __post_init__(self):
        engine = self.engine
        if engine.channels != 1:
            raise UserError(f"board {self.name}: card {self.card!r} has {engine.channels} channels, not one")
        Cycles(self.chip, self.sdram_mhz)
        divisor(self.kernel_hz, self.baud)

    @property
    def engine(self) -> Engine:
        return build(card(self.card), self.build)

    @property
    def kernel_hz(self) -> float:
        return self.engine.clock_mhz * 1e6

    @property
    def gap(self) -> int:
        """Kernel cycles of `gap_ms`."""
        return int(self.gap_ms * 1e-3 * self.kernel_hz)


BOARDS = {
    board.name: board
    for board in (
        Board(
            name="ulx3s-85f",
            card="ulx3s",
            build="resident-kv",
            chip=ULX3S_SDRAM,
            input_mhz=25,
            vco_mhz=750,
            sdram_mhz=75,
            baud=2_000_000,
        ),
    )
}


def board(name: str) -> Board:
    """The board called `name`; a `UserError` lists the known ones."""
    if name not in BOARDS:
        raise UserError(f"no board is called {name!r}; known: {', '.join(BOARDS)}")
    return BOARDS[name]
