"""The quantiser: every tensor means what the float model meant, the whole model computes nearly the same."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from symlight.base.errors import UserError
from symlight.model import ops
from symlight.model.config import preset
from symlight.model.reference import Reference
from symlight.model.scaling import alibi_slopes, gelu_values, mix_gains, multiplier_shift, norm_tensors
from symlight.model.training.quantise import (
    Checkpoint,
    StaticScales,
    quantise,
    quantise_rows,
    read_checkpoint,
)
from tests.benches.model.naive_float import CONSTANTS, NaiveFloat, event, layer_norm, random_checkpoint

SEED = 21


@pytest.fixture(scope="module")
def checkpoint():
    print("seed", SEED)
    return random_checkpoint(preset("tiny"), SEED)


@pytest.fixture(scope="module")
def quantised(checkpoint):
    return quantise(checkpoint)


@pytest.mark.parametrize("scale", [2.0**-32, 1e-6, 0.001, 1 / 3, 0.99999, 1.0, 2.0, 12345.6])
def test_multiplier_is_normalised_and_near(scale):
    multiplier, shift = multiplier_shift(scale)
    assert 2**14 <= multiplier <= 2**15 - 1 and 1 <= shift <= 47
    assert abs(int(multiplier) / 2.0 ** int(shift) / scale - 1) < 2.0**-15


def test_multiplier_at_the_ends():
    assert [int(x) for x in multiplier_shift(0.0)] == [0, 47]
    assert int(multiplier_shift(1e9)[0]) == 32767
    multiplier, shift = multiplier_shift(32767.9 / 2**20)  # would round to 2^15
    assert (multiplier, shift) == (16384, 19)
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(UserError):
            multiplier_shift(bad)


def test_rows_are_symmetric_and_full():
    matrix = np.random.default_rng(1).normal(size=(5, 40))
    matrix[3] = 0
    weight, scale = quantise_rows(matrix)
    assert np.abs(weight[[0, 1, 2, 4]]).max(axis=1).tolist() == [127] * 4 and not weight[3].any()
    assert (np.abs(weight * scale[:, None] - matrix) <= scale[:, None] / 2 * 1.0001).all()


def test_events_of_projections(checkpoint, quantised):
    """Given the quantised weights, events differ from Equation (1) at ties and thresholds only."""
    model, _ = quantised
    rng = np.random.default_rng(2)
    e = rng.integers(-3, 4, (200, model.shape.width))
    for letter in "qkv":
        part = getattr(model.blocks[1], letter)
        matrix = checkpoint[f"blocks.1.tcam.sparse_attn.{letter}_proj.weight"]
        theta = float(checkpoint[f"blocks.1.tcam.sparse_attn.{letter}_event_threshold"])
        _, scale = quantise_rows(matrix)
        real = (e @ part.weight.T.astype(np.int64)) * scale
        got = ops.event(ops.matvec(part.weight, e), part.threshold, part.multiplier, part.shift)
        assert ((got != 0) == (np.abs(real) >= theta)).all()
        assert np.abs(got - real / theta)[got != 0].max() < 0.502
        assert (got != event(real, theta)).mean() < 0.002


def test_events_of_the_stream(checkpoint, quantised):
    block, c = quantised[0].blocks[0], np.arange(-32768, 32768)
    theta = float(checkpoint["blocks.0.tcam.event_threshold"])
    got, real = ops.event(c, *block.attention_event), event(c / 2048, theta)
    assert ((got != 0) == (real != 0)).all() and (got != real).mean() < 0.001


def test_spikes_need_no_multiplier(checkpoint, quantised):
    up = quantised[0].blocks[0].up
    _, scale = quantise_rows(checkpoint["blocks.0.ffn.up.weight"])
    acc = up.threshold.astype(np.int64)
    tau = float(checkpoint["blocks.0.ffn.spike_threshold"])
    assert (acc * scale >= tau).all() and ((acc - 1) * scale < tau).all()


def test_layer_norm_tensors():
    rng = np.random.default_rng(3)
    width = 768
    gamma, beta = rng.normal(1, 0.3, width), rng.normal(0, 0.3, width)
    made = norm_tensors(gamma, beta, width, 1e-5)
    pre = rng.normal(0.2, 2, width)
    got = ops.layer_norm(
        np.rint(pre * 4096).astype(np.int64), made["gamma"], made["beta"], *map(int, made["scalars"])
    )
    real = (pre - pre.mean()) / np.sqrt(pre.var() + 1e-5) * gamma + beta
    assert np.abs(got / 2048 - real).max() < np.abs(real).max() / 200
    assert np.abs(made["gamma"]).max() > 16383


@pytest.mark.parametrize("width", [60, 768, 2048])
@pytest.mark.parametrize("eps", [1e-5, 1e-3])
def test_layer_norm_of_small_inputs_depends_on_epsilon(width, eps):
    """A variance of the size of epsilon: the sum of squares has epsilon `width` times."""
    pre = np.random.default_rng(4).normal(0, math.sqrt(eps), width)
    pre -= pre.mean()
    made = norm_tensors(np.ones(width), np.zeros(width), width, eps)
    integers = np.rint(pre * 4096).astype(np.int64)
    got = ops.layer_norm(integers, made["gamma"], made["beta"], *map(int, made["scalars"])) / 2048
    kept = integers / 4096
    real = (kept - kept.mean()) / np.sqrt(kept.var() + eps)
    assert 0.6 < real.std() < 0.8 and np.abs(got - real).max() < 0.03
    assert abs(int(made["scalars"][1]) - width * eps * 2**24) <= 0.5


def test_epsilon_is_at_least_16():
    assert norm_tensors(np.ones(60), np.zeros(60), 60, 0.0)["scalars"][1] == 16


@pytest.mark.parametrize("gate", [0.0, 0.2, 0.5, 1.0])
def test_mix(gate):
    o, h = np.array([64, -640, 8128]), np.array([4096, 4096, -32768])
    real = gate * o / 64 + (1 - gate) * h / 4096
    assert (
        np.abs(ops.mix(o, h, *map(int, mix_gains(gate))) / 64 - np.clip(real, -127 / 64, 127 / 64)).max()
        < 0.6 / 64
    )


def test_gelu_table():
    table = gelu_values(4, 1 / 16)
    assert table[128] == 0 and table[255] == 127 and table[0] == 0
    for x in (-1.0, 0.5, 2.0):
        assert abs(table[128 + int(16 * x)] / 16 - 0.5 * x * (1 + math.erf(x / math.sqrt(2)))) <= 1 / 32


def test_decay_is_rounded_to_the_nearest(checkpoint):
    tensors = {name: np.array(value) for name, value in checkpoint.tensors.items()}
    raw = np.random.default_rng(5).uniform(-14, 14, (checkpoint.shape.layers, checkpoint.shape.heads))
    raw[0, 0] = 0
    for layer, values in enumerate(raw):
        tensors[f"blocks.{layer}.tcam.decay_raw"] = values
    model, _ = quantise(Checkpoint(tensors, checkpoint.shape, checkpoint.constants))
    beta = np.array([block.decay_beta for block in model.blocks], np.int64)
    assert beta[0, 0] == 1 << 15
    real = (1 - 1 / (1 + np.exp(-raw))) * 65536
    assert np.abs(beta - np.minimum(real, 65535)).max() <= 0.5 + 1e-6
    assert (beta == np.floor(real)).mean() < 1 > (beta == np.ceil(real)).mean(), "rounding has no effect here"


def test_embedding_is_rounded_to_the_nearest(checkpoint, quantised):
    table = checkpoint["spike_encoder.frontend.text_embedding.weight"]
    weight, bias = checkpoint["spike_encoder.norm.weight"], checkpoint["spike_encoder.norm.bias"]
    real = np.array([layer_norm(row, weight, bias) for row in table])
    got = quantised[0].embedding_table.astype(np.int64)
    assert np.abs(real).max() < 15.9 and np.abs(got - real * 2048).max() <= 0.5 + 1e-6


@pytest.mark.parametrize("head", [3, 4])
def test_the_head_input_has_its_scale(checkpoint, head):
    model, _ = quantise(checkpoint, StaticScales(head=head))
    c = np.arange(-32768, 32768)
    got = ops.head_input(c, *map(int, model.head.input))
    real = c / 2048 * 2**head
    assert np.abs(got - np.clip(real, -127, 127)).max() <= 0.51


def test_scales_of_the_head_are_rounded_to_the_nearest(checkpoint, quantised):
    """Each row's largest weight is 127 of its scale."""
    model, logit_scale = quantised
    out = checkpoint["output_head.output_proj.weight"] / 2**4
    prior = checkpoint["output_head.prior_net.2.weight"] * checkpoint.constants["prior_scale"] / 2**4
    rows = np.abs(np.concatenate([out, prior], axis=1)).max(axis=1) / 127
    scale = model.head.fused_scale.astype(np.int64)
    assert np.abs(scale - rows / rows.max() * 65535).max() <= 0.5 + 1e-6
    assert logit_scale == pytest.approx(rows.max() / 65535, rel=1e-12)


