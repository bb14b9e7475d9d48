"""What the kernel writes into the io buffer for the host: the tokens of a run, and the mailbox at its end."""

from amaranth.hdl import Array, Cat, Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from .config import Engine
from .interface import COUNTERS, MAILBOX, MAILBOX_MAGIC, Io
from .types import BEAT_ADDRESS

WORD_BITS = 32
HEADER_WORDS = 8  # words that are written last
BUILD_ID_WORDS = 4
FIELDS = tuple(name for name in MAILBOX if name not in ("magic", "build_id", "counters"))


def io_write_layout(engine: Engine) -> data.StructLayout:
    """A full beat on its way to beat `address` of the io buffer."""
    return data.StructLayout({"address": BEAT_ADDRESS, "word": 8 * engine.lanes})


def mailbox_fields() -> data.StructLayout:
    """Mailbox words that the sequencer supplies."""
    return data.StructLayout({name: WORD_BITS for name in FIELDS})


class TokenWriter(wiring.Component):
    """Writes each generated token to the io buffer at once, as the full beat of the tokens so far (later
    words are zero).

    Latency 1 cycle, throughput one token a cycle, back-pressure from `write` straight to `token`.

    Parameters
    ----------
    engine : Engine

    Members
    -------
    clear : In
        Pulse: a run starts, the next token is its first. No token in this cycle.
    token : In(stream.Signature(16))
        At most `Io.MAX_NEW` a run.
    count : Out
        Tokens of the run so far.
    write : Out(stream.Signature(io_write_layout(engine)))
    """

    LATENCY = 1

    def __init__(self, *, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "clear": In(1),
                "token": In(stream.Signature(16)),
                "count": Out(range(Io.MAX_NEW + 1)),
                "write": Out(stream.Signature(io_write_layout(engine))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        per_beat = self._engine.beat_bytes // 4
        place, beat = self.count[: exact_log2(per_beat)], self.count[exact_log2(per_beat) :]
        words = Signal(data.ArrayLayout(WORD_BITS, per_beat))
        m.d.comb += [
            self.token.ready.eq(~self.write.valid | self.write.ready),
            self.write.p.word.eq(words),
        ]
        with m.If(self.token.ready):
            m.d.sync += self.write.valid.eq(self.token.valid)
        with m.If(self.token.valid & self.token.ready):
            m.d.sync += [
                self.count.eq(self.count + 1),
                self.write.p.address.eq(Io.TOKENS // self._engine.beat_bytes + beat),
            ]
            with m.If(place == 0):
                m.d.sync += words.eq(0)
            with m.Switch(place):
                for k in range(per_beat):
                    with m.Case(k):
                        m.d.sync += words[k].eq(self.token.p)
        with m.If(self.clear):
            m.d.sync += self.count.eq(0)
        return m


class Mailbox(wiring.Component):
    """Writes the mailbox: all beats behind the first 8 words, then, when memory has answered, those with the
    first 8 words.

    Beats go out in descending order, so the very last holds word 0. The beat is shifted together from pairs
    of words; a pair is a 64-bit counter, or two words of the header.

    Latency: 3 cycles a pair of words and 1 a beat; 136 pairs take about 450 cycles, plus twice `SETTLE` and
    what the memory takes. Back-pressure: `write` may wait for any time. `start` is ignored while a mailbox is
    being written.

    Parameters
    ----------
    engine : Engine
    build_id : int or Value
        128 bits that name the build, words 12 to 15 of the mailbox.

    Attributes
    ----------
    SETTLE : int
        Cycles after a write has been handed over until `writes_quiet` counts: the write passes a few
        registers before it is seen as pending.

    Members
    -------
    start : In
        Pulse: write the mailbox. No add to a counter may be pending.
    fields : In(mailbox_fields())
        Constant from `start` to `done`.
    index, value : Out, In
        Read port of `Counters`.
    writes_quiet : In
        Every write has been answered by the memory.
    write : Out(stream.Signature(io_write_layout(engine)))
    done : Out
        Pulse: the mailbox is in memory.
    """

    SETTLE = 8

    def __init__(self, *, engine: Engine, build_id: int | Value):
        if isinstance(build_id, int) and not 0 <= build_id < 1 << (WORD_BITS * BUILD_ID_WORDS):
            raise ValueError(f"build id {build_id:#x} is not a number of {WORD_BITS * BUILD_ID_WORDS} bits")
        self._engine = engine
        self._build_id = (
            Const(build_id, WORD_BITS * BUILD_ID_WORDS) if isinstance(build_id, int) else build_id
        )
        super().__init__(
            {
                "start": In(1),
                "fields": In(mailbox_fields()),
                "index": Out(range(COUNTERS)),
                "value": In(64),
                "writes_quiet": In(1),
                "write": Out(stream.Signature(io_write_layout(engine))),
                "done": Out(1),
            }
        )

    def _header_pairs(self) -> Array:
        """The words in front of the counters, two by two."""
        words = [Const(0, WORD_BITS)] * MAILBOX["counters"]
        words[MAILBOX["magic"]] = Const(MAILBOX_MAGIC, WORD_BITS)
        for name in FIELDS:
            words[MAILBOX[name]] = self.fields[name]
        for k in range(BUILD_ID_WORDS):
            words[MAILBOX["build_id"] + k] = self._build_id[WORD_BITS * k : WORD_BITS * (k + 1)]
        return Array(Cat(words[k], words[k + 1]) for k in range(0, len(words), 2))

    def elaborate(self, platform):
        m = Module()
        headers = self._header_pairs()
        pairs_per_beat = self._engine.beat_bytes // 8
        last_pair = len(headers) + COUNTERS - 1
        header_beats = -(-HEADER_WORDS // (2 * pairs_per_beat))
        pair = Signal(range(last_pair + 1))
        # pairs of a beat go down to the first, so this is the beat in hand
        beat = pair[exact_log2(pairs_per_beat) :]
        header = Signal(2 * WORD_BITS)
        settle = Signal(range(self.SETTLE + 1))
        word = self.write.p.word
        m.d.comb += self.index.eq(pair - len(headers))
        m.d.sync += self.done.eq(0)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += pair.eq(last_pair)
                with m.If(self.start):
                    m.next = "READ"
            with m.State("READ"):
                m.next = "LOOK"
            with m.State("LOOK"):
                m.d.sync += header.eq(headers[pair[: exact_log2(len(headers))]])
                m.next = "SHIFT"
            with m.State("SHIFT"):
                with m.If(pair < len(headers)):
                    m.d.sync += word.eq(Cat(header, word))
                with m.Else():
                    m.d.sync += word.eq(Cat(self.value, word))
                m.d.sync += self.write.p.address.eq(Io.MAILBOX // self._engine.beat_bytes + beat)
                with m.If(pair[: exact_log2(pairs_per_beat)] == 0):
                    m.d.sync += self.write.valid.eq(1)
                    m.next = "WRITE"
                with m.Else():
                    m.d.sync += pair.eq(pair - 1)
                    m.next = "READ"
            with m.State("WRITE"):
                with m.If(self.write.ready):
                    m.d.sync += [self.write.valid.eq(0), settle.eq(self.SETTLE)]
                    with m.If((beat == header_beats) | (beat == 0)):
                        m.next = "SETTLE"
                    with m.Else():
                        m.d.sync += pair.eq(pair - 1)
                        m.next = "READ"
            with m.State("SETTLE"):
                with m.If(settle != 0):
                    m.d.sync += settle.eq(settle - 1)
                with m.Elif(self.writes_quiet):
                    m.d.sync += [pair.eq(pair - 1), self.done.eq(beat == 0)]
                    with m.If(beat == 0):
                        m.next = "IDLE"
                    with m.Else():
                        m.next = "READ"
        return m
