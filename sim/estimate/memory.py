"""Timing of the memory ports as the estimate sees it, from the parameters of sim/harness/hbm.h."""

from dataclasses import dataclass

from symlight.base.errors import UserError

from ..hbm import header_constants


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The kind of memory at every port; the settings of `sim.options.SimOptions`.

    Members
    -------
    clock_mhz : int
        Kernel clock; the memory's own times do not change with it.
    hbm : str
        "timed" or "ideal".
    bursts, bytes : int
        Reads in flight that a port accepts.
    latency_ns : int
        Outside the DRAM.
    """

    clock_mhz: int
    hbm: str = "timed"
    bursts: int = header_constants()["bursts"]
    bytes: int = header_constants()["bytes"]
    latency_ns: int = header_constants()["latency"]

    def __post_init__(self) -> None:
        if self.hbm not in ("timed", "ideal"):
            raise UserError(f"memory: hbm = {self.hbm!r} is not timed or ideal")

    @property
    def ideal(self) -> bool:
        return self.hbm == "ideal"

    def cycles(self, *names: str) -> float:
        """Sum of DRAM times in kernel cycles."""
        constants = header_constants()
        return sum(constants[name] for name in names) * self.clock_mhz / constants["TICK_MHZ"]

    @property
    def latency(self) -> float:
        """Cycles from a column command to its data at the port."""
        if self.ideal:
            return header_constants()["ideal_cycles"]
        return self.cycles("cl", "burst") + self.latency_ns * self.clock_mhz / 1000

    @property
    def opening(self) -> float:
        """Cycles that the first access of a burst of work waits for its row: another one is open in the
        bank."""
        return 0.0 if self.ideal else self.cycles("trp", "trcd")

    @property
    def refresh(self) -> tuple[float, float]:
        """Cycles between refreshes, and cycles of one until the next column."""
        return self.cycles("trefi"), self.cycles("trp", "trfc", "trcd")

    @property
    def address_gap(self) -> float:
        """Least cycles between two addresses."""
        return max(1.0, header_constants()["ar_ps"] * self.clock_mhz / 1e6)

    def column_cycles(self, beat_bytes: int) -> float:
        """Cycles that a beat keeps the DRAM busy."""
        return 0.0 if self.ideal else self.cycles("tccd_s") * beat_bytes / header_constants()["COLUMN_BYTES"]
