"""Lane group of a channel: multiply-accumulate lanes that execute channel commands on the stream of beats.

commands ─► queue ─► control ─┐
items (value) ────────────────┼─► value * byte, two lanes a multiplier ─► accumulator words ─┬─► drain
beats (lanes bytes) ──────────┴─► side output                    tile ─► head ─► best row ───┘
"""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Engine
from ..lib.queue import Queue
from ..types import BEAT_ADDRESS, ChannelCommand, Item, Source, Work, beat_layout, write_layout
from .accumulator import AccumulatorBank
from .drain_port import DrainPort, drain_port
from .head import Head
from .logits import LogitWriter

COMMANDS = 8  # commands a channel holds
HEAD_WORDS = 2  # accumulator words, the last ones, that take the head's tiles in turn
_FIELD = 18  # bits between the products of two lanes in one multiplier, which is 27 bits by 18


class _Mode(data.Struct):
    """The running command, decoded."""

    matrix: 1
    head: 1
    side: 1  # DIRECT_READ of this channel
    beats: 6  # beats of an item, less one
    acc: 6
    count: 12  # tiles or beats left, less one


class _Token(data.Struct):
    """What happens with a beat, on its way down the pipeline."""

    add: 1  # a product of MATRIX is in the lanes
    head: 1  # a product of HEAD is in the lanes
    tile: 1  # end of a tile
    last: 1  # end of a MATRIX command
    word: 6  # accumulator word


