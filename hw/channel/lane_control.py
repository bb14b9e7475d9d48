"""Control of a lane group: steps through the commands, an item and a beat a cycle."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..lib.slice import Slice
from ..types import ACC_ADDRESS, BEATS_BITS, CHANNEL_BITS, ChannelCommand, Item, Work, beat_layout

# Members of a command that the lanes look at.
COMMAND_MEMBERS = ("work", "beats", "acc", "count", "logits", "candidates", "channel")
_COMMAND = data.StructLayout(
    {member: data.Layout.cast(ChannelCommand).members[member] for member in COMMAND_MEMBERS}
)


class _Mode(data.Struct):
    """The running command, decoded."""

    matrix: 1
    head: 1
    side: 1  # DIRECT_READ of this channel
    beats: BEATS_BITS  # beats of an item, less one
    acc: ACC_ADDRESS
    count: 12  # tiles or beats left, less one


class Token(data.Struct):
    """What happens with a beat, on its way down the pipeline."""

    add: 1  # a product of MATRIX is in the lanes
    head: 1  # a product of HEAD is in the lanes
    tile: 1  # end of a tile
    last: 1  # end of a MATRIX command
    word: ACC_ADDRESS  # accumulator word


class LaneControl(wiring.Component):
    """Steps through the commands: takes items and beats, and emits a token for each step.

    Members
    -------
    commands, items, beats : stream
        A command may be decoded from the cycle after its transfer on.
    index : In
    scale_ready, head_idle : In
        From the head.
    token : Out
        Valid in the cycle in which item and beat are taken.
    scale, half, pass_side : Out
        The beat taken is scale beat `half` of the tile; the beat goes to the side output.
    head_start, head_logits, head_candidates, head_done : Out
        `head_start` is high in a HEAD command's first cycle; with it: whether the command's logits are
        written, whether its candidates are kept.
    """

    def __init__(self, engine: Engine):
        super().__init__(
            {
                "commands": In(stream.Signature(ChannelCommand)),
                "items": In(stream.Signature(Item)),
                "beats": In(stream.Signature(beat_layout(engine))),
                "index": In(CHANNEL_BITS),
                "scale_ready": In(1),
                "head_idle": In(1),
                "token": Out(Token),
                "scale": Out(1),
                "half": Out(1),
                "pass_side": Out(1),
                "head_start": Out(1),
                "head_logits": Out(1),
                "head_candidates": Out(1),
                "head_done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        mode = Signal(_Mode)
        left = Signal(BEATS_BITS)  # beats of the item after this one
        word = Signal(ACC_ADDRESS)
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
        # Whether the next command is taken shows late in a cycle: its queue does not see it.
        m.submodules.entry = entry = Slice(_COMMAND)
        m.d.comb += [entry.i.valid.eq(self.commands.valid), self.commands.ready.eq(entry.i.ready)]
        m.d.comb += [entry.i.p[member].eq(self.commands.p[member]) for member in COMMAND_MEMBERS]
        self._load(m, entry.o, mode, done, left, word)  # last: its assignments win
        return m

    def _load(self, m, commands, mode, done, left, word):
        """Decode the next command into `mode` while the last step of the previous one is taken: no bubble
        between them."""
        command = commands.payload
        m.d.comb += commands.ready.eq(done | ~(mode.matrix | mode.head | mode.side))
        m.d.sync += [
            self.head_start.eq(0),
            self.head_logits.eq(command.logits),
            self.head_candidates.eq(command.candidates),
        ]
        with m.If(commands.ready):
            m.d.sync += [mode.matrix.eq(0), mode.head.eq(0), mode.side.eq(0)]
            with m.If(commands.valid):
                m.d.sync += [
                    mode.matrix.eq(command.work == Work.MATRIX),
                    mode.head.eq(command.work == Work.HEAD),
                    mode.side.eq((command.work == Work.DIRECT_READ) & (command.channel == self.index)),
                    mode.beats.eq(command.beats - 1),
                    mode.acc.eq(command.acc),
                    mode.count.eq(command.count - 1),
                    left.eq(command.beats - 1),
                    word.eq(command.acc),
                    self.head_start.eq(command.work == Work.HEAD),
                ]
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
