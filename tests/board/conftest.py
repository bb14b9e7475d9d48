"""The simulated board for the tests of design, line, driver and command line together."""

import pytest

from symlight.host.device.packages import find_package
from symlight.hw.board.board import board
from symlight.model.config import preset
from symlight.model.package import load_package
from symlight.model.synthetic import random_model
from symlight.sim.board.board import SimulatedBoard, build_board
from tests.benches.places import CACHE

TIME_LIMIT = 120  # seconds of a test, without what the board takes to build


def pytest_collection_modifyitems(items):
    """The build takes long on a busy machine and has no part in a test's time limit."""
    for item in items:
        if "library" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(TIME_LIMIT, func_only=True))


@pytest.fixture(scope="session")
def library():
    """The verilated board, with its assertions."""
    return build_board(board("ulx3s-85f"), cache=CACHE / "models", optimise="-O1", jobs=1)


@pytest.fixture
def simulated(library):
    """A board that was just switched on."""
    one = SimulatedBoard(library)
    yield one
    one.close()


@pytest.fixture(scope="session")
def tiny():
    return random_model(preset("tiny"), 11, 0.3)


@pytest.fixture(scope="session")
def demo():
    """The shipped package's model."""
    return load_package(find_package("demo")).model
