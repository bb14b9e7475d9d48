"""A small memory of numbers, and the two largest of them by a scan.

write ─► banks ─► an entry of each ─► the best two of these ─► the best two so far
"""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2


class ExtremeScan(wiring.Component):
    """`count` unsigned numbers in distributed memory, of which a scan finds the two largest and their places.

    A scan reads `banks` numbers per cycle. Numbers written while it runs may be missed. Of equal numbers,
    any place may come out.

    Parameters
    ----------
    count, banks : int
        Powers of two, `banks` < `count`. Numbers n * banks .. n * banks + banks - 1 lie beside each other.
    bits : int
    used : int or None
        Places from here on do not exist: a scan takes them for 0, whatever their memory holds. A memory holds
        anything until it is written. None: all places exist.

    Attributes
    ----------
    LATENCY : int
        Cycles from `begin` to `done`.

    Members
    -------
    write, place, value : In
        Write `value` to `place`.
    begin : In
        Pulse: a scan begins. No scan runs.
    done : Out
        Pulse: the scan is over.
    found, found_place, second, second_place : Out
        The result; stable until the next scan.
    """

    def __init__(self, *, count: int, banks: int, bits: int, used: int | None = None):
        self._depth, self._banks, self._bits = count // banks, banks, bits
        self._used = count if used is None else used
        self._levels = exact_log2(banks)
        self.LATENCY = self._depth + self._levels + 2
        super().__init__(
            {
                "write": In(1),
                "place": In(range(count)),
                "value": In(bits),
                "begin": In(1),
                "done": Out(1),
                "found": Out(bits),
                "found_place": Out(range(count)),
                "second": Out(bits),
                "second_place": Out(range(count)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        active, address = Signal(), Signal(range(self._depth))
        step = data.StructLayout({"valid": 1, "first": 1, "last": 1, "address": range(self._depth)})
        steps = [Signal(step, name=f"step_{level}") for level in range(self._levels + 1)]
        end = address == self._depth - 1
        with m.If(active):
            m.d.sync += [address.eq(address + 1), active.eq(~end)]
        with m.If(self.begin):
            m.d.sync += [active.eq(1), address.eq(0)]
        m.d.sync += [
            steps[0].valid.eq(active),
            steps[0].first.eq(address == 0),
            steps[0].last.eq(end),
            steps[0].address.eq(address),
            *(after.eq(before) for before, after in zip(steps, steps[1:])),
            self.done.eq(steps[-1].valid & steps[-1].last),
        ]
        pairs = [((entry, C(bank, self._levels)), None) for bank, entry in enumerate(self._read(m, address))]
        for level in range(self._levels):
            halves = enumerate(zip(pairs[::2], pairs[1::2]))
            pairs = [self._registers(m, f"{level}_{i}", _best_two(*both)) for i, both in halves]
        newest = steps[-1]
        (best, bank), (next_best, next_bank) = pairs[0]
        here = ((best, Cat(bank, newest.address)), (next_best, Cat(next_bank, newest.address)))
        so_far = ((self.found, self.found_place), (self.second, self.second_place))
        outputs = (self.found, self.found_place, self.second, self.second_place)
        two = _best_two(so_far, here)
        for chosen in ((here, newest.first), (two, ~newest.first)):
            (high, high_place), (low, low_place) = chosen[0]
            with m.If(newest.valid & chosen[1]):
                m.d.sync += [
                    output.eq(value) for output, value in zip(outputs, (high, high_place, low, low_place))
                ]
        return m

    def _read(self, m, address):
        """An entry of each bank, in registers."""
        entries, split = [], self._levels
        for bank in range(self._banks):
            m.submodules[f"bank{bank}"] = memory = Memory(shape=self._bits, depth=self._depth, init=[])
            write, read = memory.write_port(), memory.read_port(domain="comb")
            entry = Signal(self._bits, name=f"entry_{bank}", reset_less=True)
            m.d.comb += [
                write.addr.eq(self.place[split:]),
                write.data.eq(self.value),
                write.en.eq(self.write & (self.place[:split] == bank)),
                read.addr.eq(address),
            ]
            written = -(-(self._used - bank) // self._banks)  # entries of this bank that exist
            exists = 1 if written >= self._depth else address < max(written, 0)
            m.d.sync += entry.eq(Mux(exists, read.data, 0))
            entries.append(entry)
        return entries

    def _registers(self, m, name, two):
        """The same two numbers and places, a cycle later."""
        later = []
        for kind, (value, place) in zip(("best", "next"), two):
            held = Signal(self._bits, name=f"{kind}_{name}", reset_less=True)
            held_place = Signal(len(place), name=f"{kind}_place_{name}", reset_less=True)
            m.d.sync += [held.eq(value), held_place.eq(place)]
            later.append((held, held_place))
        return tuple(later)


def _best_two(left, right):
    """The best two of two pairs ((largest, place), (second, place)); without seconds, of two numbers.

    All comparisons are made side by side.
    """
    (left_high, left_low), (right_high, right_low) = left, right
    upper = right_high[0] > left_high[0]
    high = _choose(upper, right_high, left_high)
    if left_low is None:
        return high, _choose(upper, left_high, right_high)
    below_right = _choose(left_high[0] > right_low[0], left_high, right_low)
    below_left = _choose(right_high[0] > left_low[0], right_high, left_low)
    return high, _choose(upper, below_right, below_left)


def _choose(condition, one, other):
    return tuple(Mux(condition, a, b) for a, b in zip(one, other))
