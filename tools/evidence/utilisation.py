"""What a build takes of the card: cells of every unit, multiplied by its instances, and a split over the
dies (SLRs)."""

from dataclasses import dataclass, fields

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

    def __mul__(self, count: int) -> "Resources":
        return Resources(**{f.name: getattr(self, f.name) * count for f in fields(self)})

    def share(self, of: "Resources") -> "Resources":
        """Fractions of `of`."""
        return Resources(**{f.name: getattr(self, f.name) / getattr(of, f.name) for f in fields(self)})

    @property
    def most(self) -> float:
        return max(getattr(self, f.name) for f in fields(self))

    def to_json(self) -> dict:
        return {f.name: round(getattr(self, f.name), 4) for f in fields(self)}


SLR = Resources(lut=365_000, ff=730_000, bram=564, uram=304, dsp=2_580)  # each of the two dies of a U50


def own(netlist: Netlist, units) -> tuple[Resources, dict[str, int]]:
    """Cells of a netlist without the units in it, and those units with their numbers."""
    lut = ff = bram = uram = dsp = 0
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
    """Resources of every unit with the units in it; `parts` in order, parents behind children."""
    found: dict[str, Resources] = {}
    for name, (resources, inside) in parts.items():
        for child, count in inside.items():
            resources = resources + found[child] * count
        found[name] = resources
    return found


def split(channel: Resources, channels: int, rest: Resources) -> dict:
    """Channels and the rest on two dies: the rest on SLR1, as many channels on SLR0 as keep the fuller die
    least full."""

    def dies(first: int):
        return channel * first, channel * (channels - first) + rest

    best = min(range(channels + 1), key=lambda first: max(die.share(SLR).most for die in dies(first)))
    slr0, slr1 = dies(best)
    return {
        "channels_on_slr0": best,
        "channels_on_slr1": channels - best,
        "rest": "SLR1",
        "slr0": slr0.to_json(),
        "slr1": slr1.to_json(),
        "slr0_share": slr0.share(SLR).to_json(),
        "slr1_share": slr1.share(SLR).to_json(),
        "fits": max(slr0.share(SLR).most, slr1.share(SLR).most) <= 1,
    }
