"""Settings of the whole suite; pytest reads this file before anything imports numpy."""

import os
import random
import re
import signal
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one vector at a time: threads only wait for each other
# A shell that starts the suite in the background has it ignore Ctrl-C, and with it every process that tests
# start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# nohup does the same to the loss of the terminal.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

import pytest  # noqa: E402


def pytest_addoption(parser):
    """What the tests marked `needs_card` run on."""
    group = parser.getgroup("card", "a real card")
    group.addoption("--xclbin", metavar="FILE", help="bitstream for the card, its manifest.json beside it")
    group.addoption("--xrt-device", default="xrt:0", metavar="xrt:N", help="the card (default: xrt:0)")
    parser.addoption(
        "--allowed-skips",
        metavar="FILE",
        help="fail unless every test that skips does so for a reason in FILE",
    )


def unexpected_skips(allowed: Path, reasons: set[str]) -> list[str]:
    """Those of `reasons` that no line of the file matches."""
    lines = [line.strip() for line in allowed.read_text(encoding="utf-8").splitlines()]
    patterns = [re.compile(line) for line in lines if line and not line.startswith("#")]
    return sorted(reason for reason in reasons if not any(one.fullmatch(reason) for one in patterns))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Compare the reasons of skipped tests with those that are allowed; workers have no terminal."""
    allowed = session.config.getoption("allowed_skips")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if allowed is None or reporter is None or hasattr(session.config, "workerinput"):
        return
    skipped = [report.longrepr for report in reporter.stats.get("skipped", [])]
    reasons = {place[2].removeprefix("Skipped: ") for place in skipped if isinstance(place, tuple)}
    for reason in unexpected_skips(Path(allowed), reasons):
        reporter.write_line(f"skipped for a reason that is not in {allowed}: {reason}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)  # before hypothesis takes its seed
def pytest_configure(config):
    """Give hypothesis a seed when the command line does not, so that every run can be repeated."""
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(1 << 32))


def pytest_report_header(config):
    """The seed, as the option that repeats the run; tests with seeds of their own print them."""
    return f"seed: --hypothesis-seed={config.getoption('hypothesis_seed')}"
