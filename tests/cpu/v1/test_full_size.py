"""A synthetic checkpoint of the public 194M size: written by torch, imported, run."""

import numpy as np
import pytest

from symlight.cpu.v1.engine import EngineV1
from symlight.host import cli
from symlight.model.v1.config import V1_194M
from symlight.model.v1.float_model import FloatV1
from symlight.model.v1.package import load_v1
from symlight.model.v1.synthetic import Densities, tensors

pytest.importorskip("torch", reason="the extra `torch` is not installed")
from tests.benches.host.v1_pieces import pieces
from tests.benches.model.v1_checkpoints import public_tensors, write

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
LENGTH = 12
CLEAR = 2e-6  # distance of all numbers from the threshold, beyond the rounding of either side


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Packages of one checkpoint by number format."""
    folder = tmp_path_factory.mktemp("194m")
    made = dict(tensors(V1_194M.shape, Densities(), seed=5))
    assert len(public_tensors(V1_194M, made)) == 174
    checkpoint = write(folder / "c.pt", V1_194M, made)
    (folder / "t.model").write_bytes(pieces(32))
    found = {}
    for weights in ("float32", "int8"):
        arguments = ["--tokenizer", str(folder / "t.model"), "--out", str(folder / weights)]
        assert cli.run(["import-v1", str(checkpoint), *arguments, "--weights", weights]) == 0
        found[weights] = load_v1(folder / weights)
    return found


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_full_size(packages, weights):
    made = packages[weights]
    for seed in range(8):  # an input in which no spike hangs on rounding
        tokens = np.random.default_rng(seed).integers(0, made.shape.vocab, LENGTH)
        runner = FloatV1(made.shape, made.float_tensors(), np.float64)
        expected = runner.logits(tokens)
        if runner.counts.closest > CLEAR:
            break
    assert runner.counts.closest > CLEAR
    with EngineV1(made, 2) as engine:
        found = engine.run(engine.session(), tokens, wanted=LENGTH)
        session = engine.session()
        single = [engine.run(session, [token], wanted=1)[0] for token in tokens]
    assert np.array_equal(found, single)  # cached decoding equals the whole sequence
    error = np.abs(found - expected)
    print(f"{weights}, seed {seed}: mean error {error.mean():.2e}, largest {error.max():.2e}")
    assert error.mean() < 1e-5
    assert np.array_equal(engine.active, np.column_stack([runner.counts.tcam, runner.counts.down]) * 2)
    assert 0.5 < engine.active[0, 0] / (2 * LENGTH) / made.shape.width / Densities().encoder < 2
