"""hw.channel.gather.Gather: every nonzero element of the group once, in ascending order, and nothing else."""

from types import SimpleNamespace
from typing import cast

from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.utils import exact_log2

from symlight.hw.channel.gather import ROWS, Gather
from symlight.hw.config import Engine
from symlight.hw.types import Work

from .opened import Opened, drive_freely
from .proof import AnyConst, Proof, assume_holds, holds

LANES = 4  # elements of a word, of 16, 32 or 64: the gather is a slice a lane
WORDS = 4  # words of the vector buffer
LONGEST = 2  # words of a command
ENGINE = cast(Engine, SimpleNamespace(lanes=LANES, vector_words=WORDS))  # an Engine has at least 16 lanes
COMMANDS = 2  # followed from reset


class Picked(Proof):
    """One command and one element of its vector are watched; the solver may take any, so it holds for all."""

    title = (
        f"Gather ({LANES} lanes, commands of up to {LONGEST} words, any of the first {COMMANDS}): "
        "every nonzero element of the group once, ascending, none else; a row with each; "
        "one `last` a command; streams hold"
    )
    bmc, cover = 11, 18

    def component(self):
        return Gather(ENGINE)

    def claim(self, m: Module, dut: Opened):
        port, rows = dut.component, dut.part("row_queue")
        drive_freely(m, port, but=("group", "active"))
        command, item, row = port.commands.p, port.items.p, rows.component.i.p
        assume_holds(m, port.commands.valid, port.commands.ready, command, "commands hold")
        log, columns = AnyConst(2), AnyConst(6)  # commands differ in length, mode and kind; the cut is one
        m.d.comb += [
            port.group.eq(AnyConst(5)),
            port.active.eq(AnyConst(1)),
            Assume((log <= 2) & (port.group < (1 << log)[:3])),
            Assume((command.work == Work.MATRIX) | (command.work == Work.HEAD)),
            Assume(command.log_groups == log),
            Assume((command.words != 0) & (command.words <= LONGEST)),
            Assume(command.columns == columns),
            Assume((command.count != 0) & (command.count <= 2)),
        ]
        # The watched command: number `which`, words from number `start` on; element `element`.
        which, start, element = AnyConst(range(COMMANDS)), AnyConst(3), AnyConst(range(LANES * LONGEST))
        taken = port.commands.valid & port.commands.ready
        number, first, words, streams = Signal(4), Signal(4), Signal(2), Signal()
        m.d.sync += [number.eq(number + taken), first.eq(first + Mux(taken, command.words, 0))]
        begins = taken & (number == which)
        m.d.comb += Assume(~begins | (first == start))
        with m.If(begins):
            m.d.sync += [words.eq(command.words), streams.eq(command.stream)]
        tiles = [Signal(2, name=f"tiles{k}") for k in range(COMMANDS)]  # `last`s of each command
        for k, count in enumerate(tiles):
            with m.If(taken & (number == k)):
                m.d.sync += count.eq(Mux(command.work == Work.HEAD, command.count, 1))

        # Words that came, as many as the buffer has room for; the watched element among them.
        buffer, came, value = dut.part("buffer"), Signal(4), Signal(8)
        put, oldest = buffer.signal("put"), buffer.signal("oldest")
        m.d.comb += Assume(~port.word_valid | (((put - oldest)[: len(put)] < WORDS) & (came != 15)))
        m.d.sync += came.eq(came + port.word_valid)
        lane_bits = exact_log2(LANES)
        with m.If(port.word_valid & (came == start + element[lane_bits:])):
            m.d.sync += value.eq(port.word.word_select(element[:lane_bits], 8))

        holds(
            m,
            port.items.valid,
            port.items.ready,
            Cat(item.value, item.valid_row, item.last),
            "items hold until ready",
        )
        holds(m, port.rows.valid, port.rows.ready, port.rows.p, "rows hold until ready")
        sent = port.items.valid & port.items.ready
        with m.If(rows.component.i.valid):
            m.d.comb += Assert(
                rows.component.i.ready & sent & (row.valid == item.valid_row) & (row.last == item.last),
                "a row goes with its item",
            )

        # Whose items these are: commands end with `last`, once a tile.
        done, scans = Signal(4), Signal(2)
        mine = sent & (done == which)
        with m.If(sent & item.last):
            m.d.sync += scans.eq(scans + 1)
            with m.If(scans + 1 == Array(tiles)[done]):
                m.d.sync += [scans.eq(0), done.eq(done + 1)]
        m.d.comb += Assert(~sent | (done < number), "items belong to a command")

        # Which element an item is: an active scan names its row, a dense scan sends all rows in order.
        dense, index, before_it, some, seen = Signal(4), Signal(5), Signal(5), Signal(), Signal()
        m.d.comb += index.eq((Mux(streams, dense, row.row) << log) + port.group)
        is_watched = mine & item.valid_row & (index == element)
        due = (
            port.active
            & (element < LANES * words)
            & ((element & ((1 << log) - 1)[:2]) == port.group)
            & (streams | (value != 0))
        )
        with m.If(mine):
            m.d.sync += [
                dense.eq(Mux(item.last, 0, dense + item.valid_row)),
                some.eq((some | item.valid_row) & ~item.last),
                seen.eq((seen | is_watched) & ~item.last),
            ]
        with m.If(mine & item.valid_row):
            m.d.sync += before_it.eq(index)
        picked = mine & item.valid_row
        m.d.comb += [
            Assert(~picked | port.active, "a channel that takes no part sends no elements"),
            Assert(~picked | (rows.component.i.valid != streams), "active scans send rows, dense scans none"),
            Assert(~picked | (index < LANES * words), "only elements of the command's words"),
            Assert(~is_watched | (item.value.as_unsigned() == value), "an element's own value"),
            Assert(~is_watched | due, "only elements of the group, and only nonzero ones in an active scan"),
            Assert(~picked | ~some | (index > before_it), "ascending, each once"),
            Assert(
                ~(mine & item.last) | ~due | seen | is_watched, "every element that is due before the end"
            ),
        ]
        scanned = mine & item.last & seen & (words == 2)
        m.d.comb += [
            Cover(scanned & ~streams & some & (log == 1), "an active scan of two words"),
            Cover(scanned & streams & (scans == 1), "second tile of a head"),
            Cover(scanned & ~streams & (scans == 1), "second tile of a head by active row"),
            Cover(
                mine & item.last & ~item.valid_row & port.active & (which == COMMANDS - 1),
                "a marker of an empty scan, last command",
            ),
            Cover(port.rows.valid & ~port.rows.ready & (rows.component.level == ROWS), "rows wait"),
        ]


