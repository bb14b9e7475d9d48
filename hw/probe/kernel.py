"""The probe: control registers, a port that measures for every pseudo-channel, a mailbox of what they say."""

from amaranth.hdl import Array, C, Cat, Instance, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..axi import AxiMaster
from ..channel.writer import Writer
from ..config import Engine
from ..control import AxiLite, Control
from ..interface import CHANNEL_BITS, ErrorCode, Status, StopReason
from ..kernel.parts import IDENTITY_MODULE
from ..mailbox import FIELDS, WORD_BITS, Mailbox
from ..sequencer.port_watch import PortWatch
from .layout import MOST_PORTS, PORT_COUNTERS, Pattern
from .port import ProbePort

LOST_CYCLES = 1 << 28  # a run of the probe that takes longer has lost an answer: 1.5 s at 175 MHz
SETTLE_CYCLES = 3  # until a port's result is complete


class Probe(wiring.Component):
    """Reads from all ports at once and reports times and counts of each (`layout`).

    A run ends with a mailbox and `done` whatever the memory does: a response that is not OKAY, or one that
    never comes (within `lost` cycles), is its error, with the port's number. The command is ignored.

    Parameters
    ----------
    engine : Engine
        Ports and clock; at most `MOST_PORTS` ports.
    build_id : int or None
        As `hw.top.Kernel`.
    lost : int

    Members
    -------
    control, hbm, interrupt
        As `hw.top.Kernel`. Port 0 writes the mailbox.
    """

    def __init__(self, engine: Engine, *, build_id: int | None = None, lost: int = LOST_CYCLES):
        if engine.channels > MOST_PORTS:
            raise ValueError(f"a probe of {engine.channels} ports; {MOST_PORTS} have counters")
        self._engine, self._build_id, self._lost = engine, build_id, lost
        super().__init__(
            {
                "control": In(AxiLite()),
                "interrupt": Out(1),
                "hbm": Out(AxiMaster(engine.beat_bytes)).array(engine.channels),
            }
        )

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        m.submodules.control = control = Control(engine=engine)
        connect(m, flipped(self.control), control.bus)
        identity = Signal(128)
        if self._build_id is None:
            m.submodules.identity = Instance(IDENTITY_MODULE, o_build_id=identity)
        else:
            m.d.comb += identity.eq(self._build_id)
        m.submodules.mailbox = mailbox = Mailbox(engine=engine, build_id=identity)
        m.submodules.writer = writer = Writer(engine)
        m.d.comb += [
            self.interrupt.eq(control.interrupt),
            writer.io_pointer.eq(control.args.io),
            writer.pointer.eq(control.args.io),
            writer.i.valid.eq(mailbox.write.valid),
            writer.i.p.io.eq(1),
            writer.i.p.address.eq(mailbox.write.p.address),
            writer.i.p.data.eq(mailbox.write.p.word),
            mailbox.write.ready.eq(writer.i.ready),
            mailbox.writes_quiet.eq(writer.quiet),
        ]
        connect(m, writer.bus, flipped(self.hbm[0].write))
        for port in self.hbm[1:]:  # what nothing drives would become an input of the kernel
            outputs = (v for _, member, v in port.write.signature.flatten(port.write) if member.flow is Out)
            m.d.comb += [output.eq(0) for output in outputs]
        start = Signal()
        ports = self._ports(m, control, start)
        self._values(m, ports, mailbox)
        self._run(m, control, ports, mailbox, start)
        return m

    def _ports(self, m, control, start):
        """A register a port on the way to it, as ports lie all over the card."""
        args, ports = control.args, []
        pattern = Pattern(args.flags[: Pattern.as_shape().size])
        for k in range(self._engine.channels):
            m.submodules[f"port{k:02d}"] = port = ProbePort(self._engine)
            connect(m, port.bus, flipped(self.hbm[k].read))
            m.d.sync += [
                port.start.eq(start & (pattern.ports > k) & (args.n_prompt != 0)),
                port.bursts.eq(args.n_prompt),
                port.flying.eq(args.n_new),
                port.span.eq(args.eos),
                port.pattern.eq(pattern),
                port.gap.eq(args.watchdog),
                port.pointer.eq(args[f"hbm{k:02d}"]),
            ]
            ports.append(port)
        return ports

    def _values(self, m, ports, mailbox):
        """Counter `mailbox.index`, two cycles later."""
        words = [Signal(64, name=f"word{k:02d}") for k in range(len(ports))]
        number = Signal(range(MOST_PORTS))
        m.d.sync += number.eq(mailbox.index // PORT_COUNTERS)
        for word, port in zip(words, ports):
            m.d.sync += word.eq(port.result.as_value().word_select(mailbox.index % PORT_COUNTERS, 64))
        m.d.sync += mailbox.value.eq(Array([*words, *([0] * (MOST_PORTS - len(words)))])[number])

    def _run(self, m, control, ports, mailbox, start):
        """From `start` to `done`."""
        m.submodules.watch = watch = PortWatch(len(ports), self._lost)
        settle = Signal(range(SETTLE_CYCLES + 1))
        stuck = Signal()
        error, channel = Signal(ErrorCode), Signal(CHANNEL_BITS)
        m.d.comb += watch.quiet.eq(Cat(~port.busy for port in ports))
        failed = error != ErrorCode.NONE
        said = {
            "run_id": control.args.run_id,
            "status": Mux(failed, Status.ERROR, Status.OK),
            "stop_reason": Mux(failed, StopReason.FAULT, StopReason.NONE),
            "error": error,
            "error_channel": channel,
        }
        # All in one: a slice that is constant would be a process that no simulator ever starts.
        m.d.comb += mailbox.fields.as_value().eq(
            Cat((Value.cast(said.get(name, 0)) | C(0, WORD_BITS))[:WORD_BITS] for name in FIELDS)
        )
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [settle.eq(SETTLE_CYCLES), stuck.eq(0)]
                with m.If(control.start):
                    m.next = "ARGUMENTS"
            with m.State("ARGUMENTS"):  # they reach the ports a cycle later
                m.next = "START"
            with m.State("START"):
                m.d.comb += start.eq(1)
                m.next = "BEGIN"
            with m.State("BEGIN"):  # until the watch has seen that the ports are busy
                m.d.sync += settle.eq(settle - 1)
                with m.If(settle == 0):
                    m.d.sync += settle.eq(SETTLE_CYCLES)
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += watch.waiting.eq(1)
                with m.If(watch.all_quiet | watch.stuck):
                    m.d.sync += stuck.eq(~watch.all_quiet)
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.sync += [settle.eq(settle - 1), error.eq(ErrorCode.NONE), channel.eq(0)]
                for k, port in reversed(list(enumerate(ports))):
                    with m.If(port.fault):
                        m.d.sync += [error.eq(ErrorCode.READ_RESPONSE), channel.eq(k)]
                with m.If(stuck):
                    m.d.sync += [error.eq(ErrorCode.STUCK_PORT), channel.eq(watch.channel)]
                with m.If(settle == 0):
                    m.d.comb += mailbox.start.eq(1)
                    m.next = "REPORT"
            with m.State("REPORT"):
                with m.If(mailbox.done):
                    m.d.comb += control.done.eq(1)
                    m.next = "IDLE"
