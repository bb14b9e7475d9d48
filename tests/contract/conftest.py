"""Devices under test of the contract: simulated cards with the bindings of several XRT releases, and with
--xclbin a real card."""

import warnings
from pathlib import Path

import pytest

from symlight.sim import card as cards
from tests.benches.contract import devices
from tests.benches.contract.releases import binding

# Releases whose binding differs in what the driver uses: hw_context (2.16), its access modes and new
# deprecations (2.23).
RELEASES = ((2, 13), (2, 16), devices.NEWEST)


def pytest_collection_modifyitems(items):
    """Last of all: the kernel is built by tests/kernel beside other work, if that runs too."""
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.parent == here and item.path.name != "test_typings.py")


@pytest.fixture(
    params=[*RELEASES, devices.CARD],
    ids=lambda value: value if isinstance(value, str) else "{}.{}".format(*value),
)
def dut(request):
    """A device under test; the driver must do without everything that its release deprecates."""
    if request.param == "card":
        xclbin = request.config.getoption("xclbin")
        if xclbin is None:
            pytest.skip("no card: give --xclbin FILE, and --xrt-device if it is not xrt:0")
        made = devices.real(request.config.getoption("xrt_device"), Path(xclbin))
    else:
        made = devices.simulated(binding(request.param))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        yield made
    made.close()
    cards._cards.clear()
