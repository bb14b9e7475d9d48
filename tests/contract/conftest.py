"""Rigs of the contract: simulated cards behind the bindings of several XRT releases, and with --xclbin a real
card."""

import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import rigs
from releases import binding

from symlight.sim import card as cards

# Releases whose binding differs in what the driver uses: hw_context (2.16), its access modes and new
# deprecations (2.23).
RELEASES = ((2, 13), (2, 16), rigs.NEWEST)


def pytest_collection_modifyitems(items):
    """Last of all: the kernel is built by tests/kernel beside other work, if that runs too."""
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.parent == here and item.path.name != "test_typings.py")


@pytest.fixture(
    params=[*RELEASES, rigs.CARD],
    ids=lambda value: value if isinstance(value, str) else "{}.{}".format(*value),
)
def rig(request):
    """A rig; the driver must do without everything that its release deprecates."""
    if request.param == "card":
        xclbin = request.config.getoption("xclbin")
        if xclbin is None:
            pytest.skip("no card: give --xclbin FILE, and --xrt-device if it is not xrt:0")
        made = rigs.real(request.config.getoption("xrt_device"), Path(xclbin))
    else:
        made = rigs.simulated(binding(request.param))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        yield made
    made.close()
    cards._cards.clear()