@pytest.mark.parametrize("heads, head_width, score_frac", [(8, 16, 6), (12, 64, 6), (2, 32, 5), (1, 4, 0)])
def test_slopes_are_those_of_alibi(heads, head_width, score_frac):
    """A geometric sequence from 2^(-8 / heads) down to 2^-8, in the unit of the undivided scores."""
    shape = replace(
        preset("tiny"), heads=heads, head_width=head_width, width=heads * head_width, ffn=32, bottleneck=8
    )
    ratio, slope, expected = 2.0 ** (-8 / heads), 1.0, []
    for _ in range(heads):
        slope *= ratio
        expected.append(min(1023, round(slope * head_width**0.5 * 2**score_frac)))
    assert alibi_slopes(shape, score_frac).tolist() == expected
    assert heads == 1 or expected == sorted(expected, reverse=True)


def test_a_quantised_model_has_these_slopes(quantised):
    model, _ = quantised
    assert model.slopes.tolist() == alibi_slopes(model.shape, model.numerics.score_frac).tolist()


def test_encoder_constants(quantised):
    numerics = quantised[0].numerics
    assert (numerics.lif_leak, numerics.lif_threshold, numerics.lif_clamp) == (31130, 2048, 6144)


def run_both(checkpoint, scales, count):
    """Real logits [count, V] of the integer and of the float model on the same random tokens."""
    model, logit_scale = quantise(checkpoint, scales)
    reference, real = Reference(model), NaiveFloat(checkpoint)
    tokens = np.random.default_rng(SEED).integers(0, model.shape.vocab, count).tolist()
    ours = np.array([reference.ingest(token, True).logits * logit_scale for token in tokens])
    return ours, np.array([real.logits(token) for token in tokens])