def _skips_top(dut):
    """The highest lane is never picked."""
    mask = dut.signal("mask")
    dut.module.d.comb += dut.signal("local").eq((mask & -mask)[: LANES - 1])


def _repeats(dut):
    """The element that was sent stays."""
    with dut.module.If(
        dut.component.items.valid
        & dut.component.items.ready
        & (dut.signal("rest") != 0)
        & dut.signal("mask")[0]
    ):
        dut.module.d.sync += dut.signal("mask").eq(dut.signal("mask"))


def _highest_first(dut):
    mask = dut.signal("mask")
    chosen = Cat(
        mask[lane] & ~mask[lane + 1 :].any() if lane + 1 < LANES else mask[lane] for lane in range(LANES)
    )
    dut.module.d.comb += dut.signal("local").eq(chosen)


def _fickle(dut):
    """An item is taken back when a word comes in."""
    dut.module.d.comb += dut.component.items.valid.eq(dut.signal("sends") & ~dut.component.word_valid)


def _all_groups(dut):
    decoded = dut.part("decoded")
    decoded.module.d.sync += decoded.component.about.lanes.eq(-1)


def _takes_zeros(dut):
    with dut.module.If(dut.signal("taken")):
        dut.module.d.sync += dut.signal("mask").eq(-1)


Picked.broken = {
    "the highest lane is never picked": (_skips_top, "every element that is due before the end"),
    "an element is sent twice": (_repeats, "ascending, each once"),
    "highest first": (_highest_first, "ascending, each once"),
    "sends zeros": (_takes_zeros, "only elements of the group, and only nonzero ones in an active scan"),
    "takes every group's elements": (_all_groups, "a channel that takes no part sends no elements"),
    "offers an item and takes it back": (_fickle, "items hold until ready"),
}
Picked.broken_bmc = 14

PROOFS = [Picked]
