"""The examples run as their first lines say."""

import subprocess
import sys

import pytest

from tests.benches.places import CACHE, ROOT

pytestmark = pytest.mark.timeout(300)


def example(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_verilog():
    lines = example("examples/verilog.py", str(CACHE)).splitlines()
    assert any(line.endswith("symlight.v") for line in lines) and lines[-1].endswith("bytes per channel")


def test_queue_bench():
    assert example("-m", "examples.queue_bench").splitlines()[-1] == "1 test passed"


def test_random_model():
    tokens = example("examples/random_model.py").splitlines()[-1]
    assert tokens.startswith("[") and len(tokens.split(",")) == 8
