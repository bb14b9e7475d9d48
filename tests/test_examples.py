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


def test_relu_table(tmp_path):
    assert example("examples/relu_table.py", str(tmp_path / "relu")).strip() == "68 of 256 entries changed"
    run = ("generate", "--model", str(tmp_path / "relu"), "--device", "cpu", "--prompt", "In", "--verify")
    example("-m", "symlight.host.cli", *run, "--max-new-tokens", "4")  # exit code 1 if a token differs
