"""Settings of the whole suite; pytest reads this file before anything imports numpy."""

import os
import random
import signal

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one vector at a time: threads only wait for each other
# A shell that starts the suite in the background has it ignore Ctrl-C, and with it every process that tests
# start.
signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest  # noqa: E402


def pytest_addoption(parser):
    """What the tests marked `needs_card` run on."""
    group = parser.getgroup("card", "a real card")
    group.addoption("--xclbin", metavar="FILE", help="bitstream for the card, its manifest.json beside it")
    group.addoption("--xrt-device", default="xrt:0", metavar="xrt:N", help="the card (default: xrt:0)")


@pytest.hookimpl(tryfirst=True)  # before hypothesis takes its seed
def pytest_configure(config):
    """Give hypothesis a seed when the command line does not, so that every run can be repeated."""
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(1 << 32))


def pytest_report_header(config):
    """The seed, as the option that repeats the run; tests with seeds of their own print them."""
    return f"seed: --hypothesis-seed={config.getoption('hypothesis_seed')}"
