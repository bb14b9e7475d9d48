"""Chooses a token from the channels' candidate lists, and writes the candidates down.

BEST words, answers to NEXT ─► merge ─► offers, largest first ─┬─► sampler ─► token
                                                               └─► candidate writer ─► io buffer
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from symlight.model.sampling import CANDIDATES

from ..config import Engine
from ..interface import Io
from ..mailbox import io_write_layout
from ..types import drain_layout
from .candidate_writer import CandidateWriter
from .merge import CandidateMerge
from .sampler import Sampler, Settings


class TokenChoice(wiring.Component):
    """The merge with the two units that take its offers: each offer goes to every unit that still takes any.

    Parameters
    ----------
    engine : Engine

    Members
    -------
    sampling, listing : In
        Whether a token is drawn, whether candidates are written; stable during a run.
    settings, position, number : In
        Of the draw; position of the token, and which one of the run it is. Stable from `start` to `done`.
    best_valid, first, word : In
        A BEST word of the drain bus, channel by channel; `first` is channel 0.
    start : In
        Pulse, after the last of them; only where `sampling` or `listing`.
    request_valid, channel : Out
        Pulse: a NEXT request for a channel.
    answer_valid, answer_channel : In
        `word` answers a request for that channel; answers come in order.
    busy : Out
        From `start` on; no request is under way when it falls.
    done, token : Out
        Pulse: drawn and written, `busy` has fallen; the drawn token, stable until the next start.
    write : Out(stream.Signature(io_write_layout(engine)))
    """

    def __init__(self, engine: Engine):
        self._merge, self._sampler = CandidateMerge(engine), Sampler(candidates=CANDIDATES)
        self._writer = CandidateWriter(engine)
        super().__init__(
            {
                "sampling": In(1),
                "listing": In(1),
                "settings": In(Settings),
                "position": In(21),
                "number": In(range(Io.MAX_NEW + 1)),
                "best_valid": In(1),
                "first": In(1),
                "word": In(drain_layout(engine)),
                "start": In(1),
                "request_valid": Out(1),
                "channel": Out(self._merge.channel.shape()),
                "answer_valid": In(1),
                "answer_channel": In(self._merge.channel.shape()),
                "busy": Out(1),
                "done": Out(1),
                "token": Out(self._sampler.token.shape()),
                "write": Out(stream.Signature(io_write_layout(engine))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.merge = merge = self._merge
        m.submodules.sampler = sampler = self._sampler
        m.submodules.writer = writer = self._writer
        connect(m, writer.write, flipped(self.write))
        draws, running = Signal(), Signal()  # the sampler is at work; either unit is, or the merge ends
        m.d.comb += [
            merge.best_valid.eq(self.best_valid),
            merge.first.eq(self.first),
            merge.word.eq(self.word),
            merge.answer_valid.eq(self.answer_valid),
            merge.answer_channel.eq(self.answer_channel),
            merge.start.eq(self.start),
            merge.stop.eq(running & ~draws & ~writer.busy),
            self.request_valid.eq(merge.request_valid),
            self.channel.eq(merge.channel),
            self.busy.eq(merge.busy),
            sampler.start.eq(self.start & self.sampling),
            sampler.settings.eq(self.settings),
            sampler.position.eq(self.position),
            self.token.eq(sampler.token),
            writer.start.eq(self.start & self.listing),
            writer.number.eq(self.number),
        ]
        with m.If(sampler.done):
            m.d.sync += draws.eq(0)
        m.d.sync += self.done.eq(0)
        with m.If(merge.stop & ~merge.busy):
            m.d.sync += [running.eq(0), self.done.eq(1)]
        with m.If(self.start):
            m.d.sync += [running.eq(1), draws.eq(self.sampling)]
        # An offer passes when all that still take any are ready; without one it waits for the end.
        offer = merge.offer
        m.d.comb += [
            sampler.offer.p.eq(offer.p),
            writer.offer.p.eq(offer.p),
            sampler.offer.valid.eq(offer.valid & (writer.offer.ready | ~writer.busy)),
            writer.offer.valid.eq(offer.valid & (sampler.offer.ready | ~sampler.taking)),
            offer.ready.eq(
                (sampler.offer.ready | ~sampler.taking)
                & (writer.offer.ready | ~writer.busy)
                & (sampler.taking | writer.busy)
            ),
        ]
        return m