@pytest.mark.parametrize("scales", [StaticScales(), StaticScales(mix=6, head=3, gelu_input=3, gelu_output=3)])
def test_one_block_computes_the_same_between_flips(scales):
    """A flipped threshold disturbs a position, but not each has one: the others show rounding only."""
    ours, theirs = run_both(random_checkpoint(replace(preset("tiny"), layers=1), SEED), scales, 40)
    errors = np.sort(np.median(np.abs(ours - theirs), axis=1))
    print("seed", SEED, "median errors by position", errors.round(3).tolist())
    assert errors[20] < 0.04 * theirs.std() and errors[35] < 0.2 * theirs.std()


@pytest.mark.parametrize("seed", [SEED, SEED + 1, SEED + 2])
def test_whole_model_stays_near(seed):
    ours, theirs = run_both(random_checkpoint(preset("tiny"), seed), StaticScales(), 40)
    correlation = np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]
    print(f"seed {seed}, correlation {correlation:.4f}")
    assert correlation > 0.93


def test_logit_scale(checkpoint, quantised):
    model, logit_scale = quantised
    assert model.head.fused_scale.max() == 65535
    row = int(model.head.fused_scale.argmin())
    real = checkpoint["output_head.output_proj.weight"][row] / 16
    got = model.head.fused_weight[row, : model.shape.width] * (int(model.head.fused_scale[row]) * logit_scale)
    assert np.abs(got - real).max() <= logit_scale * int(model.head.fused_scale[row]) * 0.51


