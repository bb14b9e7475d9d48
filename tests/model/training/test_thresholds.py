"""Trained thresholds and the sparsity objective: values, the paper's gradients, the quantiser's integers."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch (extra `train`) is not installed")

from symlight.model.config import preset  # noqa: E402
from symlight.model.training import objective  # noqa: E402
from symlight.model.training.float_model import FloatConstants, FloatModel  # noqa: E402
from symlight.model.training.objective import Objective, active_bytes, pass_bytes, weight  # noqa: E402
from symlight.model.training.quantise import CONSTANTS, Checkpoint, quantise  # noqa: E402
from symlight.model.training.thresholds import (  # noqa: E402
    SLOPE,
    STEEPNESS,
    ActiveShare,
    Keep,
    TrainedEvent,
    TrainedStep,
)

SHAPE = replace(preset("tiny"), layers=2, vocab=64)
ALL = FloatConstants(event_sites=("out", "head"), trained_thresholds=True)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def smooth(above):
    return 1 / (1 + np.exp(-SLOPE * above))


X = np.array([-3.0, -0.51, -0.5, -0.49, 0.0, 0.3, 0.5, 0.7, 4.0])


def gradients(function, threshold, weights):
    x = torch.tensor(X, requires_grad=True)
    theta = torch.tensor(threshold, dtype=torch.float64, requires_grad=True)
    y = function(x, theta)
    (y * torch.tensor(weights)).sum().backward()
    return y.detach().numpy(), x.grad.numpy(), float(theta.grad)


def test_keep_has_the_gradient_of_equation_2():
    weights = np.arange(1.0, 10.0)
    y, dx, dtheta = gradients(Keep.apply, 0.5, weights)
    assert y.tolist() == [-3.0, -0.51, -0.5, 0, 0, 0, 0.5, 0.7, 4.0]
    mask = smooth(np.abs(X) - 0.5)
    np.testing.assert_allclose(dx, weights * mask)
    assert dtheta == pytest.approx(-(weights * mask * np.sign(X)).sum())


def test_trained_events_are_those_of_the_paper():
    weights = np.arange(1.0, 10.0)
    y, dx, dtheta = gradients(TrainedEvent.apply, 0.5, weights)
    assert y.tolist() == [-6, -1, -1, 0, 0, 0, 1, 1, 8]
    mask = smooth(np.abs(X) - 0.5)
    np.testing.assert_allclose(dx, weights * mask / 0.5)
    assert dtheta == pytest.approx(-(weights * mask * X).sum() / 0.25)


def test_steps_move_their_threshold():
    y, dx, dtheta = gradients(TrainedStep.apply, 0.5, np.ones(9))
    assert y.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert (dx > 0).all() and dtheta == pytest.approx(-dx.sum())


@pytest.mark.parametrize("signed", [True, False])
def test_the_share_is_equation_3(signed):
    share, dx, dtheta = gradients(lambda x, t: ActiveShare.apply(x, t, signed), 0.5, 1.0)
    above = (np.abs(X) if signed else X) - 0.5
    sparse = np.maximum(above, 0)
    assert share == pytest.approx(1 - np.exp(-STEEPNESS * sparse).mean())
    slope = STEEPNESS * np.exp(-STEEPNESS * sparse) * smooth(above) / len(X)
    np.testing.assert_allclose(dx, slope * np.sign(X) if signed else slope)
    assert dtheta == pytest.approx(-slope.sum())


def test_weights_are_shares_of_a_decode_pass():
    shape = preset("194m")
    block = sum(weight(shape, site) for site in ("qkv", "decay", "out", "up", "down"))
    head = weight(shape, "head") + weight(shape, "head_g")
    assert shape.layers * block + head == pytest.approx(1)
    assert objective.row_bytes(shape, "head") == 48000 + 192 and pass_bytes(shape) == 157_114_368
    assert head == pytest.approx(0.294, abs=0.001)


def test_the_objective_raises_the_thresholds_and_reaches_every_one():
    model = FloatModel(SHAPE, ALL)
    names = {name for name, _ in model.named_parameters() if name.endswith("threshold")}
    assert len(names) == 3 * 2 + 2 + 1 + 2  # qkv, up, down and out a layer; s' of the first; head and hidden
    x = torch.randint(SHAPE.vocab, (2, 16))
    total, task, penalty = Objective(model)(x, x, 2.0)
    assert total.item() == pytest.approx(task.item() + 2 * penalty.item()) and 0 < penalty.item() < 1
    (total - Objective(model)(x, x, 0.0)[0]).backward()
    for name, parameter in model.named_parameters():
        if name.endswith("threshold"):
            assert parameter.grad < 0, name  # a step against it raises the threshold


def test_without_a_strength_there_is_no_penalty():
    model = FloatModel(SHAPE, ALL)
    x = torch.randint(SHAPE.vocab, (1, 8))
    total, task, penalty = Objective(model)(x, x, 0.0)
    assert total.item() == task.item() and penalty.item() == 0


def test_the_published_model_has_no_new_tensor():
    plain, sparse = FloatModel(SHAPE).state_dict(), FloatModel(SHAPE, ALL).state_dict()
    assert set(sparse) - set(plain) == {
        "blocks.0.tcam.out_threshold",
        "blocks.1.tcam.out_threshold",
        "output_head.threshold",
        "output_head.hidden_threshold",
    }
    assert not [name for name, _ in FloatModel(SHAPE).named_parameters() if "threshold" in name]


def test_bytes_follow_the_densities():
    model, watch = FloatModel(SHAPE, ALL), []
    with torch.no_grad():
        model(torch.randint(SHAPE.vocab, (2, 16)), watch)
    read = active_bytes(SHAPE, watch, ("out", "head"))
    assert 0 < read < active_bytes(SHAPE, watch, ()) < pass_bytes(SHAPE)
    full = [dict.fromkeys(seen, 1.0) for seen in watch]
    assert active_bytes(SHAPE, full, ("out", "head")) == pass_bytes(SHAPE)


def test_quantised_sites_are_the_float_models():
    """Each threshold in its integer unit."""
    constants = replace(ALL, out_threshold=0.4, head_threshold=0.7, hidden_threshold=0.17)
    model = FloatModel(SHAPE, constants)
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    numbers = {name: getattr(constants, name) for name in CONSTANTS}
    integers, _ = quantise(Checkpoint(tensors, SHAPE, numbers))
    assert integers.event_sites == ("out", "head")
    assert [block.out_threshold for block in integers.blocks] == [13, 13]  # 32 * 0.4 + 0.5 = 13.3
    assert integers.head.threshold == 1434  # ceil(0.7 * 2048)
    table = integers.head.gelu_table
    assert not table[:128].any() and table[128 + 4] == 0 and table[128 + 5] == 3  # GELU(5 / 16) = 0.19


def test_unknown_sites_are_refused():
    with pytest.raises(Exception, match="known: out, head"):
        FloatConstants(event_sites=("in",))
