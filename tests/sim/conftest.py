"""Shared by the tests of the simulated card: one built stand-in kernel, a fresh card for each test."""

import pytest

from symlight.sim import card as cards
from symlight.sim.build import build_model, build_traffic
from symlight.sim.manifest import write_kernel
from tests.benches.places import SIMULATORS
from tests.benches.sim.standin import BUILD_ID, ENGINE, standin_verilog


@pytest.fixture(scope="session")
def standin(tmp_path_factory):
    """Folder of the stand-in kernel."""
    folder = tmp_path_factory.mktemp("standin")
    return write_kernel(folder, engine=ENGINE, build_id=BUILD_ID, files={"symlight.v": standin_verilog()})


@pytest.fixture(scope="session")
def library(standin):
    """The built simulator of the stand-in kernel."""
    return build_model(standin.sources, standin.engine, SIMULATORS)


@pytest.fixture(scope="session")
def traffic_library():
    """The memory model with its traffic generator."""
    return build_traffic(SIMULATORS)


@pytest.fixture
def plug(standin, library):
    """Plug in cards: plug(**options) -> SimCard at index 0. They are gone after the test."""
    yield lambda index=0, **options: cards.plug(cards.SimOptions(cache=SIMULATORS, **options), index)
    cards._cards.clear()
