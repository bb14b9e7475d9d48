"""Public checkpoints: every wrapping is read, every fault is one sentence."""

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.model.v1 import tensors as names
from symlight.model.v1.checkpoint import read_checkpoint
from symlight.model.v1.config import V1_08B, V1_194M, small
from tests.benches.model.v1_worlds import FAMILIES, model

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
from tests.benches.model.v1_checkpoints import WRAPPINGS, public_config, public_tensors, write  # noqa: E402

pytestmark = pytest.mark.timeout(60)
SQUARE = "blocks.1.tcam.out_proj.weight"


def world(family):
    return small(family), model(3, family=family)[1]


@pytest.mark.parametrize("family, count", [(V1_194M, 174), (V1_08B, 337)])
def test_the_public_sizes_have_the_public_number_of_tensors(family, count):
    """Names of the full size; two rows of the dimensions that do not change the names."""
    shape = family.shape
    tiny = small(family, layers=shape.layers)
    _, tensors, _ = model(1, family=family, layers=shape.layers)
    assert len(public_tensors(tiny, tensors)) == count


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_wrappings(tmp_path, family, wrapping):
    tiny, tensors = world(family)
    if wrapping == "bare":  # no configuration: what tensors do not show is that of the public size
        tiny = small(
            family, window=family.shape.window, anchors=family.shape.anchors, context=family.shape.context
        )
    found = read_checkpoint(write(tmp_path / "c.pt", tiny, tensors, wrapping))
    assert found.family.name == family.name
    assert found.shape == tiny.shape
    if family.prior_weight is not None:
        tensors = tensors | {names.PRIOR_WEIGHT: np.array([family.prior_weight], np.float32)}
    read = dict(found.tensors())
    assert set(read) == set(tensors)
    for name, tensor in tensors.items():
        assert read[name].dtype == np.float32
        assert np.array_equal(read[name], tensor), name


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(tmp_path, dtype):
    tiny, tensors = world(V1_194M)

    def halve(state):
        for name in state:
            state[name] = state[name].to(getattr(torch, dtype))

    read = dict(read_checkpoint(write(tmp_path / "c.pt", tiny, tensors, change=halve)).tensors())
    for name, tensor in tensors.items():
        if name != names.PRIOR_WEIGHT:
            assert np.allclose(read[name], tensor, rtol=1e-2, atol=1e-4), name


def _set(name, value):
    return lambda state: state.__setitem__(name, value)


def _poison(value):
    def change(state):
        state[SQUARE] = state[SQUARE].clone()
        state[SQUARE][3, 5] = value

    return change


FAULTS = {
    "missing": (lambda state: state.pop(SQUARE), [SQUARE, "missing"]),
    "extra": (_set("blocks.1.tcam.bias", torch.zeros(3)), ["blocks.1.tcam.bias", "unknown"]),
    "misshapen": (_set(SQUARE, torch.zeros(32, 31)), [SQUARE, "[32, 31]", "[32, 32]"]),
    "nan": (_poison(float("nan")), [SQUARE, "finite"]),
    "infinite": (_poison(float("inf")), [SQUARE, "finite"]),
    "integers": (_set(SQUARE, torch.zeros(32, 32, dtype=torch.int64)), [SQUARE, "int64"]),
    "another block's frequencies": (
        _set("blocks.1.tcam.sparse_attn.rope.inv_freq", torch.ones(8)),
        ["blocks.1.tcam.sparse_attn.rope.inv_freq", "differs"],
    ),
    "one layer more": (_set("blocks.2.ffn.up.weight", torch.zeros(48, 32)), ["blocks.2.ffn.up.weight"]),
    "not V1": (lambda state: state.pop(names.EMBEDDING), ["SymbolicLight V1", names.EMBEDDING]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_tensors(tmp_path, fault):
    change, parts = FAULTS[fault]
    tiny, tensors = world(V1_194M)
    refuse(write(tmp_path / "c.pt", tiny, tensors, change=change), *parts)


def refuse(path, *parts):
    with pytest.raises(UserError) as error:
        read_checkpoint(path)
    assert "\n" not in str(error.value)
    for part in (path, *parts):
        assert str(part) in str(error.value), (part, str(error.value))


@pytest.mark.parametrize(
    "field, value, parts",
    [
        ("n_layers", 3, ["blocks.2", "missing"]),
        ("embed_dim", 48, ["48"]),
        ("vocab_size", 97, [names.EMBEDDING, "[97, 32]"]),
        ("sparse_attn_window", "wide", ["window", "wide"]),
        ("leak_factor", None, ["leak"]),
        ("rope_theta", 500.0, ["rope_theta"]),
        ("rope_theta", 0, ["rope_theta"]),
        ("enable_sparse_attn", False, ["enable_sparse_attn"]),
        ("enable_dynamic_prior", False, ["enable_dynamic_prior"]),
    ],
)
def test_wrong_configurations(tmp_path, field, value, parts):
    tiny, tensors = world(V1_194M)
    config = public_config(tiny.shape) | {field: value}
    refuse(write(tmp_path / "c.pt", tiny, tensors, config=config), *parts)


def test_a_mask_that_does_not_fit(tmp_path):
    tiny, tensors = world(V1_08B)
    config = public_config(tiny.shape) | {"sparse_attn_window": 5}
    refuse(write(tmp_path / "c.pt", tiny, tensors, config=config), "_cached_mask", "window 5")


class Code:
    """What a pickle would run."""

    def __reduce__(self):
        return (print, ("this file ran code",))


@pytest.mark.parametrize("legacy", [False, True])
def test_code_is_refused_and_not_run(tmp_path, capsys, legacy):
    path = tmp_path / "c.pt"
    torch.save({"config": Code(), "model": {}}, path, _use_new_zipfile_serialization=not legacy)
    refuse(path, "would run code")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04no zip", b"hello world", b"\x80\x02abc"],
    ids=["empty", "zip", "text", "pickle"],
)
def test_damaged_files(tmp_path, content):
    path = tmp_path / "c.pt"
    path.write_bytes(content)
    refuse(path, "PyTorch checkpoint")


def test_truncated_file(tmp_path):
    path = write(tmp_path / "c.pt", *world(V1_194M))
    path.write_bytes(path.read_bytes()[:-500])
    refuse(path, "PyTorch checkpoint")


def test_other_contents(tmp_path):
    path = tmp_path / "c.pt"
    for content, part in (([1, 2], "list"), ({"model": [1]}, "list"), ({}, names.EMBEDDING)):
        torch.save(content, path)
        refuse(path, part)
    refuse(tmp_path / "none.pt", "there is no checkpoint")
    refuse(tmp_path, "not a file")
