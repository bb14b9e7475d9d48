"""Control registers, session, counters and mailbox: what survives a fault."""

from amaranth.hdl import Module
from amaranth.lib.wiring import connect, flipped

from .parts import Parts


def join_control(m: Module, parts: Parts, bus, interrupt):
    """The host's side: `bus` is the kernel's AXI4-Lite port, `interrupt` its output."""
    control, session, counters, mailbox = parts.control, parts.session, parts.counters, parts.mailbox
    connect(m, flipped(bus), control.bus)
    m.d.comb += [
        interrupt.eq(control.interrupt),
        session.start.eq(control.start),
        session.args.eq(control.args),
        control.done.eq(session.done),
        counters.clear.eq(session.counters_clear),
        session.counters_busy.eq(counters.busy),
        session.counters_idle.eq(counters.idle),
        mailbox.start.eq(session.mailbox_start),
        session.mailbox_done.eq(mailbox.done),
        mailbox.fields.eq(session.fields),
        counters.index.eq(mailbox.index),
        mailbox.value.eq(counters.value),
        parts.token_writer.clear.eq(session.counters_clear),
        session.n_tokens.eq(parts.token_writer.count),
    ]
