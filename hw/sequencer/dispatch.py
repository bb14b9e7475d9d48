"""The dispatcher: walks the operation table ahead of the vector unit and feeds the channels' command
queues."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..types import BEAT_ADDRESS, ChannelCommand, Header, KvCommand, OpEntry, Task, Work

SPACING = 6  # cycles between two commands: the round trip of the channels' `room` (registers on both ways)
WAIT = (1 << SPACING) - 1
# cycles from `go` to the first command: fetch, decode, command and its register
FIRST_COMMAND = SPACING + 4


class PassInfo(data.Struct):
    """What a pass starts with."""

    token: 16
    head: 1  # evaluate the head
    position: 20
    slot: 9  # ring slot of the token
    populated: 10  # slots that are populated before this pass, at most all of them
    restored: 1  # the first pass behind a restore: a ring on chip does not hold these slots yet


class Dispatcher(wiring.Component):
    """Commands of a pass to all channels, in table order, as far ahead as their queues allow.

    Throughput: a command every `SPACING` cycles. Back-pressure: waits for `command_room` and `kv_room`.

    Members
    -------
    header : In
    dense, full_kv, logits, candidates : In
        Gather and KV mode of the run; whether heads write their logits, keep their candidates.
    go, info : In
        Pulse and data that start a pass. The table's first entry must be EMBED.
    index, entry : Out, In
        Port of the operation table.
    side : In, stream of ChannelCommand
        DIRECT_READ commands of the sequencer; taken while no pass is dispatched.
    command_valid, command, kv_valid, kv : Out
        To all channels; pulses.
    command_room, kv_room : In
        Every channel has room for at least two more.
    idle : Out
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "header": In(Header),
                "dense": In(1),
                "full_kv": In(1),
                "logits": In(1),
                "candidates": In(1),
                "go": In(1),
                "info": In(PassInfo),
                "index": Out(10),
                "entry": In(OpEntry),
                "side": In(stream.Signature(ChannelCommand)),
                "command_valid": Out(1),
                "command": Out(ChannelCommand),
                "kv_valid": Out(1),
                "kv": Out(KvCommand),
                "command_room": In(1),
                "kv_room": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        wait = Signal(SPACING)  # a run of ones as long as the wait
        waits = wait[0]
        info = Signal(PassInfo)
        side_bits = self._engine.side_channels.bit_length() - 1
        row, row_beats, offset = Signal(16), Signal(8), Signal(BEAT_ADDRESS)
        embed_base = Signal.like(self.command.base)
        m.d.sync += [
            self.command_valid.eq(0),
            self.kv_valid.eq(0),
            # The embedding row's address; the table's latency leaves the multiplier its time.
            row.eq(info.token >> side_bits),
            row_beats.eq(self.header.width_words << 1),
            offset.eq(row * row_beats),
            embed_base.eq(self.header.embed_base + offset),
            wait.eq(wait >> 1),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [
                    self.idle.eq(~self.go),
                    self.side.ready.eq(~waits & self.command_room & ~self.go),
                ]
                m.d.sync += self.index.eq(0)
                with m.If(self.side.valid & self.side.ready):
                    m.d.sync += [self.command_valid.eq(1), self.command.eq(self.side.payload), wait.eq(WAIT)]
                with m.If(self.go):
                    m.d.sync += [info.eq(self.info), wait.eq(WAIT)]
                    m.next = "FETCH"
            with m.State("FETCH"):  # the entry of `index` arrives while `wait` runs down
                with m.If(~waits):
                    m.next = "DECODE"
            with m.State("DECODE"):
                with m.If(self.entry.task == Task.END):
                    m.next = "IDLE"
                with m.Elif((self.entry.head & ~info.head) | ~self.entry.has_command):
                    m.d.sync += [self.index.eq(self.index + 1), wait.eq(WAIT)]
                    m.next = "FETCH"
                with m.Elif(self.entry.has_kv & self.kv_room):
                    m.d.sync += self.kv_valid.eq(1)
                    m.next = "COMMAND"
                with m.Elif(~self.entry.has_kv):
                    m.next = "COMMAND"
            with m.State("COMMAND"):
                with m.If(self.command_room):
                    m.d.sync += [self.command_valid.eq(1), wait.eq(WAIT)]
                    self._command(m, info, side_bits, embed_base)
                    with m.If(self.entry.fence):
                        m.next = "FENCE"
                    with m.Else():
                        m.d.sync += self.index.eq(self.index + 1)
                        m.next = "FETCH"
            with m.State("FENCE"):
                with m.If(~waits & self.command_room):
                    m.d.sync += [
                        self.command_valid.eq(1),
                        self.command.work.eq(Work.FENCE),
                        wait.eq(WAIT),
                        self.index.eq(self.index + 1),
                    ]
                    m.next = "FETCH"
        self._kv(m, info)
        return m

    def _command(self, m, info, side_bits, embed_base):
        """The entry's command, with what only this pass knows."""
        m.d.sync += self.command.eq(self.entry.command)
        with m.If(self.entry.event):
            m.d.sync += self.command.stream.eq(self.dense)
        with m.If(self.entry.task == Task.HEAD):
            m.d.sync += [self.command.logits.eq(self.logits), self.command.candidates.eq(self.candidates)]
        with m.If(self.entry.task == Task.EMBED):
            m.d.sync += [
                self.command.base.eq(embed_base),
                self.command.channel.eq(info.token[:side_bits] if side_bits else 0),
            ]

    def _kv(self, m, info):
        """The KvCommand of the entry; ring arithmetic of model.config.ModelShape."""
        load = Mux(self.full_kv, self.header.slots, info.populated)
        if self._engine.kv_resident:
            load = Mux(info.restored, info.populated, 0)
        attend = Mux(info.populated == self.header.slots, info.populated, info.populated + 1)
        with m.If(self.entry.has_kv):
            m.d.sync += [
                self.kv.base.eq(self.entry.kv_base),
                self.kv.stage.eq(self.entry.kv_stage),
                self.kv.load.eq(load),
                self.kv.attend.eq(attend),
                self.kv.slot.eq(info.slot),
                self.kv.position.eq(info.position),
            ]
