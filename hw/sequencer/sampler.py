"""Draws a token from ordered candidates: weights, truncation, a draw (arithmetic, section 9).

candidate ─► distance ─► exponent ─► weight ─► running sum ─► table of (sum, id)
after the last: top_p * total, the prefix it keeps, random word * its total, the first sum beyond
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from symlight.model import sampling

from ..channel.logits import ID_BITS, LOGIT_BITS
from .random_word import RandomWord

WEIGHT_BITS = sampling.WEIGHT_FRAC + 1
INDEX_BITS = sampling.EXP_INDEX_BITS
OCTAVE_BITS = sampling.OCTAVES_BITS - INDEX_BITS


class Settings(data.Struct):
    """`model.sampling.SamplerSettings`."""

    multiplier: sampling.MULTIPLIER_BITS
    shift: 6
    top_k: 7
    min_weight: WEIGHT_BITS
    top_p: sampling.PROBABILITY_FRAC + 1
    seed: sampling.SEED_BITS


class Offer(data.Struct):
    """The next candidate in order; without `valid` there is none left."""

    logit: signed(LOGIT_BITS)
    id: ID_BITS
    valid: 1


class Sampler(wiring.Component):
    """Takes candidates as far as the settings need them, then gives the drawn token.

    Throughput: a candidate a cycle. It is weighed in `WEIGH` cycles, so up to so many are taken that are not
    needed. From the last one to `done`: `AFTER` cycles at most, the weight, two products bit by bit and two
    searches by halves.

    Parameters
    ----------
    candidates : int
        At most so many are taken; a power of two.

    Members
    -------
    start, settings, position : In
        Pulse; the settings and the position of the token, stable until `done`.
    offer : In(stream.Signature(Offer))
    taking : Out
        From the cycle behind `start` on, until it needs no more candidates.
    done, token : Out
        Pulse, with the token, which is stable until the next start.
    """

    WEIGH = 9  # registers of a weight

    def __init__(self, *, candidates: int):
        self._count = candidates
        self.AFTER = sampling.PROBABILITY_FRAC + 1 + 32 + 4 * exact_log2(candidates) + 9 + self.WEIGH
        super().__init__(
            {
                "start": In(1),
                "settings": In(Settings),
                "position": In(21),
                "offer": In(stream.Signature(Offer)),
                "taking": Out(1),
                "done": Out(1),
                "token": Out(ID_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.random = self._random = random = RandomWord()
        m.d.comb += [
            random.start.eq(self.start),
            random.seed.eq(self.settings.seed),
            random.position.eq(self.position),
        ]
        self._number = Signal(range(self._count))  # candidates kept so far; then the searches' place
        # A search takes `_half` entries at once if the last of them is too small: `_beside` leads there.
        self._half, self._beside = Signal(range(self._count)), Signal(range(self._count))
        self._last = Signal(range(self._count))  # of the candidates that are kept
        self._shown, self._there = Signal(), Signal()  # the entry that a search looks at, that it ends with
        self._sum = Signal(WEIGHT_BITS + ceil_log2(self._count))
        weight, weighed, offer = self._weigh(m)
        self._table(m, weight, offer.id)
        m.d.sync += self.done.eq(0)
        # Shift and add: the sum of `_shifted` for every bit of `_factor`.
        bits = len(self._sum) + 32
        self._shifted, self._factor, self._product = Signal(bits), Signal(32), Signal(bits)
        m.d.sync += self._there.eq((self._factor == 0) & (self._half == 0))
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [self._number.eq(0), self._sum.eq(0)]
                with m.If(self.start):
                    m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += [self.taking.eq(1), self.offer.ready.eq(1)]
                with m.If(weighed):
                    small = (self._number != 0) & (weight < self.settings.min_weight)
                    with m.If(small | ~offer.valid):
                        m.next = "TRUNCATE"
                    with m.Else():
                        m.d.comb += self._store.en.eq(1)
                        m.d.sync += [
                            self._sum.eq(self._store.data.sum),
                            self._number.eq(self._number + 1),
                            self._last.eq(self._number),
                        ]
                        enough = self._number + 1 == self.settings.top_k
                        with m.If(enough | (self._number == self._count - 1)):
                            m.next = "TRUNCATE"
            with m.State("TRUNCATE"):
                self._multiply(m, self.settings.top_p, "PREFIX")
            with m.State("PREFIX"):
                found = self._search(m, (self._entry.sum << sampling.PROBABILITY_FRAC) < self._product)
                with m.If(found):
                    m.d.sync += [self._sum.eq(self._entry.sum), self._last.eq(self._number)]
                    m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(random.done):
                    self._multiply(m, random.word, "DRAW")
            with m.State("DRAW"):
                with m.If(self._search(m, self._entry.sum <= self._product >> 32)):
                    m.d.sync += [self.done.eq(1), self.token.eq(self._entry.id)]
                    m.next = "IDLE"
        return m

    def _table(self, m, weight, token):
        entry = data.StructLayout({"sum": len(self._sum), "id": ID_BITS})
        m.submodules.table = table = Memory(shape=entry, depth=self._count, init=[])
        self._store, self._read = table.write_port(), table.read_port(domain="comb")
        self._entry = Signal(entry, reset_less=True)
        m.d.sync += self._entry.eq(self._read.data)
        m.d.comb += [
            self._store.addr.eq(self._number),
            self._store.data.sum.eq(self._sum + weight),
            self._store.data.id.eq(token),
            self._read.addr.eq(self._number | self._beside),
        ]

    def _multiply(self, m, factor, then):
        """Begin `_sum` * factor, and then a search."""
        m.d.sync += [
            self._shifted.eq(self._sum),
            self._factor.eq(factor),
            self._product.eq(0),
            self._number.eq(0),
            self._half.eq(self._count // 2),
            self._beside.eq(self._count // 2 - 1),
            self._shown.eq(0),
            self._there.eq(0),
        ]
        m.next = then

    def _search(self, m, small):
        """Goes on with the product; when it is there, looks for the first entry that is not `small`, which is
        `_last` at the latest. True when it is in `_entry`."""
        with m.If(self._factor != 0):
            m.d.sync += [
                self._product.eq(self._product + Mux(self._factor[0], self._shifted, 0)),
                self._shifted.eq(self._shifted << 1),
                self._factor.eq(self._factor >> 1),
            ]
        with m.Elif(self._half != 0):
            further = self._number | self._half
            m.d.sync += self._shown.eq(~self._shown)
            with m.If(self._shown):
                m.d.sync += [self._half.eq(self._half >> 1), self._beside.eq(self._beside >> 1)]
                with m.If((further <= self._last) & small):
                    m.d.sync += self._number.eq(further)
        return self._there

    def _weigh(self, m):
        """(weight, whether one is there, its offer)."""
        offers = [Signal(Offer, name=f"offer_{i}", reset_less=True) for i in range(self.WEIGH)]
        there = Signal(self.WEIGH)
        taken = self.offer.valid & self.offer.ready
        m.d.sync += [
            there.eq(Cat(taken, there)),
            *(after.eq(before) for before, after in zip([self.offer.p, *offers], offers)),
        ]
        coarse, fine = Signal(6), Signal(5)
        most = sampling.DISTANCE_BITS
        m.d.sync += [
            coarse.eq(Mux(self.settings.shift > most, self.settings.shift - most, 0)),
            fine.eq(Mux(self.settings.shift > most, most, self.settings.shift)),
        ]
        largest, logit, first = Signal(signed(LOGIT_BITS)), offers[0].logit, Signal()
        with m.If(self.start):
            m.d.sync += first.eq(1)
        with m.If(taken & first):
            m.d.sync += [largest.eq(self.offer.p.logit), first.eq(0)]
        distance, reduced = Signal(LOGIT_BITS + 1), Signal(LOGIT_BITS + 1)
        d, product = Signal(most), Signal(most + sampling.MULTIPLIER_BITS)
        raised, rounded = (
            Signal(most + sampling.MULTIPLIER_BITS + 1, name=name) for name in ("raised", "rounded")
        )
        half = Signal(most)
        y = Signal(sampling.OCTAVES_BITS)
        m.submodules.exp = table = Memory(
            shape=sampling.EXP_FRAC + 1, depth=1 << INDEX_BITS, init=sampling.exp_table().tolist()
        )
        read = table.read_port()
        weight = Signal(WEIGHT_BITS)
        m.d.sync += half.eq(1 << (fine - 1)[:5])
        m.d.sync += [
            distance.eq(largest - logit),
            reduced.eq(distance >> coarse),
            d.eq(Mux(reduced[most:].any(), (1 << most) - 1, reduced[:most])),
            product.eq(d * self.settings.multiplier),
            raised.eq(product + half),
            rounded.eq(raised >> fine),
        ]
        over = rounded[sampling.OCTAVES_BITS :].any()
        m.d.comb += [
            y.eq(Mux(over, (1 << sampling.OCTAVES_BITS) - 1, rounded[: sampling.OCTAVES_BITS])),
            read.addr.eq(y[:INDEX_BITS]),
        ]
        octaves = Signal(OCTAVE_BITS)
        m.d.sync += octaves.eq(y[INDEX_BITS:])
        mantissa = read.data << (sampling.WEIGHT_FRAC - sampling.EXP_FRAC)
        m.d.sync += weight.eq(Mux(octaves > WEIGHT_BITS, 0, mantissa >> octaves[:5]))
        return weight, there[-1], offers[-1]
