"""Writes the candidates of a chosen token to the io buffer: a word of 64 bits each, in descending order."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from symlight.model.sampling import CANDIDATES

from ..channel.logits import WORD_BYTES
from ..config import Engine
from ..interface import Io
from ..mailbox import io_write_layout
from .sampler import Offer


class CandidateWriter(wiring.Component):
    """Takes the `CANDIDATES` largest rows, or all where there are fewer, and packs them into beats.

    Token n of a run has place n mod `Io.CANDIDATE_TOKENS`; a word is the logit in its low 48 bits and the id
    above them. Where there are fewer rows than places, the rest of the token's place is undefined.
    Throughput: an offer a cycle, one cycle in a beat less. Back-pressure: from `write` to `offer`.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    LATENCY : int
        Cycles from the last offer to `done`, when `write` is taken at once.

    Members
    -------
    start, number : In
        Pulse, while not `busy`; which token of the run it is.
    busy : Out
        From `start` to `done`.
    offer : In(stream.Signature(Offer))
    done : Out
        Pulse: every beat has been taken.
    write : Out(stream.Signature(io_write_layout(engine)))
    """

    LATENCY = 2

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "start": In(1),
                "number": In(range(Io.MAX_NEW + 1)),
                "busy": Out(1),
                "offer": In(stream.Signature(Offer)),
                "done": Out(1),
                "write": Out(stream.Signature(io_write_layout(engine))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        per_beat = self._engine.beat_bytes // WORD_BYTES
        beats = CANDIDATES // per_beat
        first = Io.CANDIDATES // self._engine.beat_bytes
        if first % (Io.CANDIDATE_TOKENS * beats):
            raise ValueError(f"Io.CANDIDATES = {Io.CANDIDATES:#x} is not a multiple of the size of its room")
        taken = Signal(range(CANDIDATES))  # offers so far
        slot = Signal(range(Io.CANDIDATE_TOKENS))
        words = [Signal(8 * WORD_BYTES, name=f"word_{i}", reset_less=True) for i in range(per_beat)]
        place, last = taken[: exact_log2(per_beat)], Signal()
        base = first >> exact_log2(Io.CANDIDATE_TOKENS * beats)
        m.d.comb += [
            self.write.p.word.eq(Cat(*words)),
            self.offer.ready.eq(self.busy & ~last & ~self.write.valid),
        ]
        m.d.sync += self.done.eq(0)
        with m.If(self.write.valid & self.write.ready):
            m.d.sync += self.write.valid.eq(0)
        with m.If(self.offer.valid & self.offer.ready):
            m.d.sync += [
                taken.eq(taken + 1),
                self.write.p.address.eq(Cat(taken[exact_log2(per_beat) :], slot, base)),
                last.eq(~self.offer.p.valid | taken.all()),
                # a beat goes when it is full, or with the last row; with none in it, in vain
                self.write.valid.eq(place.all() | ~self.offer.p.valid),
            ]
            with m.Switch(place):
                for i, word in enumerate(words):
                    with m.Case(i):
                        m.d.sync += word.eq(Cat(self.offer.p.logit, self.offer.p.id))
        with m.If(last & ~self.write.valid):
            m.d.sync += [last.eq(0), self.busy.eq(0), self.done.eq(1)]
        with m.If(self.start):
            m.d.sync += [self.busy.eq(1), taken.eq(0), slot.eq(self.number)]
        return m
