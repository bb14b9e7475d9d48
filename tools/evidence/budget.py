"""The budget gate: what a kernel takes of each die that its link file grants, against what may be taken."""

from dataclasses import dataclass

from symlight.hw.floorplan import SEQUENCER_DIE, channels_of_die

from .utilisation import BUDGET, INTERCONNECT, INTERCONNECT_PORTS, SLR, Resources

BUDGETED = ("lut", "dsp")  # kinds that `BUDGET` limits; of the others a die has what it has


@dataclass(frozen=True)
class Excess:
    """More of a die than may be taken."""

    die: str
    kind: str  # field of `Resources`
    share: float  # of what the die has
    limit: float

    def __str__(self) -> str:
        return f"{self.die}: {self.share:.1%} of {self.kind.upper()}, at most {self.limit:.0%}"


def dies_granted(link: str, instance: str, dies: tuple[str, ...]) -> tuple[str, ...]:
    """Dies on which link file `link` lets `instance` lie: those of its `slr` lines, else all of `dies`.

    A `ValueError` names a die that the card has not.
    """
    named = [line.rpartition(":")[2] for line in link.splitlines() if line.startswith(f"slr={instance}:")]
    if unknown := set(named) - set(dies):
        raise ValueError(f"the link file grants {', '.join(sorted(unknown))}; the card has {', '.join(dies)}")
    return tuple(die for die in dies if die in named) if named else dies


def taken(
    channel: Resources, channels: int, rest: Resources, dies: tuple[str, ...], granted: tuple[str, ...]
) -> dict[str, Resources]:
    """Die -> what lies on it: the floorplan's parts where it is granted all dies, everything on the one die
    that is granted else; the memory interconnect on the first die always, for the memory is beside it."""
    found = dict.fromkeys(dies, Resources())
    for number, (die, numbers) in enumerate(zip(dies, channels_of_die(channels), strict=True)):
        place = die if granted == dies else granted[0]
        found[place] = found[place] + channel * len(numbers)
        if number == SEQUENCER_DIE:
            found[place] = found[place] + rest
    found[dies[0]] = found[dies[0]] + INTERCONNECT * (channels / INTERCONNECT_PORTS)
    return found


def excesses(
    used: dict[str, Resources], expected: dict[tuple[str, str], float] | None = None
) -> list[Excess]:
    """Every die and kind of which `used` takes more than `BUDGET` (kinds without budget: than there is).

    `expected` raises the limit of a (die, kind) to a share that is known to be taken: a shortfall that is
    stated, and may not grow.
    """
    found = []
    for die, resources in used.items():
        for kind, share in resources.share(SLR).to_json().items():
            limit = BUDGET if kind in BUDGETED else 1.0
            limit = max(limit, (expected or {}).get((die, kind), 0.0))
            if share > limit:
                found.append(Excess(die, kind, share, limit))
    return found
