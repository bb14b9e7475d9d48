"""Controller of an SDR SDRAM: beats of several words, open rows, the next row opened beside the running
burst.

requests ─► segment (one row) ─► prepare: precharge, activate ─► column: read or write a beat ─► pins
                                        └──── one command bus, columns first ────┘
refresh: between segments, when it is due                                    dq ─► shift register ─► read
"""

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..axi import BURST_BITS
from .chip import Cycles, SdramChip
from .sdram_ports import ALL_BANKS, SdramCommand, pins_signature, request_layout


class SdramController(wiring.Component):
    """Beats of `beat_bytes` from and to an SDRAM, in the order of the requests.

    A beat is one burst of the chip, of as many words as a beat has; so a column command takes the bus every
    `words` cycles, and precharge and activate of the next row go between. Rows stay open. Consecutive rows
    are in consecutive banks, so a stream that leaves a row finds the next one open.

    Throughput: a beat every `words` cycles within a row, and from row to row of different banks when a
    segment has two beats or more. Refresh takes about 20 cycles every 7.8 us. Latency of a read of an open
    row: 10 cycles and the words of a beat. Back-pressure: `requests.ready`; `read` has none, so room is
    reserved before a read is requested.

    Parameters
    ----------
    chip : SdramChip
    mhz : float
        Clock of this domain.
    beat_bytes : int
        2, 4, 8 or 16 for a chip of 16 bits.

    Attributes
    ----------
    PAD_LATENCY : int
        Registers between `pins` and the chip, out and in together: the chip takes a command half a cycle
        after the output register, and a word is in the input register `cas_latency` +
        PAD_LATENCY cycles after the
        command is on `pins`.

    Members
    -------
    requests : In(stream of request_layout)
    read : Out
        {valid, data}: beats in order, one a request's beat.
    ready : Out
        The chip is initialised.
    pins : Out(pins_signature)
        All outputs are registers.
    """

    PAD_LATENCY = 2

    def __init__(self, *, chip: SdramChip, mhz: float, beat_bytes: int):
        self._chip, self._cycles = chip, Cycles(chip, mhz)
        self._words = 8 * beat_bytes // chip.data_bits
        self._bits = 8 * beat_bytes
        if self._words not in (1, 2, 4, 8):
            raise ValueError(f"a beat of {beat_bytes} bytes is no burst of 1, 2, 4 or 8 words")
        super().__init__(
            {
                "requests": In(stream.Signature(request_layout(chip, beat_bytes))),
                "read": Out(wiring.Signature({"valid": Out(1), "data": Out(self._bits)})),
                "ready": Out(1),
                "pins": Out(pins_signature(chip)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        chip, pins = self._chip, self.pins
        self._beat_bits = exact_log2(self._words)
        segment = data.StructLayout(
            {
                "write": 1,
                "column": chip.column_bits - self._beat_bits,  # beat within the row
                "bank": chip.bank_bits,
                "row": chip.row_bits,
                "beats": BURST_BITS,
                "data": self._bits,
            }
        )
        # prepared, and in the column stage
        self._next, self._now = Signal(segment), Signal(segment)
        self._ready, self._busy = Signal(), Signal()  # `_next` may enter the column stage, which has `_now`
        self._issue = Signal()  # a column command in this cycle
        self._guards = [Signal(range(self._words + self._cycles.wr + 1), name=f"guard{b}") for b in range(4)]
        m.d.sync += [pins.command.eq(SdramCommand.NOP), pins.cke.eq(1)]
        self._columns(m)
        self._prepare(m, self._segments(m, segment))
        self._words_in(m)
        return m

    def _segments(self, m, layout):
        """Requests cut at the ends of rows: (valid, segment, taken)."""
        address_bits = len(self.requests.p.address)
        column_bits = self._chip.column_bits - self._beat_bits
        held, settled, taken = Signal(), Signal(2), Signal()  # two cycles: room, then its comparison
        request = Signal.like(self.requests.p)
        room, first = Signal(column_bits + 1), Signal(BURST_BITS)
        rest = Signal(address_bits - column_bits)
        segment = Signal(layout)
        m.d.comb += [
            self.requests.ready.eq(~held),
            rest.eq(request.address[column_bits:]),
            segment.write.eq(request.write),
            segment.column.eq(request.address),
            segment.bank.eq(rest),
            segment.row.eq(rest[self._chip.bank_bits :]),
            segment.beats.eq(first),
            segment.data.eq(request.data),
        ]
        m.d.sync += [
            settled.eq(Mux(held & ~taken, Cat(1, settled), 0)),
            room.eq((1 << column_bits) - request.address[:column_bits]),
            first.eq(Mux(request.beats > room, room, request.beats)),
        ]
        with m.If(~held):
            m.d.sync += [held.eq(self.requests.valid), request.eq(self.requests.p)]
        with m.If(taken):
            m.d.sync += [
                held.eq(request.beats != first),
                request.beats.eq(request.beats - first),
                request.address.eq((rest + 1) << column_bits),
            ]
        return settled[-1], segment, taken

    def _columns(self, m):
        """The column stage: a READ or WRITE every `words` cycles."""
        pins, now = self.pins, self._now
        slot = Signal(range(self._words))
        turn = Signal(
            range(self._chip.cas_latency + self._words + 1)
        )  # cycles until a write may follow a read
        driving = Signal(range(self._words + 1))
        rest = Signal(self._bits)
        m.d.comb += self._issue.eq(self._busy & (slot == 0) & ~(now.write & (turn != 0)))
        with m.If(slot != 0):
            m.d.sync += slot.eq(slot - 1)
        with m.If(turn != 0):
            m.d.sync += turn.eq(turn - 1)
        with m.If(driving != 0):
            m.d.sync += driving.eq(driving - 1)
        m.d.sync += [
            pins.dq_oe.eq(driving > 1),
            pins.dq_o.eq(rest),
            rest.eq(rest >> self._chip.data_bits),
        ]
        for guard in self._guards:
            with m.If(guard != 0):
                m.d.sync += guard.eq(guard - 1)
        with m.If(self._issue):
            m.d.sync += [
                pins.command.eq(Mux(now.write, SdramCommand.WRITE, SdramCommand.READ)),
                pins.ba.eq(now.bank),
                pins.a.eq(now.column << self._beat_bits),
                slot.eq(self._words - 1),
                now.column.eq(now.column + 1),
                now.beats.eq(now.beats - 1),
            ]
            with m.If(now.beats == 1):
                m.d.sync += self._busy.eq(0)
            with m.If(now.write):
                m.d.sync += [
                    pins.dq_oe.eq(1),
                    pins.dq_o.eq(now.data),
                    rest.eq(now.data >> self._chip.data_bits),
                    driving.eq(self._words),
                ]
            with m.Else():
                m.d.sync += turn.eq(self._chip.cas_latency + self._words)
            guard = Mux(now.write, self._words - 2 + self._cycles.wr, self._words - 1)
            with m.Switch(now.bank):
                for bank, counter in enumerate(self._guards):
                    with m.Case(bank):
                        m.d.sync += counter.eq(guard)
        with m.If(self._ready & ~self._busy):
            m.d.sync += [self._busy.eq(1), now.eq(self._next)]

    def _prepare(self, m, segments):
        """Power-up, then segment by segment: its row is opened beside the column stage."""
        t, chip, following = self._cycles, self._chip, self._next
        self._count = Signal(range(max(t.rfc, t.rcd, t.rp, chip.mrd_cycles) + 1))  # cycles of a wait
        self._due, self._opened = Signal(), Signal(1 << chip.bank_bits)
        self._rows = Array(Signal(chip.row_bits, name=f"row{b}") for b in range(1 << chip.bank_bits))
        self._ras = Signal(range(t.ras + 1))  # cycles until the row opened last may be closed
        self._was_open, self._hit, self._free = Signal(), Signal(), Signal()
        row, timer, guards = Signal(chip.row_bits), Signal(range(t.refresh)), Array(self._guards)
        with m.If(self._ras != 0):
            m.d.sync += self._ras.eq(self._ras - 1)
        with m.If(self._count != 0):
            m.d.sync += self._count.eq(self._count - 1)
        m.d.sync += timer.eq(Mux(timer == t.refresh - 1, 0, timer + 1))
        with m.If((timer == 0) & self.ready):
            m.d.sync += self._due.eq(1)
        # in the cycle before: no column command of the bank is to come or too recent
        used = self._busy & (self._now.bank == following.bank)
        m.d.sync += [
            self._was_open.eq(self._opened.bit_select(following.bank, 1)),
            row.eq(self._rows[following.bank]),
            self._hit.eq(self._was_open & (row == following.row)),
            self._free.eq((guards[following.bank] == 0) & (self._ras == 0) & ~used),
        ]
        age, self._powered = Signal(range(t.power_up + 1)), Signal()
        m.d.sync += [age.eq(age + ~self._powered), self._powered.eq(self._powered | (age == t.power_up))]
        with m.FSM(init="POWER"):
            self._power_up(m)
            self._refresh(m)
            self._take(m, *segments)
            self._open(m)
        self._check_rows(m, t, self._opened)

    def _command(self, m, what, address=0):
        """A command that is no column's, with the bank of the segment in hand."""
        pins = self.pins
        m.d.sync += [pins.command.eq(what), pins.a.eq(address), pins.ba.eq(self._next.bank)]

    def _power_up(self, m):
        """Wait, close, refresh some times, set the mode."""
        chip = self._chip
        with m.State("POWER"):
            with m.If(self._powered):
                m.next = "CLOSE"
        with m.State("SET MODE"):
            mode = chip.cas_latency << 4 | self._beat_bits  # sequential bursts of `words`
            self._command(m, SdramCommand.MODE, mode)
            m.d.sync += [self.pins.ba.eq(0), self._count.eq(chip.mrd_cycles)]
            m.next = "MODE"
        with m.State("MODE"):
            with m.If(self._count == 0):
                m.d.sync += self.ready.eq(1)
                m.next = "EMPTY"

    def _refresh(self, m):
        """Close all banks, refresh; at power-up some times."""
        t, times = self._cycles, self._chip.power_up_refreshes
        left = Signal(range(times + 1), init=times)
        with m.State("CLOSE"):
            with m.If(~self._busy & (self._ras == 0) & (Cat(self._guards) == 0)):
                self._command(m, SdramCommand.PRECHARGE, ALL_BANKS)
                m.d.sync += [self._opened.eq(0), self._count.eq(t.rp - 1)]
                m.next = "REFRESH"
        with m.State("REFRESH"):
            with m.If(self._count == 0):
                self._command(m, SdramCommand.REFRESH)
                m.d.sync += [self._due.eq(0), self._count.eq(t.rfc - 1)]
                m.next = "REFRESHED"
        with m.State("REFRESHED"):
            with m.If(self._count == 0):
                with m.If(self.ready):
                    m.next = "EMPTY"
                with m.Elif(left != 1):
                    m.d.sync += left.eq(left - 1)
                    m.next = "REFRESH"
                with m.Else():
                    m.next = "SET MODE"

    def _take(self, m, valid, segment, taken):
        """The next segment, and what its row needs."""
        with m.State("EMPTY"):
            with m.If(self._due):
                m.next = "CLOSE"
            with m.Elif(valid):
                m.d.comb += taken.eq(1)
                m.d.sync += self._next.eq(segment)
                m.next = "LOOK"
        with m.State("LOOK"):
            m.next = "COMPARE"
        with m.State("COMPARE"):
            m.next = "DECIDE"
        with m.State("DECIDE"):
            with m.If(self._hit):
                m.next = "READY"
            with m.Elif(self._was_open):
                m.next = "PRECHARGE"
            with m.Else():
                m.next = "ACTIVATE"

    def _open(self, m):
        """Close another row of the bank, open this one, hand the segment over."""
        t, following = self._cycles, self._next
        opened = self._opened.bit_select(following.bank, 1)
        with m.State("PRECHARGE"):
            with m.If(self._free & ~self._issue):
                self._command(m, SdramCommand.PRECHARGE)
                m.d.sync += [opened.eq(0), self._count.eq(t.rp - 1)]
                m.next = "PRECHARGED"
        with m.State("PRECHARGED"):
            with m.If(self._count == 0):
                m.next = "ACTIVATE"
        with m.State("ACTIVATE"):
            with m.If(~self._issue):
                self._command(m, SdramCommand.ACTIVATE, following.row)
                m.d.sync += [
                    opened.eq(1),
                    self._rows[following.bank].eq(following.row),
                    self._ras.eq(t.ras - 1),
                    self._count.eq(max(t.rcd, t.rrd) - 1),
                ]
                m.next = "ACTIVATED"
        with m.State("ACTIVATED"):
            with m.If(self._count == 0):
                m.next = "READY"
        with m.State("READY"):
            m.d.comb += self._ready.eq(1)
            with m.If(~self._busy):
                m.next = "EMPTY"

    def _check_rows(self, m, t, opened):
        """Refresh closes every row long before it has been open for too long."""
        if t.refresh * 2 > t.at_least(self._chip.ras_max_ns):
            raise ValueError("a row could stay open for too long between two refreshes")
        m.d.sync += Assert(~self._issue | opened.bit_select(self._now.bank, 1), "a column of a closed row")

    def _words_in(self, m):
        """Words of a read into a shift register; the beat is complete with its last word."""
        latency = 1 + self._chip.cas_latency + self.PAD_LATENCY + self._words
        tokens = Signal(latency)
        m.d.sync += [
            tokens.eq(Cat(self._issue & ~self._now.write, tokens)),
            self.read.data.eq(Cat(self.read.data[self._chip.data_bits :], self.pins.dq_i)),
        ]
        m.d.comb += self.read.valid.eq(tokens[-1])
