"""Lane group of a channel: multiply-accumulate lanes that execute channel commands on the stream of beats.

commands ─────────► control ──┐
items (value) ────────────────┼─► value * byte, two lanes a multiplier ─► accumulator words ─┬─► drain
beats (lanes bytes) ──────────┴─► side output                    tile ─► head ─► best row ───┘
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Engine
from ..types import BEAT_ADDRESS, CHANNEL_BITS, ChannelCommand, Item, Source, beat_layout, write_layout
from .accumulator import AccumulatorBank
from .drain_port import DrainPort, drain_port
from .head import Head
from .lane_control import LaneControl, Token
from .logits import CandidateList, LogitWriter, second_best

HEAD_WORDS = 2  # accumulator words, the last ones, that take the head's tiles in turn
_FIELD = 18  # bits between the products of two lanes in one multiplier, which is 27 bits by 18


class LaneGroup(wiring.Component):
    """`lanes` multiply-accumulate lanes of one channel.

    Commands are done in order. MATRIX: each item with a row takes `beats` beats; beat b adds value * byte of
    its lane to accumulator word `acc` + b. HEAD: `count` tiles of items with one beat each, then two beats of
    scales; the best row is drained as `Source.BEST`. DIRECT_READ of this channel: `count` beats go to the
    side output. FENCE and DIRECT_READ of others take one cycle.
    Throughput: one beat a cycle, across items and MATRIX commands; an item without row takes a cycle and no
    beat.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    LATENCY : int
        Cycles from the transfer of a MATRIX command's last item to `op_done`.
    DRAIN_GUARD : int
        Least cycles from `op_done` to the first drain request of the operation: the way to the sequencer and
        back takes longer, so the sums complete on the request's way.
    HEAD_LATENCY : int
        Cycles from the transfer of a HEAD command's last beat to `op_done`, unless an earlier tile is still
        draining, or a drain request takes its turn. With candidates or logits `Head.EARLY` cycles more.
    TILE_CYCLES : int
        Least cycles from the last beat of a head tile to that of the next one, while no row is held.
    DRAIN_LATENCY : int
        Cycles from a drain request to its word.
    SIDE_LATENCY : int
        Cycles from the transfer of a beat to `side`.

    Members
    -------
    index : In
        Number of this channel; static.
    commands, items, beats : In(stream)
    side : Out
        {valid, data}: beats of DIRECT_READ commands, no back-pressure; `data` is zero without `valid`.
    logit_base : In
        First beat of the channel's logits; quasi-static.
    logits : Out(stream.Signature(write_layout(engine)))
        Beats of logits of HEAD commands that ask for them. A HEAD command ends when all are taken.
    op_done : Out
        High for one cycle for each MATRIX or HEAD command: its results can be drained `DRAIN_GUARD` cycles
        later.
    drain : In(drain_port(engine))
        Sources ACC (clears the word), BEST and NEXT; other sources are ignored. Between two requests for NEXT
        lie `CandidateList.NEXT_CYCLES` cycles at least.
    """

    LATENCY = 0
    DRAIN_GUARD = 2 + AccumulatorBank.ADD_LATENCY  # operands, product, then the addition
    DRAIN_LATENCY = DrainPort.LATENCY
    SIDE_LATENCY = 1

    def __init__(self, *, engine: Engine):
        self._engine = engine
        self._head = Head(engine=engine)
        self.HEAD_LATENCY = self._head.LATENCY + 3 - Head.EARLY
        self.TILE_CYCLES = engine.lanes + 5
        super().__init__(
            {
                "index": In(CHANNEL_BITS),
                "commands": In(stream.Signature(ChannelCommand)),
                "items": In(stream.Signature(Item)),
                "beats": In(stream.Signature(beat_layout(engine))),
                "side": Out(wiring.Signature({"valid": Out(1), "data": Out(beat_layout(engine))})),
                "logit_base": In(BEAT_ADDRESS),
                "logits": Out(stream.Signature(write_layout(engine))),
                "op_done": Out(1),
                "drain": In(drain_port(engine)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        m.submodules.control = control = LaneControl(engine)
        m.submodules.bank = bank = AccumulatorBank(
            lanes=engine.lanes,
            depth=engine.accumulators,
            width=max(engine.matrix_bits, engine.head_bits),
            carries=True,
        )
        m.submodules.head = head = self._head
        m.submodules.logits = logits = LogitWriter(engine=engine)
        m.submodules.candidates = candidates = CandidateList()
        connect(m, flipped(self.commands), control.commands)
        connect(m, flipped(self.items), control.items)
        connect(m, logits.write, flipped(self.logits))
        connect(m, flipped(self.beats), control.beats)
        # beside registers of the lanes
        tokens = [Signal(Token, name=name) for name in ("operands", "products")]
        for before, after in zip([control.token, *tokens], tokens):
            m.d.sync += after.eq(before)
        _operands, products = tokens
        m.d.comb += [
            control.index.eq(self.index),
            head.index.eq(self.index),
            control.scale_ready.eq(head.scale.ready),
            control.head_idle.eq(head.idle & logits.idle & candidates.idle),
            logits.start.eq(control.head_start),
            logits.wanted.eq(control.head_logits),
            logits.base.eq(self.logit_base),
            logits.row_valid.eq(head.row_valid & ~candidates.hold),
            logits.row.eq(head.row),
            candidates.start.eq(control.head_start),
            candidates.wanted.eq(control.head_candidates),
            candidates.finish.eq(control.head_done),
            candidates.row_valid.eq(head.row_valid & ~logits.hold),
            candidates.row.eq(head.row),
            candidates.some.eq(head.row_some),
            candidates.id.eq(head.row_id),
            head.hold.eq(logits.hold | candidates.hold),
            head.start.eq(control.head_start),
            head.scale.valid.eq(control.scale),
            head.scale.half.eq(control.half),
            head.scale.beat.eq(self.beats.payload),
            bank.add.valid.eq(products.add | products.head),
        ]
        with m.If(control.head_start):
            m.d.sync += head.plain.eq(~(control.head_logits | control.head_candidates))
        m.d.comb += self.op_done.eq(control.token.last | control.head_done)  # a register takes it outside
        side = Signal.like(self.side.data.as_value(), reset_less=True)
        m.d.comb += self.side.data.as_value().eq(side)
        m.d.sync += [
            self.side.valid.eq(control.pass_side),
            side.eq(Mux(control.pass_side, self.beats.payload.as_value(), 0)),
        ]
        self._multiply(m, control.token, *tokens, bank)
        following = second_best(m, candidates, self.drain)
        self._answer(m, bank, head, products, following)
        return m

    def _multiply(self, m, token, operands, products, bank):
        """Products of two lanes in one DSP slice: operands, product, and the register behind it.

        All lanes share the value v, so v * (b * 2^18 + a) holds v * b above v * a. The lower product is
        signed, and takes 1 from the upper one when it is negative: that bit is added again where the upper
        one is summed.
        """
        value = Signal(signed(8), reset_less=True)
        with m.If(token.add | token.head):
            m.d.sync += value.eq(self.items.payload.value)
        for pair in range(self._engine.lanes // 2):
            low, high = (self.beats.payload[2 * pair + i].as_signed() for i in range(2))
            weights = Signal(signed(_FIELD + 9), name=f"weights_{pair}", reset_less=True)
            product = Signal(
                signed(_FIELD + 17), name=f"product_{pair}", reset_less=True, attrs={"use_dsp": "yes"}
            )
            total = Signal.like(product, name=f"total_{pair}")
            with m.If(token.add | token.head):
                m.d.sync += weights.eq(Cat(low, low[-1].replicate(_FIELD - len(low)), (high - low[-1])[:9]))
            with m.If(operands.add | operands.head):
                m.d.sync += product.eq(weights * value)
            with m.If(products.add | products.head):
                m.d.sync += total.eq(product)
            m.d.comb += [
                bank.add.addends[2 * pair].eq(total[:16].as_signed()),
                bank.add.addends[2 * pair + 1].eq(total[_FIELD : _FIELD + 16].as_signed()),
                bank.add.carries[pair].eq(total[_FIELD - 1]),
            ]

    def _answer(self, m, bank, head, products, following):
        """The bank's drain port: requests first, then the head, which takes a tile when it is summed."""
        m.submodules.answer = answer = DrainPort(
            engine=self._engine, bank=Source.ACC, fixed=(Source.BEST, Source.NEXT)
        )
        connect(m, flipped(self.drain), answer.drain)
        waits, take, turn, waiting = Signal(), Signal(), Signal(), Signal()
        # Tile by tile another word: one is summed while the one before it waits for its turn.
        first = self._engine.accumulators - HEAD_WORDS
        m.d.comb += [
            take.eq((products.tile | waits) & ~self.drain.asked),
            bank.add.address.eq(Mux(products.head, first | turn, products.word)),
            bank.drain.valid.eq(answer.address.valid | take),
            bank.drain.read.eq(answer.address.read | take),
            bank.drain.address.eq(Mux(take, first | waiting, answer.address.address)),
            head.some.eq(1),  # a word without a row is zero
        ]
        m.d.sync += [waits.eq((products.tile | waits) & ~take), head.end.eq(take)]
        with m.If(products.tile):
            m.d.sync += turn.eq(~turn)
        with m.If(take):
            m.d.sync += waiting.eq(~waiting)
        best = head.best
        fields = [best.logit[:32].as_signed(), best.logit[32:].as_signed(), best.id, best.any]
        for lane in range(self._engine.lanes):
            word = bank.drain.word[lane]
            m.d.comb += [answer.banked[lane].eq(word), head.sums[lane].eq(word)]
        asked = self.drain.request.source == Source.NEXT
        for word, field, other in zip(answer.word, fields, following):
            m.d.comb += word.eq(Mux(asked, other, field))
