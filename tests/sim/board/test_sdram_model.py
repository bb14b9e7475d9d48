"""sim.board.sdram.h: every rule of the chip is seen when it is broken by one cycle, and only then."""

import pytest

from symlight.hw.board.sdram_ports import ALL_BANKS
from symlight.hw.board.sdram_ports import SdramCommand as Do
from symlight.sim.board.chip import Chip

pytestmark = pytest.mark.timeout(120)

MHZ = 100
POWER_UP = 20_000  # cycles
MODE = 3 << 4 | 2  # latency 3, bursts of 4
RCD, RP, RAS, RRD, WR, RFC, MRD = 3, 3, 5, 2, 2, 7, 2  # least cycles at 100 MHz, from the data sheet


@pytest.fixture
def chip():
    chip = Chip(MHZ)
    yield chip
    chip.close()


def power_up(chip, *, wait=POWER_UP, refreshes=8, rp=RP, rfc=RFC, mode=MODE):
    chip.wait(wait)
    chip.edge(Do.PRECHARGE, a=ALL_BANKS)
    chip.wait(rp - 1)
    for _ in range(refreshes):
        chip.edge(Do.REFRESH)
        chip.wait(rfc - 1)
    chip.edge(Do.MODE, a=mode)
    chip.wait(MRD - 1)


def test_a_legal_session_breaks_no_rule(chip):
    power_up(chip)
    chip.edge(Do.ACTIVATE, ba=1, a=77)
    chip.wait(RCD - 1)
    for i, command in enumerate((Do.WRITE, Do.NOP, Do.NOP, Do.NOP)):
        chip.edge(command, ba=1, a=8, dq=1000 + i)
    read = [chip.edge(Do.READ, ba=1, a=8)] + [chip.edge() for _ in range(8)]
    assert read == [None] * 3 + [1000, 1001, 1002, 1003] + [None] * 2
    chip.edge(Do.PRECHARGE, ba=1)
    chip.wait(RP - 1)
    chip.edge(Do.ACTIVATE, ba=1, a=78)
    assert chip.error == ""


def test_bursts_wrap_in_their_block(chip):
    power_up(chip)
    chip.edge(Do.ACTIVATE, a=5)
    chip.wait(RCD - 1)
    for i, command in enumerate((Do.WRITE, Do.NOP, Do.NOP, Do.NOP)):
        chip.edge(command, a=4, dq=i)
    chip.edge(Do.READ, a=6)
    chip.wait(2)
    assert [chip.edge() for _ in range(4)] == [2, 3, 0, 1]


def activated(chip, **kwargs):
    power_up(chip)
    chip.edge(Do.ACTIVATE, **kwargs)


def early_read(chip, less):
    activated(chip)
    chip.wait(RCD - 1 - less)
    chip.edge(Do.READ)


def early_precharge(chip, less):
    activated(chip)
    chip.wait(RAS - 1 - less)
    chip.edge(Do.PRECHARGE)


def early_row(chip, less):
    activated(chip)
    chip.wait(RAS - 1)
    chip.edge(Do.PRECHARGE)
    chip.wait(RP - 1 - less)
    chip.edge(Do.ACTIVATE)


def early_bank(chip, less):
    activated(chip)
    chip.wait(RRD - 1 - less)
    chip.edge(Do.ACTIVATE, ba=1)


def early_close_after_write(chip, less):
    activated(chip)
    chip.wait(RAS)
    for command in (Do.WRITE, Do.NOP, Do.NOP, Do.NOP):
        chip.edge(command, dq=0)
    chip.wait(WR - 1 - less)
    chip.edge(Do.PRECHARGE)


def early_refresh(chip, less):
    power_up(chip)
    chip.edge(Do.REFRESH)
    chip.wait(RFC - 1 - less)
    chip.edge(Do.ACTIVATE)


def early_mode(chip, less):
    power_up(chip)
    chip.edge(Do.MODE, a=MODE)
    chip.wait(MRD - 1 - less)
    chip.edge(Do.ACTIVATE)


def early_write(chip, less):
    activated(chip)
    chip.wait(RCD - 1)
    chip.edge(Do.READ)
    chip.wait(3 + 4 - less)  # latency, burst; then a cycle for the bus to turn
    chip.edge(Do.WRITE, dq=0)
    for _ in range(3):
        chip.edge(dq=0)


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        (early_read, "t_RCD"),
        (early_precharge, "t_RAS"),
        (early_row, "t_RP"),
        (early_bank, "t_RRD"),
        (early_close_after_write, "t_WR"),
        (early_refresh, "t_RFC"),
        (early_mode, "t_MRD"),
        (early_write, "DQ is driven by both sides"),
    ],
)
def test_a_cycle_too_early(script, rule, chip):
    script(chip, 0)
    assert chip.error == ""
    late = Chip(MHZ)
    script(late, 1)
    assert rule in late.error
    late.close()


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        (lambda c: power_up(c, wait=POWER_UP - 10), "stable for 200 us"),
        (lambda c: power_up(c, refreshes=7), "before precharge and refreshes"),
        (lambda c: power_up(c, mode=MODE | 1 << 3), "mode register"),
        (lambda c: (power_up(c), c.edge(Do.READ)), "closed bank"),
        (lambda c: (activated(c), c.wait(5), c.edge(Do.ACTIVATE, a=1)), "open bank"),
        (lambda c: (activated(c), c.wait(9), c.edge(Do.REFRESH)), "open bank"),
        (lambda c: (activated(c), c.wait(9), c.edge(Do.WRITE), c.edge()), "nothing drives DQ"),
        (lambda c: (activated(c), c.wait(9), c.edge(Do.WRITE, dq=0), c.edge(Do.READ, dq=0)), "is written"),
        (lambda c: (activated(c), c.wait(9), c.edge(Do.READ, a=ALL_BANKS)), "auto-precharge"),
        (lambda c: (power_up(c), c.wait(8000)), "refresh is late"),
        (lambda c: (power_up(c), c.edge(cke=False)), "CKE is low"),
    ],
)
def test_what_is_not_allowed(script, rule, chip):
    script(chip)
    assert rule in chip.error


@pytest.mark.parametrize(
    ("mhz", "latency", "legal"), [(142, 3, True), (150, 3, False), (100, 2, True), (110, 2, False)]
)
def test_the_clock_fits_the_latency(mhz, latency, legal):
    chip = Chip(mhz)
    power_up(chip, wait=2 * POWER_UP, rp=5, rfc=12, mode=latency << 4 | 2)
    assert (chip.error == "") is legal
    chip.close()
