"""Shared by the tests of the simulated card: one built stand-in kernel, a fresh card for each test."""

from pathlib import Path

import pytest
from standin import BUILD_ID, ENGINE, standin_verilog

from symlight.sim import card as cards
from symlight.sim.build import build_model, build_traffic
from symlight.sim.manifest import write_kernel

CACHE = Path(__file__).resolve().parents[2] / "build" / "models"


@pytest.fixture(scope="session")
def standin(tmp_path_factory):
    """Folder of the stand-in kernel."""
    folder = tmp_path_factory.mktemp("standin")
    return write_kernel(folder, engine=ENGINE, build_id=BUILD_ID, files={"symlight.v": standin_verilog()})


@pytest.fixture(scope="session")
def library(standin):
    """The built simulator of the stand-in kernel."""
    return build_model(standin.sources, standin.engine, CACHE)


@pytest.fixture(scope="session")
def traffic_library():
    """The memory model with its traffic generator."""
    return build_traffic(CACHE)


@pytest.fixture
def plug(standin, library):
    """Plug in cards: plug(**options) -> SimCard at index 0. They are gone after the test."""
    yield lambda index=0, **options: cards.plug(cards.SimOptions(cache=CACHE, **options), index)
    cards._cards.clear()
