"""The driver's card over the simulated pyxrt, with the small stand-in kernel of tests/sim in place of the accelerator."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from symlight.host.card import Card
from symlight.hw.interface import arguments
from symlight.model.errors import UserError
from symlight.sim import card as cards
from symlight.sim import pyxrt_sim
from symlight.sim.manifest import write_kernel

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "models"  # shared with tests/sim, so that the stand-in is built once

sys.path.insert(0, str(ROOT / "tests" / "sim"))
from standin import BUILD_ID, ENGINE, standin_verilog  # noqa: E402


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standin")
    return write_kernel(folder, engine=ENGINE, build_id=BUILD_ID, files={"symlight.v": standin_verilog()})


def old_api():
    """The names of XRT 2.13, without hw_context."""
    return SimpleNamespace(**{name: value for name, value in vars(pyxrt_sim).items() if name != "hw_context"})


@pytest.fixture(params=["2.16", "2.13"])
def card(request, kernel):
    cards.plug(cards.SimOptions(cache=CACHE, hbm="ideal"))
    api = pyxrt_sim if request.param == "2.16" else old_api()
    opened = Card(api, 0, str(kernel.path), arguments(ENGINE.channels))
    opened.allocate({"io": 5000, "hbm00": 64, "hbm01": 1 << 16})
    yield opened
    opened.close()
    cards._cards.clear()


def run(card, **scalars) -> bool:
    start = {
        "command": 3,
        "run_id": 7,
        "n_prompt": 0,
        "n_new": 0,
        "eos": 0,
        "flags": 0,
        "watchdog": 1000,
    } | scalars
    card.start(**start)
    return card.wait(2000)


def test_data_go_out_and_results_come_back(card):
    beats = np.arange(16 * 8, dtype="<u4").reshape(16, 8)
    card.write("hbm01", 96, beats[3:])  # three beats from the start: a transfer that is not aligned
    card.write("hbm01", 0, beats[:3])
    assert run(card, n_prompt=16, run_id=(1 << 31) - 1)
    words = card.read("io", 0, 16).view("<u4").tolist()
    assert words == [(1 << 31) - 1, int(beats[:, 0].sum()), 0, 3]
    assert card.read("hbm01", 96, 416).view("<u4").tolist() == beats[3:].reshape(-1).tolist()
    assert run(card, n_prompt=2, run_id=8)  # the same arguments serve again
    assert card.read("io", 0, 8).view("<u4").tolist() == [8, 8]


def test_a_wait_has_an_end(card):
    card.start(command=1, run_id=1, n_prompt=0, n_new=1 << 30, eos=0, flags=0, watchdog=0)
    assert card.wait(20) is False
    with pytest.raises(UserError, match="starting the kernel failed: bad command state"):
        card.start(command=1)


def test_two_users_of_a_card_are_refused(card, kernel):
    with pytest.raises(UserError, match="Conflicting access mode"):
        Card(pyxrt_sim, 0, str(kernel.path), arguments(ENGINE.channels))


def test_scalars_have_31_bits(card):
    with pytest.raises(ValueError, match="watchdog"):
        card.start(watchdog=1 << 31)


def test_a_buffer_that_is_too_large(card):
    with pytest.raises(UserError, match="allocating"):
        card.allocate({"hbm00": (1 << 28) + 1})


def test_a_broken_rule_of_the_kernel_is_told(card):
    with pytest.raises(UserError, match="waiting for the kernel failed"):
        run(card, flags=1)


def test_what_is_no_kernel_is_refused(card, tmp_path):
    with pytest.raises(UserError, match="generate the kernel first"):
        Card(pyxrt_sim, 0, str(tmp_path), arguments(2))
