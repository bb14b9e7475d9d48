"""hw.sequencer.dispatch.Dispatcher before the channels' command queues: they never overflow."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal

from symlight.hw.channel.channel import COMMAND_QUEUE, COMMAND_SLACK, KV_QUEUE, KV_SLACK
from symlight.hw.config import Engine
from symlight.hw.lib.queue import Queue
from symlight.hw.sequencer.dispatch import SPACING, Dispatcher

from .opened import Opened, drive_freely
from .proof import AnySeq, Proof, assume_holds, before
from .proofs_queue import queue_invariant


class CommandRoom(Proof):
    """The dispatcher, a command queue and a KV queue of a channel, and the registers between them."""

    title = (
        f"Dispatcher: the channels' queues of {COMMAND_QUEUE} commands and {KV_QUEUE} KV commands never "
        "overflow"
    )
    bmc, induction, cover = 12, 10, 26
    fast = True

    def component(self):
        return Dispatcher(Engine(channels=4, lanes=16))

    def claim(self, m: Module, dut: Opened):
        port = dut.component
        drive_freely(m, port, but=("command_room", "kv_room"))
        assume_holds(m, port.side.valid, port.side.ready, port.side.p, "side holds")
        m.d.comb += Assume(~port.go | dut.ongoing("IDLE"))
        command_level = self._channel(
            m,
            "command",
            before(m, port.command_valid, "command_arrives"),
            port.command_room,
            COMMAND_QUEUE,
            COMMAND_SLACK,
        )
        kv_level = self._channel(m, "KV", port.kv_valid, port.kv_room, KV_QUEUE, KV_SLACK)
        since = Signal(range(SPACING + 1), init=SPACING)
        m.d.sync += since.eq(Mux(port.command_valid, 0, Mux(since == SPACING, since, since + 1)))
        m.d.comb += [
            Assert(~port.command_valid | (since == SPACING), "commands keep their distance"),
            Assert(
                ~before(m, port.kv_valid, "kv_before") | ~port.kv_valid, "KV commands keep their distance"
            ),
        ]
        wait = dut.signal("wait")
        ones = Signal(range(SPACING + 1))
        m.d.comb += ones.eq(sum(wait))
        self.invariant(m, (wait & (wait + 1)) == 0, "wait is a run of ones")
        self.invariant(
            m, (wait == 0) | ~(dut.ongoing("DECODE") | dut.ongoing("COMMAND")), "decoding does not wait"
        )
        self.invariant(m, ones + since + 1 >= SPACING, "wait is the distance")
        m.d.comb += [
            Assert(
                command_level + port.command_valid <= COMMAND_QUEUE - COMMAND_SLACK + 1,
                "commands stop at the limit",
            ),
            Assert(kv_level + port.kv_valid <= KV_QUEUE - KV_SLACK + 1, "KV commands stop at the limit"),
        ]

    def _channel(self, m, name, arrives, room, depth, slack):
        """A queue that is read at any time, and its promise of room, three registers on its way."""
        queue = Queue(1, depth=depth)
        opened = Opened(queue)
        m.submodules[f"{name}_queue"] = opened.module
        m.d.comb += [queue.i.valid.eq(arrives), queue.o.ready.eq(AnySeq(1))]
        promise = queue.level <= depth - slack
        for place in ("of_channel", "of_die", "seen"):
            promise = before(m, promise, f"{name}_room_{place}")
        m.d.comb += room.eq(promise)
        m.d.comb += Assert(~queue.i.valid | queue.i.ready, f"no {name} command is lost")
        self.invariant(m, queue_invariant(opened), f"{name} queue agrees")
        m.d.comb += Cover(queue.level == 2, f"two {name} commands wait")
        return queue.level


def _no_distance(dut):
    """A command every three cycles, which the promise of room does not cover."""
    with dut.module.If(dut.signal("wait") > 1):
        dut.module.d.sync += dut.signal("wait").eq(1)


CommandRoom.broken = {
    "commands too close to each other": (_no_distance, "commands keep their distance"),
}
CommandRoom.broken_bmc = 16

PROOFS = [CommandRoom]
