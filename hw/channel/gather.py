"""Active-row gather: broadcast words in, nonzero elements of this channel's group out, one a cycle.

    broadcast ─► vector buffer ─► word register ─► lowest picked element ─► items ─► lanes
                                                              └──────────► rows  ─► fetch
"""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..types import ChannelCommand, Item, Work


ROW = data.StructLayout({"row": 13, "valid": 1, "last": 1})     # a row of the channel's group, or the end of the list


class Gather(wiring.Component):
    """Works MATRIX and HEAD commands in order on the words of the vector buffer.

    In active mode it picks the nonzero elements of the channel's group and sends each as an item and as a row; in stream mode all elements of
    the group, as items only. The last item of a command (of a tile, for HEAD) carries `last`; if the last word has no picked
    element, a marker without row does.

    Latency: 3 cycles from a word to its first item. Throughput: an item a cycle; a word without a picked element costs one
    cycle. Back-pressure: waits for either stream; the vector buffer cannot wait, `engine.vector_words` hold all vectors alive.

    Attributes
    ----------
    LATENCY : int
        Cycles from a word to its first item, when the command has settled.

    Members
    -------
    commands : In(stream of ChannelCommand)
        SIDE and FENCE are passed over.
    group, active : In
        Place of this channel for the `columns` output, one cycle later.
    columns, log_groups : Out
        Of the current command.
    word_valid, word : In
        Broadcast VECTOR word.
    items : Out(stream of Item)
    rows : Out(stream of ROW)
    """

    LATENCY = 3

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__({
            "commands": In(stream.Signature(ChannelCommand)), "columns": Out(6), "log_groups": Out(3), "group": In(5), "active": In(1),
            "word_valid": In(1), "word": In(8 * engine.lanes),
            "items": Out(stream.Signature(Item)), "rows": Out(stream.Signature(ROW)),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, depth = self._engine.lanes, self._engine.vector_words
        m.submodules.memory = memory = Memory(
            shape=data.StructLayout({"word": 8 * lanes, "nonzero": lanes}), depth=depth, init=[]
        )
        write, read = memory.write_port(), memory.read_port(domain="comb")
        level = Signal(range(depth + 1))        # words that are not released
        m.d.comb += [
            write.en.eq(self.word_valid), write.data.word.eq(self.word),
            write.data.nonzero.eq(Cat(self.word.word_select(i, 8).any() for i in range(lanes))),
        ]
        with m.If(self.word_valid):
            m.d.sync += [write.addr.eq(write.addr + 1), Assert(level != depth, "vector buffer overflow")]
        self._head = head = self.commands.p
        self._released = Signal(9)              # words released this cycle
        m.d.sync += level.eq(level + self.word_valid - self._released)
        m.d.comb += [self.columns.eq(head.columns), self.log_groups.eq(head.log_groups)]
        self._pattern(m)
        self._words(m, read, level)
        self._pick(m)
        return m

    def _pattern(self, m):
        """Elements of a word that belong to the channel's group, a register behind its place."""
        lanes = self._engine.lanes
        self._elements = Signal(lanes)
        picked = Signal(lanes)
        with m.Switch(self._head.log_groups):
            for log in range(lanes.bit_length()):
                with m.Case(log):
                    m.d.comb += picked.eq(Cat((e % (1 << log)) == self.group for e in range(lanes)))
        m.d.sync += self._elements.eq(Mux(self.active, picked, 0))

    def _words(self, m, read, level):
        """Words of the buffer into the word register, tile after tile."""
        head, lanes = self._head, self._engine.lanes
        self._bytes = [Signal(8, name=f"byte{i}") for i in range(lanes)]
        self._mask = Signal(lanes)              # picked elements still to send
        self._holds = Signal()                  # the register holds a word (perhaps with nothing to send)
        self._index, self._final = Signal(8), Signal()
        self._active_mode, self._shift = Signal(), Signal(3)
        self._taking = Signal()                 # the register is free for the next word at the end of this cycle
        base, word, tile = Signal.like(read.addr), Signal(8), Signal(12)
        settled = Signal(2)
        work = (head.work == Work.MATRIX) | (head.work == Work.HEAD)
        there = self.commands.valid & work & (settled == 3) & (level > word)
        load, last_word = Signal(), Signal()
        self._loading = load
        last_tile = (head.work == Work.MATRIX) | (tile == head.count - 1)
        done = load & last_word & last_tile
        m.d.comb += [
            read.addr.eq(base + word), last_word.eq(word == head.words - 1), load.eq(there & self._taking),
            self.commands.ready.eq(Mux(work, done, 1)), self._released.eq(Mux(done, head.words, 0)),
        ]
        m.d.sync += settled.eq(Mux(self.commands.valid & ~self.commands.ready, Mux(settled == 3, 3, settled + 1), 0))
        with m.If(load):
            picks = Mux(head.stream, ~0, read.data.nonzero) & self._elements
            m.d.sync += [
                self._holds.eq(1), self._mask.eq(picks), self._index.eq(word), self._final.eq(last_word),
                self._active_mode.eq(~head.stream), self._shift.eq(head.log_groups),
                word.eq(Mux(last_word, 0, word + 1)),
            ]
            m.d.sync += [byte.eq(read.data.word[8 * i:8 * i + 8]) for i, byte in enumerate(self._bytes)]
            with m.If(last_word):
                m.d.sync += tile.eq(Mux(last_tile, 0, tile + 1))
                with m.If(last_tile):
                    m.d.sync += base.eq(base + head.words)
        with m.Elif(self._taking):
            m.d.sync += self._holds.eq(0)

    def _pick(self, m):
        """The lowest picked element goes out; a final word with nothing picked sends the marker."""
        lanes = self._engine.lanes
        one = Signal(lanes)
        m.d.comb += one.eq(self._mask & (~self._mask + 1)[:lanes])
        rest = self._mask & ~one
        empty = self._mask == 0
        send = self._holds & (~empty | self._final)
        value = Signal(8)
        element = Signal(range(lanes))
        for i in range(lanes):
            with m.If(one[i]):
                m.d.comb += [value.eq(self._bytes[i]), element.eq(i)]
        room = Signal()
        advance = send & room
        m.d.comb += self._taking.eq(~self._holds | (Mux(send, advance, 1) & (rest == 0)))
        with m.If(advance & ~self._loading):
            m.d.sync += self._mask.eq(rest)
        # One register for both streams; each is handed over on its own.
        item, row = Signal(Item), Signal(ROW)
        item_waits, row_waits = Signal(), Signal()
        m.d.comb += [
            room.eq((~item_waits | self.items.ready) & (~row_waits | self.rows.ready)),
            self.items.valid.eq(item_waits), self.items.p.eq(item), self.rows.valid.eq(row_waits), self.rows.p.eq(row),
        ]
        with m.If(self.items.ready):
            m.d.sync += item_waits.eq(0)
        with m.If(self.rows.ready):
            m.d.sync += row_waits.eq(0)
        with m.If(advance):
            m.d.sync += [
                item_waits.eq(1), item.value.eq(Mux(empty, 0, value)), item.valid_row.eq(~empty),
                item.last.eq(self._final & (rest == 0)),
                row_waits.eq(self._active_mode), row.row.eq(Cat(element, self._index) >> self._shift),
                row.valid.eq(~empty), row.last.eq(self._final & (rest == 0)),
            ]
