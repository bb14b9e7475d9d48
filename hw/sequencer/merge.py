"""Merges the channels' candidates into one descending list.

best of each channel ─► a number per channel ─► scan ─► the two largest ─► offers
answers ─► the one behind it, per channel ───────┘ takes its place; its channel is asked for another
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..channel.logits import ID_BITS, KEY_BITS, LOGIT_BITS
from ..config import Engine
from ..lib.extremes import ExtremeScan
from ..types import drain_layout
from .sampler import Offer

BANKS = 8  # numbers that a scan reads per cycle


class CandidateMerge(wiring.Component):
    """Offers the candidates of all channels in descending order.

    It holds the best row left of each channel, and the one behind that, which is asked for ahead of time: so
    the way to a channel and back is waited for only when the same channel wins again soon. A scan gives two
    offers: its largest row, and then its second or the one behind the largest. Throughput: two offers in
    `TWO_OFFERS` cycles. Back-pressure: from `offer`.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    TWO_OFFERS : int
        Cycles of two offers whose successors are there.

    Members
    -------
    best_valid, first, word : In
        A BEST word of the drain bus, channel by channel; `first` is channel 0.
    start : In
        Pulse, after the last of them: begin to offer.
    stop : In
        High from when no further offer is needed until `busy` falls.
    request_valid, channel : Out
        Pulse: a NEXT request for a channel.
    answer_valid, answer_channel : In
        `word` answers a request for that channel. Answers come in the order of the requests.
    offer : Out(stream.Signature(Offer))
    busy : Out
        From the cycle behind `start`, until every request has been answered.
    """

    def __init__(self, engine: Engine):
        self._channels, self._count = engine.channels, max(2 * BANKS, 1 << ceil_log2(engine.channels))
        self._keys = ExtremeScan(count=self._count, banks=BANKS, bits=KEY_BITS, used=engine.channels)
        self.TWO_OFFERS = self._keys.LATENCY + 3
        super().__init__(
            {
                "best_valid": In(1),
                "first": In(1),
                "word": In(drain_layout(engine)),
                "start": In(1),
                "stop": In(1),
                "request_valid": Out(1),
                "channel": Out(range(self._count)),
                "answer_valid": In(1),
                "answer_channel": In(range(self._count)),
                "offer": Out(stream.Signature(Offer)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.keys = keys = self._keys
        m.submodules.following = following = Memory(shape=KEY_BITS, depth=self._count, init=[])
        store, behind = following.write_port(), following.read_port(domain="comb")
        there = Signal(self._count)  # a bit for each channel: `following` has its row
        # a word of the drain bus, a cycle later: its row as a number that orders rows; 0 is no row
        logit, some = Cat(self.word[0], self.word[1])[:LOGIT_BITS], self.word[3][0]
        key, captured, answered = Signal(KEY_BITS), Signal(), Signal()
        place, counter = Signal.like(keys.place), Signal.like(keys.place)
        m.d.sync += [captured.eq(self.best_valid), answered.eq(self.answer_valid)]
        with m.If(self.best_valid | self.answer_valid):
            number = Cat(~self.word[2][:ID_BITS], logit[:-1], ~logit[-1])
            m.d.sync += [key.eq(number & some.replicate(KEY_BITS)), place.eq(self.answer_channel)]
        with m.If(self.best_valid):
            m.d.sync += [place.eq(counter), counter.eq(counter + 1)]
            with m.If(self.first):
                m.d.sync += [place.eq(0), counter.eq(1)]
        winner, channel = Signal(KEY_BITS), Signal.like(keys.place)
        scanned = Signal()  # the winner is the scan's: the next one is known, too
        m.d.comb += [
            store.addr.eq(place),
            store.data.eq(key),
            store.en.eq(answered),
            behind.addr.eq(channel),
        ]
        with m.If(captured):
            self._store(m, place, key)
        with m.If(self.offer.valid & self.offer.ready):
            m.d.sync += self.offer.valid.eq(0)
        wanted = self._requests(m)
        with m.If(answered):
            m.d.sync += there.bit_select(place, 1).eq(1)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.comb += keys.begin.eq(1)
                    m.d.sync += [there.eq(0), self._first.eq(1)]
                    m.next = "SCAN"
            with m.State("SCAN"):
                with m.If(keys.done):
                    m.d.sync += [winner.eq(keys.found), channel.eq(keys.found_place), scanned.eq(1)]
                    m.next = "OFFER"
            with m.State("OFFER"):
                known = there.bit_select(channel, 1) & ~self._asks
                with m.If(self.stop):
                    m.d.sync += [self.offer.valid.eq(0), self._first.eq(0), self._asks.eq(0)]
                    m.next = "END"
                with m.Elif((known | (winner == 0)) & (~self.offer.valid | self.offer.ready)):
                    m.d.sync += [
                        self.offer.valid.eq(1),
                        self.offer.p.logit.eq(Cat(winner[ID_BITS:-1], ~winner[-1])),
                        self.offer.p.id.eq(~winner[:ID_BITS]),
                        self.offer.p.valid.eq(winner != 0),
                    ]
                    m.next = "LAST"
                    with m.If(winner != 0):
                        self._store(m, channel, behind.data)
                        m.d.sync += [
                            there.bit_select(channel, 1).eq(0),
                            self._asks.eq(1),
                            wanted.eq(channel),
                            scanned.eq(0),
                        ]
                        with m.If(scanned):
                            again = behind.data > keys.second
                            m.d.sync += [
                                winner.eq(Mux(again, behind.data, keys.second)),
                                channel.eq(Mux(again, channel, keys.second_place)),
                            ]
                            m.next = "OFFER"
                        with m.Else():
                            m.d.comb += keys.begin.eq(1)
                            m.next = "SCAN"
            with m.State("LAST"):  # nothing follows an offer without a row
                with m.If(self.stop):
                    m.d.sync += self.offer.valid.eq(0)
                    m.next = "END"
            with m.State("END"):
                with m.If(self._waiting == 0):
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        return m

    def _requests(self, m):
        """First each channel in turn while `_first`, then the one that is returned whenever `_asks`."""
        self._first, self._asks = Signal(), Signal()
        # requests without an answer: from the cycle in which they are decided
        self._waiting = Signal(range(self._channels + 1))
        wanted, turn, asking = Signal.like(self.channel), Signal.like(self.channel), Signal()
        m.d.comb += asking.eq(self._first | self._asks)
        m.d.sync += [
            self.request_valid.eq(asking),
            self._waiting.eq(self._waiting + asking - self.answer_valid),
        ]
        with m.If(self._first):
            m.d.sync += [self.channel.eq(turn), turn.eq(turn + 1)]
            with m.If(turn == self._channels - 1):
                m.d.sync += self._first.eq(0)
        with m.Else():
            m.d.sync += turn.eq(0)
            with m.If(self._asks):
                m.d.sync += [self.channel.eq(wanted), self._asks.eq(0)]
        return wanted

    def _store(self, m, place, key):
        m.d.comb += [self._keys.write.eq(1), self._keys.place.eq(place), self._keys.value.eq(key)]
