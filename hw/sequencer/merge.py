"""Merges the channels' candidates into one descending list, by a tournament of their next ones.

best of each channel ─► a number per channel ─► scan ─► largest ─► offer
                              ▲                            │ its channel's next
                              └───────── answer ◄──────────┘
"""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..channel.logits import ID_BITS, KEY_BITS, LOGIT_BITS
from ..config import Engine
from ..lib.extremes import ExtremeScan
from ..types import drain_layout
from .sampler import Offer

BANKS = 4


class CandidateMerge(wiring.Component):
    """Offers the candidates of all channels in descending order.

    It holds the best row left of each channel. While the winner's channel is asked for its next row, a scan
    finds the best of the other channels; the larger of both is offered next. So an offer takes the longer of
    the scan and the way to a channel and back, and a few cycles.

    Parameters
    ----------
    engine : Engine

    Members
    -------
    best_valid, first, word : In
        A BEST word of the drain bus, channel by channel; `first` is channel 0.
    start : In
        Pulse, after the last of them: begin to offer.
    stop : In
        Pulse: no further offer is needed.
    request_valid, channel : Out
        Pulse: a NEXT request for a channel.
    answer_valid : In
        `word` answers it.
    offer : Out(stream.Signature(Offer))
    busy : Out
        From `start` to `stop`.
    """

    def __init__(self, engine: Engine):
        count = max(2 * BANKS, 1 << ceil_log2(engine.channels))
        self._keys = ExtremeScan(count=count, banks=BANKS, bits=KEY_BITS)
        super().__init__(
            {
                "best_valid": In(1),
                "first": In(1),
                "word": In(drain_layout(engine)),
                "start": In(1),
                "stop": In(1),
                "request_valid": Out(1),
                "channel": Out(range(count)),
                "answer_valid": In(1),
                "offer": Out(stream.Signature(Offer)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.keys = keys = self._keys
        # a word of the drain bus, a cycle later: its row as a number that orders rows
        logit, some, refused = Cat(self.word[0], self.word[1])[:LOGIT_BITS], self.word[3][0], self.word[3][1]
        key, arrived, again = Signal(KEY_BITS), Signal(), Signal()
        captured, place, counter = Signal(), Signal.like(keys.place), Signal.like(keys.place)
        number = Cat(~self.word[2][:ID_BITS], logit[:-1], ~logit[-1])
        m.d.sync += [
            captured.eq(self.best_valid),
            arrived.eq(self.answer_valid & ~refused),
            again.eq(self.answer_valid & refused),
        ]
        with m.If(self.best_valid | self.answer_valid):
            m.d.sync += key.eq(number & some.replicate(KEY_BITS))
        with m.If(self.best_valid):
            m.d.sync += [place.eq(counter), counter.eq(counter + 1)]
            with m.If(self.first):
                m.d.sync += [place.eq(0), counter.eq(1)]
        with m.If(captured):
            self._store(m, place, key)
        winner, offered, other, known = Signal(KEY_BITS), Signal(), Signal(), Signal()
        m.d.comb += [
            self.offer.p.logit.eq(Cat(winner[ID_BITS:-1], ~winner[-1]).as_signed()),
            self.offer.p.id.eq(~winner[:ID_BITS]),
            self.offer.p.valid.eq(winner != 0),
        ]
        m.d.sync += self.request_valid.eq(0)
        with m.If(self.offer.valid & self.offer.ready):
            m.d.sync += [self.offer.valid.eq(0), offered.eq(1)]
        with m.If(again):
            m.d.sync += self.request_valid.eq(1)
        with m.If(arrived):
            m.d.sync += known.eq(1)
        with m.If(keys.done):
            m.d.sync += other.eq(1)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(self.start):
                    self._scan(m)
                    m.next = "FIRST"
            with m.State("FIRST"):
                with m.If(keys.done):
                    m.d.sync += [winner.eq(keys.found), self.channel.eq(keys.found_place)]
                    m.next = "OFFER"
            with m.State("OFFER"):  # its place is empty while the best of the others is looked for
                self._store(m, self.channel, 0)
                self._scan(m)
                m.d.sync += [
                    self.offer.valid.eq(1),
                    self.request_valid.eq(winner != 0),
                    offered.eq(0),
                    other.eq(0),
                    known.eq(winner == 0),
                ]
                m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(offered & other & known):
                    with m.If(key > keys.found):  # the same channel again; the others are as they were
                        m.d.sync += [
                            winner.eq(key),
                            self.offer.valid.eq(1),
                            self.request_valid.eq(1),
                            offered.eq(0),
                            known.eq(0),
                        ]
                    with m.Else():
                        self._store(m, self.channel, key)
                        m.d.sync += [winner.eq(keys.found), self.channel.eq(keys.found_place)]
                        m.next = "OFFER"
                with m.If(self.stop):
                    m.d.sync += self.offer.valid.eq(0)
                    m.next = "DRAIN"
            with m.State("DRAIN"):  # a request may be on its way, and a scan may run
                with m.If(other & known):
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        return m

    def _store(self, m, place, key):
        m.d.comb += [self._keys.write.eq(1), self._keys.place.eq(place), self._keys.value.eq(key)]

    def _scan(self, m):
        m.d.comb += [self._keys.begin.eq(1), self._keys.largest.eq(1)]