def test_empty_and_huge_rows(checkpoint):
    tensors = {name: np.array(value) for name, value in checkpoint.tensors.items()}
    tensors["blocks.0.tcam.sparse_attn.q_proj.weight"][3] = 0
    tensors["blocks.0.ffn.up.weight"][3] = 1e-30
    tensors["blocks.0.ffn.down.weight"][4] = 1e6
    tensors["output_head.output_proj.weight"][5] = 0
    tensors["output_head.prior_net.2.weight"][5] = 0
    model, _ = quantise(Checkpoint(tensors, checkpoint.shape, checkpoint.constants))
    assert model.head.fused_scale[5] == 0 and model.blocks[0].up.threshold[3] == 2**31 - 1
    Reference(model).generate([1, 2], 3)


# ---- checkpoints ---------------------------------------------------------------------------------


def write(path, checkpoint, **change):
    about = {"shape": checkpoint.shape.to_json(), "constants": CONSTANTS} | change
    save_file(
        {name: np.asarray(value) for name, value in checkpoint.tensors.items()},
        path,
        {"model": json.dumps(about)},
    )
    return path


def test_checkpoint_file_round_trip(tmp_path, checkpoint, quantised):
    model, scale = quantise(read_checkpoint(write(tmp_path / "m.safetensors", checkpoint)))
    assert scale == quantised[1]
    for name, tensor in model.tensors().items():
        assert (tensor == quantised[0].tensors()[name]).all(), name


def test_bad_checkpoints(tmp_path, checkpoint):
    with pytest.raises(UserError, match="there is no checkpoint .*nothing"):
        read_checkpoint(tmp_path / "nothing")
    (tmp_path / "junk").write_bytes(b"junk" * 10)
    with pytest.raises(UserError, match="junk is not a checkpoint"):
        read_checkpoint(tmp_path / "junk")
    for change, named in (
        ({"constants": {}}, "lif_leak"),
        ({"shape": {"layers": 2}}, "m.safetensors.*field 'width' is missing"),
        ({"shape": []}, "an object is required"),
        ({"constants": dict.fromkeys(CONSTANTS, math.nan)}, "lif_leak is nan"),
    ):
        with pytest.raises(UserError, match=named):
            read_checkpoint(write(tmp_path / "m.safetensors", checkpoint, **change))


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("blocks.0.ffn.up.weight", None, "blocks.0.ffn.up.weight is missing"),
        (
            "blocks.0.ffn.up.weight",
            np.zeros((2, 3)),
            r"blocks.0.ffn.up.weight has shape \[2, 3\], \[96, 64\]",
        ),
        (
            "blocks.1.tcam.attn_gate",
            np.float32("nan"),
            "blocks.1.tcam.attn_gate holds a value that is not a number",
        ),
        ("blocks.1.tcam.norm.weight", np.zeros(3), "blocks.1.tcam.norm.gamma"),
    ],
)
def test_bad_tensors_are_named(checkpoint, name, value, message):
    tensors = {key: tensor for key, tensor in checkpoint.tensors.items() if key != name}
    if value is not None:
        tensors[name] = value
    with pytest.raises(UserError, match=message):
        quantise(Checkpoint(tensors, checkpoint.shape, checkpoint.constants))
