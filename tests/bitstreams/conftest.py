"""Packages of small kernels, made once."""

import pytest

from symlight.bitstreams.package import write_package
from symlight.host.device.kernels import obtain_kernel
from symlight.model.config import preset
from tests.benches.places import CACHE


@pytest.fixture(scope="session")
def kernel_folder():
    """The generated kernel that most of these tests package."""
    return obtain_kernel("sim4", "partial-kv", CACHE).manifest.parent


@pytest.fixture(scope="session")
def package_folder(kernel_folder, tmp_path_factory):
    """Its package for the demo model. Tests that change it copy it."""
    out = tmp_path_factory.mktemp("package") / "sim4"
    write_package(kernel_folder, out, preset("demo"), "demo")
    return out
