"""A small memory of numbers, and the largest or smallest of them by a scan.

write ─► banks ─► an entry of each ─► the best of these ─► the best so far
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2


class ExtremeScan(wiring.Component):
    """`count` unsigned numbers in distributed memory, of which a scan finds an extreme and its place.

    A scan reads `banks` numbers per cycle. Numbers written while it runs may be missed. Of equal extremes,
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
    every : In
        With `write`: to the places of every bank beside it.
    begin, largest : In
        Pulse: a scan begins; what it looks for. No scan runs.
    done : Out
        Pulse: the scan is over.
    found, found_place : Out
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
                "every": In(1),
                "begin": In(1),
                "largest": In(1),
                "done": Out(1),
                "found": Out(bits),
                "found_place": Out(range(count)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        active, largest, address = Signal(), Signal(), Signal(range(self._depth))
        step = data.StructLayout({"valid": 1, "first": 1, "last": 1, "address": range(self._depth)})
        steps = [Signal(step, name=f"step_{level}") for level in range(self._levels + 1)]
        end = address == self._depth - 1
        with m.If(active):
            m.d.sync += [address.eq(address + 1), active.eq(~end)]
        with m.If(self.begin):
            m.d.sync += [active.eq(1), largest.eq(self.largest), address.eq(0)]
        m.d.sync += [
            steps[0].valid.eq(active),
            steps[0].first.eq(address == 0),
            steps[0].last.eq(end),
            steps[0].address.eq(address),
            *(after.eq(before) for before, after in zip(steps, steps[1:])),
            self.done.eq(steps[-1].valid & steps[-1].last),
        ]
        value, bank = self._choose(m, self._read(m, address), largest)
        newest = steps[-1]
        with m.If(newest.valid & (newest.first | ((value > self.found) == largest))):
            m.d.sync += [self.found.eq(value), self.found_place.eq(Cat(bank, newest.address))]
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
                write.en.eq(self.write & (self.every | (self.place[:split] == bank))),
                read.addr.eq(address),
            ]
            written = -(-(self._used - bank) // self._banks)  # entries of this bank that exist
            exists = 1 if written >= self._depth else address < max(written, 0)
            m.d.sync += entry.eq(Mux(exists, read.data, 0))
            entries.append(entry)
        return entries

    def _choose(self, m, entries, largest):
        """(the best of the entries, its bank), a register behind each level of a tree."""
        layer = [(entry, None) for entry in entries]
        for level in range(self._levels):
            above = []
            for number, ((low, low_bank), (high, high_bank)) in enumerate(zip(layer[::2], layer[1::2])):
                name = f"{level}_{number}"
                value = Signal(self._bits, name=f"value_{name}", reset_less=True)
                bank = Signal(level + 1, name=f"bank_{name}", reset_less=True)
                upper = (high > low) == largest
                below = [] if low_bank is None else [Mux(upper, high_bank, low_bank)]
                m.d.sync += [value.eq(Mux(upper, high, low)), bank.eq(Cat(*below, upper))]
                above.append((value, bank))
            layer = above
        return layer[0]
