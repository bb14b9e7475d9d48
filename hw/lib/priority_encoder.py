"""Picking the lowest set bit of a mask, in few levels of logic: groups of bits side by side, then the first
group that has one."""

from amaranth.hdl import Cat, Mux, Signal, Value

GROUP = 4
COUNTED = 5  # leaves room in a LUT of six inputs for what makes a bit of the mask


class PriorityEncoder:
    """What the lowest set bit of `mask` selects. Made of wires in module `m`.

    `local` gets the lowest bit of each group.

    Attributes
    ----------
    chosen : Signal
        The bit, one-hot; zero if there is none.
    """

    def __init__(self, m, mask, local):
        bits = len(mask)
        self._local = local
        self._first = Signal(bits // GROUP)  # the group of the lowest bit
        self.chosen = Signal(bits)
        some = Signal(bits // GROUP)
        for g in range(bits // GROUP):
            group = mask[g * GROUP : (g + 1) * GROUP]
            m.d.comb += [some[g].eq(group.any()), self._first[g].eq(some[g] & ~some[:g].any())]
            for k in range(GROUP):
                m.d.comb += self._local[g * GROUP + k].eq(group[k] & ~group[:k].any())
        m.d.comb += self.chosen.eq(self._local & Cat(self._first[k // GROUP] for k in range(bits)))

    def select(self, values, width: int) -> Value:
        """The chosen one of `values`, one for each bit of the mask, of `width` bits; 0 if none is chosen."""
        groups = []
        for g in range(len(self._first)):
            members = range(g * GROUP, (g + 1) * GROUP)
            groups.append(_any([Mux(self._local[k], values[k], 0)[:width] for k in members]))
        return _any([Mux(self._first[g], group, 0)[:width] for g, group in enumerate(groups)])


def _any(values) -> Value:
    """The values ORed in a tree."""
    while len(values) > 1:
        values = [a | b for a, b in zip(values[::2], values[1::2])] + values[len(values) & ~1 :]
    return values[0]


def at_least(mask, most: int) -> list:
    """[k]: more than k bits of `mask` are set, for k < `most`: `COUNTED` bits at a time, then three
    sums at a time."""
    sums = [_fold([[bit] for bit in mask[i : i + COUNTED]], most) for i in range(0, len(mask), COUNTED)]
    while len(sums) > 1:
        sums = [_fold(sums[i : i + 3], most) for i in range(0, len(sums), 3)]
    return sums[0] + [0] * (most - len(sums[0]))


def _fold(sums, most: int) -> list:
    """Adds counts in unary, saturated at `most`."""
    total = sums[0]
    for term in sums[1:]:
        reached = []
        for k in range(min(most, len(total) + len(term))):
            ways = [
                total[i - 1] & term[k - i] for i in range(1, k + 1) if i <= len(total) and k - i < len(term)
            ]
            ways += total[k : k + 1] + term[k : k + 1]
            reached.append(_any(ways))
        total = reached
    return total
