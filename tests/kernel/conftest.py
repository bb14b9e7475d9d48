"""Kernels and models for the tests of the whole accelerator on the simulated card."""

import functools
import os

import pytest

from symlight.host.device.packages import find_package
from symlight.model.config import preset
from symlight.model.package import load_package
from symlight.model.synthetic import random_model
from symlight.sim import card as cards
from tests.benches.kernel.kernel_bench import Bench
from tests.benches.kernel.kernel_list import NAMES, obtain

TIME_LIMIT = 120  # seconds of a test, without what its kernel takes to build


def wanted(item) -> list[str]:
    """Kernels that a test names in its parameter or in its marker `kernel`."""
    found = item.callspec.params.get("kernel_name") if hasattr(item, "callspec") else None
    marked = [name for marker in item.iter_markers("kernel") for name in marker.args]
    return [found] if found else marked


def pytest_configure(config):
    config.addinivalue_line("markers", "kernel(*names): kernels of tests/kernel that the test runs on")


def pytest_collection_modifyitems(items):
    """Builds take long on a busy machine and have no part in a test's time limit."""
    for item in items:
        if "kernels" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(TIME_LIMIT, func_only=True))


@pytest.fixture(scope="session")
def kernels(request):
    """kernels(name) -> KernelInfo; built when it is first asked for, with the processors that other workers
    leave."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    workers = getattr(request.config, "workerinput", {}).get("workercount", 1)
    jobs = max(1, (os.cpu_count() or 1) // workers)

    @functools.cache
    def get(name: str):
        assert name in NAMES, f"unknown kernel: {name}"
        stages = set()

        def say(stage: str, done: int, total: int) -> None:
            if stage not in stages and reporter is not None:
                stages.add(stage)
                with capture.global_and_fixture_disabled():
                    reporter.write_line(f"kernel {name}: {stage} ...")

        return obtain(name, jobs, say)

    return get


@pytest.fixture
def kernel(request, kernels):
    """The kernel that the test names."""
    (name,) = wanted(request.node)
    return kernels(name)


@pytest.fixture
def bench(kernel):
    """bench(model, flags=..., **SimOptions) -> Bench: the card with a session, and the reference beside
    it."""
    opened = []

    def make(model, **options) -> Bench:
        opened.append(Bench(kernel, model, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
    cards._cards.clear()


@pytest.fixture(scope="session")
def demo():
    """The shipped package's model."""
    return load_package(find_package("demo")).model


@pytest.fixture(scope="session")
def tiny():
    return random_model(preset("tiny"), 11, 0.3)
