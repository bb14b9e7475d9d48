"""Geometry and timing of an SDR SDRAM, in the datasheet's units and in clock cycles."""

import math
from dataclasses import dataclass

from symlight.base.errors import UserError


@dataclass(frozen=True, kw_only=True)
class SdramChip:
    """Single-data-rate SDRAM. Times are least times in nanoseconds unless stated."""

    bank_bits: int = 2
    row_bits: int = 13
    column_bits: int = 9
    data_bits: int = 16
    cas_latency: int = 3  # cycles
    cycle_ns: float = 7.0  # shortest clock cycle at that latency
    rcd_ns: float = 21.0  # activate to read or write
    rp_ns: float = 21.0  # precharge to activate or refresh
    ras_ns: float = 45.0  # activate to precharge
    ras_max_ns: float = 100_000.0  # longest that a row may stay open
    rc_ns: float = 67.5  # activate to activate of the same bank
    rrd_ns: float = 15.0  # activate to activate of another bank
    wr_ns: float = 15.0  # last word written to precharge
    rfc_ns: float = 70.0  # refresh to activate or refresh
    mrd_cycles: int = 2  # mode register to any command
    refresh_ns: float = 64e6 / 8192  # mean time between refreshes
    power_up_ns: float = 200_000.0  # stable clock before the first command
    power_up_refreshes: int = 8

    @property
    def address_bits(self) -> int:
        """Bits of a word's number: row, bank, column from the top."""
        return self.row_bits + self.bank_bits + self.column_bits

    @property
    def size(self) -> int:
        """Bytes."""
        return self.data_bits // 8 << self.address_bits


# The slowest of the 16-bit, 32 MB parts that the ULX3S is delivered with, in every line: IS42S16160G-7,
# AS4C16M16SA-7, W9825G6KH-6, MT48LC16M16A2-75 (datasheets, AC characteristics).
ULX3S_SDRAM = SdramChip()


@dataclass(frozen=True)
class Cycles:
    """Timing of `chip` in cycles of a clock of `mhz`, rounded up; `refresh` and `row_limit` rounded down."""

    chip: SdramChip
    mhz: float

    def __post_init__(self):
        if 1000 / self.mhz < self.chip.cycle_ns:
            raise UserError(
                f"SDRAM clock: {self.mhz:g} MHz is a cycle of {1000 / self.mhz:.2f} ns, "
                f"the chip needs {self.chip.cycle_ns:g} ns; choose a slower clock"
            )

    def at_least(self, ns: float) -> int:
        """Cycles that last `ns` or longer."""
        return math.ceil(round(ns * self.mhz / 1000, 6))

    @property
    def rcd(self) -> int:
        return self.at_least(self.chip.rcd_ns)

    @property
    def rp(self) -> int:
        return self.at_least(self.chip.rp_ns)

    @property
    def ras(self) -> int:
        """Activate to precharge, so long that precharge and activate may follow at once (t_RC)."""
        return max(self.at_least(self.chip.ras_ns), self.at_least(self.chip.rc_ns) - self.rp)

    @property
    def rrd(self) -> int:
        return self.at_least(self.chip.rrd_ns)

    @property
    def wr(self) -> int:
        return self.at_least(self.chip.wr_ns)

    @property
    def rfc(self) -> int:
        return self.at_least(self.chip.rfc_ns)

    @property
    def power_up(self) -> int:
        return self.at_least(self.chip.power_up_ns)

    @property
    def refresh(self) -> int:
        """Cycles between refreshes."""
        return int(self.chip.refresh_ns * self.mhz / 1000)
