"""What the gather picks apart: the vector buffer, and the command that says which of its words come next."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..types import CHANNEL_BITS, COLUMN_BITS, ChannelCommand, Work


def about_layout(engine: Engine) -> data.StructLayout:
    """What belongs to a word that is being picked apart."""
    return data.StructLayout(
        {
            "lanes": engine.lanes,  # lanes of the channel's group; none if it takes no part
            "stream": 1,  # pick zeros too, and send no rows
            "log_groups": 3,
            "index": 8,  # of the word in its vector
            "last": 1,  # last word of the command (HEAD: of the tile)
        }
    )


def word_layout(engine: Engine) -> data.StructLayout:
    """A word, and which of its elements are not zero: 9 bits an element, as block RAM has."""
    return data.StructLayout({"word": 8 * engine.lanes, "some": engine.lanes})


class NextCommand(wiring.Component):
    """Commands in order, decoded while the one before them runs.

    Members
    -------
    commands, columns, log_groups, group, active : as `Gather`
    ready : In
        Take the decoded command.
    valid, about, words, tiles, head : Out
        Decoded: description of its first word, words and tiles less one, HEAD.
    """

    def __init__(self, engine: Engine):
        self._lanes = engine.lanes
        super().__init__(
            {
                "commands": In(stream.Signature(ChannelCommand)),
                "columns": Out(COLUMN_BITS),
                "log_groups": Out(3),
                "group": In(CHANNEL_BITS),
                "active": In(1),
                "ready": In(1),
                "valid": Out(1),
                "about": Out(about_layout(engine)),
                "words": Out(8),
                "tiles": Out(12),
                "head": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        command = self.commands.p
        # cycles the command at the input has had: its place takes one, its lanes another
        settled = Signal(2)
        groups, lanes = Signal(CHANNEL_BITS), Signal(self._lanes)
        is_head, work = Signal(), Signal()
        m.d.comb += [
            self.columns.eq(command.columns),
            self.log_groups.eq(command.log_groups),
            is_head.eq(command.work == Work.HEAD),
            work.eq(is_head | (command.work == Work.MATRIX)),
            groups.eq((1 << command.log_groups) - 1),
            # Not in the cycle in which the one before it is taken: no path leads through both.
            self.commands.ready.eq(~work | ((settled == 2) & ~self.valid)),
        ]
        m.d.sync += [
            settled.eq(Mux(self.commands.valid & ~self.commands.ready, Mux(settled == 2, 2, settled + 1), 0)),
            lanes.eq(Cat(self.active & ((lane & groups) == self.group) for lane in range(self._lanes))),
        ]
        with m.If(self.ready):
            m.d.sync += self.valid.eq(0)
        with m.If(self.commands.valid & self.commands.ready & work):
            m.d.sync += [
                self.valid.eq(1),
                self.words.eq(command.words - 1),
                self.tiles.eq(Mux(is_head, command.count - 1, 0)),
                self.head.eq(is_head),
                self.about.lanes.eq(lanes),
                self.about.stream.eq(command.stream),
                self.about.log_groups.eq(command.log_groups),
                self.about.last.eq(command.words == 1),
                Assert(command.words != 0, "a command without words"),
            ]
        return m


class VectorBuffer(wiring.Component):
    """Circular memory of broadcast words, read by one command after the other.

    A command reads `words` words, HEAD the same ones for every tile. A word is free again when it was read
    (HEAD: at the end of the command). Latency from `word` to `there`: 2 (memory); one word a cycle.

    Members
    -------
    word_valid, word : In
        As `Gather`, and which elements are not zero.
    next_ready, next : Out, In
        The decoded next command.
    there, take : Out, In
        A word is there; it is taken if it is.
    kept, kept_about : Out
        It, at the memory's output, and what belongs to it.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        self._about = about_layout(engine)
        super().__init__(
            {
                "word_valid": In(1),
                "word": In(word_layout(engine)),
                "next_ready": Out(1),
                "next_valid": In(1),
                "next_about": In(self._about),
                "next_words": In(8),
                "next_tiles": In(12),
                "next_head": In(1),
                "there": Out(1),
                "take": In(1),
                "kept": Out(word_layout(engine)),
                "kept_about": Out(self._about),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._engine.vector_words
        m.submodules.memory = memory = Memory(shape=word_layout(self._engine), depth=depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        # Pointers have a bit more than addresses: full is not empty.
        put, get, oldest = (Signal(range(2 * depth), name=name) for name in ("put", "get", "oldest"))
        running = Signal()
        empty = Signal(init=1)  # get == put
        run = Signal(self._about)
        m.d.comb += [
            write.en.eq(self.word_valid),
            write.addr.eq(put),
            read.addr.eq(get),
            write.data.eq(self.word),
            self.kept.eq(read.data),
            read.en.eq(running & ~empty & (~self.there | self.take)),
        ]
        with m.If(self.word_valid):
            m.d.sync += [
                put.eq(put + 1),
                Assert((put - oldest)[: len(put)] < depth, "vector buffer overflow"),
            ]
        with m.If(read.en):
            m.d.sync += [self.there.eq(1), self.kept_about.eq(run)]
        with m.Elif(self.take):
            m.d.sync += self.there.eq(0)
        step, again = Signal(), Signal()
        m.d.comb += step.eq(read.en)
        # What the pointers would say is known a cycle ahead. A next tile finds its words there.
        with m.If(step):
            m.d.sync += empty.eq(((get + 1)[: len(get)] == put) & ~self.word_valid & ~again)
        with m.Elif(self.word_valid):
            m.d.sync += empty.eq(0)
        self._step(m, step, again, get, oldest, run, running)
        return m

    def _step(self, m, step, again, get, oldest, run, running):
        """Move on by one word; the end of a command loads the next one in the same cycle."""
        head, end, start = Signal(), Signal(), Signal.like(get)
        words, tiles = Signal(8), Signal(12)  # both less one
        m.d.comb += [
            again.eq(run.last & (tiles != 0)),
            end.eq(step & run.last & (tiles == 0)),
            self.next_ready.eq(end | ~running),
        ]
        with m.If(step):
            m.d.sync += [get.eq(get + 1), run.index.eq(run.index + 1), run.last.eq(run.index + 1 == words)]
            with m.If(run.last):
                m.d.sync += [run.index.eq(0), run.last.eq(words == 0), tiles.eq(tiles - 1)]
                with m.If(tiles != 0):
                    m.d.sync += get.eq(start)
            with m.If(~head | end):
                m.d.sync += oldest.eq(get + 1)
        with m.If(self.next_ready):
            m.d.sync += running.eq(self.next_valid)
            with m.If(self.next_valid):
                m.d.sync += [
                    head.eq(self.next_head),
                    words.eq(self.next_words),
                    tiles.eq(self.next_tiles),
                    run.eq(self.next_about),
                    start.eq(Mux(end, get + 1, get)),
                ]