class _Control(wiring.Component):
    """Steps through the commands: takes items and beats, and emits a token for each step.

    Members
    -------
    commands, items, beats : stream
    index : In
    scale_ready, head_idle : In
        From the head.
    token : Out
        Valid in the cycle in which item and beat are taken.
    scale, half, pass_side : Out
        The beat taken is scale beat `half` of the tile; the beat goes to the side output.
    head_start, head_logits, head_done : Out
        `head_logits` is valid with `head_start`: the command's logits are written.
    """

    def __init__(self, engine: Engine):
        super().__init__(
            {
                "commands": In(stream.Signature(ChannelCommand)),
                "items": In(stream.Signature(Item)),
                "beats": In(stream.Signature(beat_layout(engine))),
                "index": In(5),
                "scale_ready": In(1),
                "head_idle": In(1),
                "token": Out(_Token),
                "scale": Out(1),
                "half": Out(1),
                "pass_side": Out(1),
                "head_start": Out(1),
                "head_logits": Out(1),
                "head_done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        mode = Signal(_Mode)
        left = Signal(6)  # beats of the item after this one
        word = Signal(6)
        done = Signal()  # the running command ends with this cycle
        with m.If(mode.matrix):
            self._matrix(m, mode, done, left, word)
        with m.If(mode.head):
            self._head(m, mode, done)
        with m.If(mode.side):
            m.d.comb += [
                self.beats.ready.eq(1),
                self.pass_side.eq(self.beats.valid),
                done.eq(self.beats.valid & (mode.count == 0)),
            ]
            with m.If(self.beats.valid):
                m.d.sync += mode.count.eq(mode.count - 1)
        self._load(m, mode, done, left, word)  # last: its assignments win
        return m

    def _load(self, m, mode, done, left, word):
        """Decode the next command into `mode` while the last step of the previous one is taken: no bubble
        between them."""
        command = self.commands.payload
        m.d.comb += [
            self.commands.ready.eq(done | ~(mode.matrix | mode.head | mode.side)),
            self.head_logits.eq(command.logits),
        ]
        with m.If(self.commands.ready):
            m.d.sync += [mode.matrix.eq(0), mode.head.eq(0), mode.side.eq(0)]
            with m.If(self.commands.valid):
                m.d.sync += [
                    mode.matrix.eq(command.work == Work.MATRIX),
                    mode.head.eq(command.work == Work.HEAD),
                    mode.side.eq((command.work == Work.DIRECT_READ) & (command.channel == self.index)),
                    mode.beats.eq(command.beats - 1),
                    mode.acc.eq(command.acc),
                    mode.count.eq(command.count - 1),
                    left.eq(command.beats - 1),
                    word.eq(command.acc),
                ]
                m.d.comb += self.head_start.eq(command.work == Work.HEAD)
                with m.If(command.work == Work.MATRIX):
                    m.d.sync += Assert(command.beats != 0, "MATRIX command without beats")
                with m.If((command.work == Work.HEAD) | (command.work == Work.DIRECT_READ)):
                    m.d.sync += Assert(
                        command.count != 0, "HEAD or DIRECT_READ command without tiles or beats"
                    )

    def _matrix(self, m, mode, done, left, word):
        item, row = self.items.payload, Signal()
        m.d.comb += [
            row.eq(self.items.valid & item.valid_row & self.beats.valid),
            self.beats.ready.eq(self.items.valid & item.valid_row),
            self.items.ready.eq(Mux(item.valid_row, self.beats.valid & (left == 0), 1)),
            done.eq(self.items.valid & self.items.ready & item.last),
            self.token.add.eq(row),
            self.token.word.eq(word),
            self.token.last.eq(done),
        ]
        with m.If(row):
            m.d.sync += [left.eq(left - 1), word.eq(word + 1)]
            with m.If(left == 0):
                m.d.sync += [left.eq(mode.beats), word.eq(mode.acc)]

    def _head(self, m, mode, done):
        item = self.items.payload
        with m.FSM():
            with m.State("ITEMS"):
                m.d.comb += [
                    self.beats.ready.eq(self.items.valid & item.valid_row),
                    self.items.ready.eq(~item.valid_row | self.beats.valid),
                    self.token.head.eq(self.items.valid & item.valid_row & self.beats.valid),
                ]
                with m.If(self.items.valid & self.items.ready & item.last):
                    m.next = "SCALE0"
            with m.State("SCALE0"):
                m.d.comb += [
                    self.beats.ready.eq(self.scale_ready),
                    self.scale.eq(self.beats.valid & self.scale_ready),
                ]
                with m.If(self.scale):
                    m.next = "SCALE1"
            with m.State("SCALE1"):
                m.d.comb += [
                    self.beats.ready.eq(1),
                    self.half.eq(1),
                    self.scale.eq(self.beats.valid),
                    self.token.tile.eq(self.beats.valid),
                ]
                with m.If(self.beats.valid):
                    m.d.sync += mode.count.eq(mode.count - 1)
                    m.next = "ITEMS"
                    with m.If(mode.count == 0):
                        m.next = "DRAIN"
            # the command stays until its maximum is final: operations end in order
            with m.State("DRAIN"):
                m.d.comb += [done.eq(self.head_idle), self.head_done.eq(self.head_idle)]
                with m.If(self.head_idle):
                    m.next = "ITEMS"


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
        draining, or a drain request takes its turn.
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
        Sources ACC (clears the word) and BEST; other sources are ignored.
    """

    LATENCY = 0
    DRAIN_GUARD = 2 + AccumulatorBank.ADD_LATENCY  # operands, product, then the addition
    DRAIN_LATENCY = DrainPort.LATENCY
    SIDE_LATENCY = 1

    def __init__(self, *, engine: Engine):
        self._engine = engine
        self._head = Head(engine=engine)
        self.HEAD_LATENCY = self._head.LATENCY + 3
        super().__init__(
            {
                "index": In(5),
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
        m.submodules.queue = queue = Queue(ChannelCommand, depth=COMMANDS)
        m.submodules.control = control = _Control(engine)
        m.submodules.bank = bank = AccumulatorBank(
            lanes=engine.lanes,
            depth=engine.accumulators,
            width=max(engine.matrix_bits, engine.head_bits),
            carries=True,
        )
        m.submodules.head = head = self._head
        m.submodules.logits = logits = LogitWriter(engine=engine)
        connect(m, flipped(self.commands), queue.i)
        connect(m, queue.o, control.commands)
        connect(m, flipped(self.items), control.items)
        connect(m, logits.write, flipped(self.logits))
        connect(m, flipped(self.beats), control.beats)
        # beside registers of the lanes
        tokens = [Signal(_Token, name=name) for name in ("operands", "products")]
        for before, after in zip([control.token, *tokens], tokens):
            m.d.sync += after.eq(before)
        _operands, products = tokens
        m.d.comb += [
            control.index.eq(self.index),
            head.index.eq(self.index),
            control.scale_ready.eq(head.scale.ready),
            control.head_idle.eq(head.idle & logits.idle),
            logits.start.eq(control.head_start),
            logits.wanted.eq(control.head_logits),
            logits.base.eq(self.logit_base),
            logits.row_valid.eq(head.row_valid),
            logits.row.eq(head.row),
            head.hold.eq(logits.hold),
            head.start.eq(control.head_start),
            head.scale.valid.eq(control.scale),
            head.scale.half.eq(control.half),
            head.scale.beat.eq(self.beats.payload),
            bank.add.valid.eq(products.add | products.head),
        ]
        m.d.comb += self.op_done.eq(control.token.last | control.head_done)  # a register takes it outside
        side = Signal.like(self.side.data.as_value(), reset_less=True)
        m.d.comb += self.side.data.as_value().eq(side)
        m.d.sync += [
            self.side.valid.eq(control.pass_side),
            side.eq(Mux(control.pass_side, self.beats.payload.as_value(), 0)),
        ]
        self._multiply(m, control.token, *tokens, bank)
        self._answer(m, bank, head, products)
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

    def _answer(self, m, bank, head, products):
        """The bank's drain port: requests first, then the head, which takes a tile when it is summed."""
        m.submodules.answer = answer = DrainPort(engine=self._engine, bank=Source.ACC, fixed=Source.BEST)
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
        m.d.comb += [word.eq(field) for word, field in zip(answer.word, fields)]
