"""What a build takes of the card: cells of every unit, multiplied by its instances, and a split over the
dies (SLRs)."""

from dataclasses import dataclass, fields

from symlight.hw.floorplan import SEQUENCER_DIE, channels_of_die

from .netlist import (
    BLOCK_RAMS,
    CARRIES,
    DSPS,
    FLIP_FLOPS,
    INVERTERS,
    LUT_RAM_SIZES,
    LUTS,
    SHIFTS,
    ULTRA_RAMS,
    Netlist,
)


@dataclass(frozen=True)
class Resources:
    """Counts as the card's data sheet has them."""

    lut: float = 0  # logic, distributed RAM, shift registers
    ff: float = 0
    bram: float = 0  # RAMB36; a RAMB18 is half of one
    uram: float = 0
    dsp: float = 0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def __mul__(self, count: float) -> "Resources":
        return Resources(**{f.name: getattr(self, f.name) * count for f in fields(self)})

    def share(self, of: "Resources") -> "Resources":
        """Fractions of `of`."""
        return Resources(**{f.name: getattr(self, f.name) / getattr(of, f.name) for f in fields(self)})

    @property
    def most(self) -> float:
        return max(self.lut, self.ff, self.bram, self.uram, self.dsp)

    def to_json(self) -> dict:
        return {f.name: round(getattr(self, f.name), 4) for f in fields(self)}


# What the platform puts between 32 ports of 256 bits and the memory: an assumption, as no link report of
# such a kernel is public for this card. Estimates run from 60,000 to 100,000 LUTs; registers go with them.
INTERCONNECT, INTERCONNECT_PORTS = Resources(lut=80_000, ff=120_000), 32
BUDGET = 0.7  # of a die's LUTs and DSP slices, with the interconnect

SLR = Resources(lut=365_000, ff=730_000, bram=564, uram=304, dsp=2_580)  # each of the two dies of a U50


def own(netlist: Netlist, units) -> tuple[Resources, dict[str, int]]:
    """Cells of a netlist without the units in it, and those units with their numbers."""
    lut = ff = uram = dsp = 0
    bram = 0.0
    inside: dict[str, int] = {}
    for cell in netlist.cells:
        kind = cell.kind
        if kind in units:
            inside[kind] = inside.get(kind, 0) + 1
        elif kind in LUTS or kind in INVERTERS or kind in SHIFTS:
            lut += 1
        elif kind in LUT_RAM_SIZES:
            lut += LUT_RAM_SIZES[kind]
        elif kind in FLIP_FLOPS:
            ff += 1
        elif kind in BLOCK_RAMS:
            bram += BLOCK_RAMS[kind]
        elif kind in ULTRA_RAMS:
            uram += 1
        elif kind in DSPS:
            dsp += 1
        elif kind not in CARRIES and not kind.startswith("MUXF"):
            raise ValueError(f"cell {cell.name}: type {kind} is unknown to the count of resources")
    return Resources(lut, ff, bram, uram, dsp), inside


def totals(parts: dict[str, tuple[Resources, dict[str, int]]]) -> dict[str, Resources]:
    """Resources of every unit with the units in it; `parts` in order, parents after children."""
    found: dict[str, Resources] = {}
    for name, (resources, inside) in parts.items():
        for child, count in inside.items():
            resources = resources + found[child] * count
        found[name] = resources
    return found


def split(channel: Resources, channels: int, rest: Resources) -> dict:
    """Channels and the rest on the two dies as the floorplan has them (hw.floorplan), with the allowance for
    the memory interconnect on die 0."""
    counts = [len(die) for die in channels_of_die(channels)]
    dies = [channel * count for count in counts]
    dies[SEQUENCER_DIE] = dies[SEQUENCER_DIE] + rest
    dies[0] = dies[0] + INTERCONNECT * (channels / INTERCONNECT_PORTS)
    slr0, slr1 = dies
    share = [die.share(SLR) for die in dies]
    return {
        "channels_on_slr0": counts[0],
        "channels_on_slr1": counts[1],
        "rest": f"SLR{SEQUENCER_DIE}",
        "interconnect": (INTERCONNECT * (channels / INTERCONNECT_PORTS)).to_json(),
        "slr0": slr0.to_json(),
        "slr1": slr1.to_json(),
        "slr0_share": share[0].to_json(),
        "slr1_share": share[1].to_json(),
        "fits": max(die.most for die in share) <= 1,
        "within_budget": all(max(die.lut, die.dsp) <= BUDGET for die in share),
    }
