"""What a package holds: every wrong field of its configuration and every wrong tensor is one clear error."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from symlight.base.errors import UserError
from symlight.model.package import CONFIG, WEIGHTS, load_package
from symlight.model.tensors import tensor_names
from tests.benches.model.package_damage import edit_json, refuse, reseal

# ---- configuration -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, parts",
    [
        (lambda c: c.pop("shape"), ["'shape'", "missing"]),
        (lambda c: c.update(colour=1), ["'colour'", "unknown"]),
        (lambda c: c.update(shape=[1]), ["shape", "[1]"]),
        (lambda c: c.update(provenance="me"), ["provenance", "'me'"]),
        (lambda c: c["shape"].pop("heads"), ["heads"]),
        (lambda c: c["shape"].update(depth=3), ["depth"]),
        (lambda c: c["shape"].update(width=61), ["width", "61"]),
        (lambda c: c["shape"].update(layers="2"), ["layers", "'2'"]),
        (lambda c: c["shape"].update(window=509), ["window", "509"]),
        (lambda c: c["numerics"].update(score_frac=7), ["score_frac", "7"]),
        (lambda c: c["numerics"].pop("lif_leak"), ["lif_leak"]),
        (lambda c: c.update(eos=131), ["eos", "131"]),
        (lambda c: c.update(eos=True), ["eos", "True"]),
        (lambda c: c.update(synthetic=1), ["synthetic", "1"]),
        (lambda c: c.update(name=None), ["name", "None"]),
        (lambda c: c.update(logit_scale=0), ["logit_scale", "0"]),
        (lambda c: c.update(logit_scale=float("nan")), ["NaN is no number"]),
    ],
)
def test_bad_configuration(copy, change, parts):
    edit_json(copy, CONFIG, change)
    refuse(copy, CONFIG, *parts)


# ---- tensors -------------------------------------------------------------------------------------


def edit_tensors(path, change):
    tensors = load_file(path / WEIGHTS)
    change(tensors)
    save_file(tensors, path / WEIGHTS)
    reseal(path)


def test_every_missing_tensor_is_named(pristine, odd_model):
    tensors = odd_model.tensors()
    for name in tensors:
        rest = {key: value for key, value in tensors.items() if key != name}
        with pytest.raises(UserError, match=f"tensor {name} is missing"):
            type(odd_model).from_tensors(odd_model.shape, odd_model.numerics, rest)


def test_every_range_is_checked(odd_model):
    """One step outside each bound, for every tensor whose type can hold such a value."""
    checked = 0
    for name, spec in tensor_names(odd_model.shape):
        info = np.iinfo(spec.dtype)
        for limit, outside in ((spec.low, -1), (spec.high, 1)):
            limits = np.broadcast_to(limit, spec.shape(odd_model.shape)).reshape(-1)
            for place in {0, len(limits) - 1}:
                value = int(limits[place]) + outside
                if not info.min <= value <= info.max:
                    continue
                array = odd_model.tensors()[name].copy()
                array.reshape(-1)[place] = value
                with pytest.raises(UserError) as error:
                    tensors = odd_model.tensors() | {name: array}
                    type(odd_model).from_tensors(odd_model.shape, odd_model.numerics, tensors)
                assert name in str(error.value) and str(value) in str(error.value)
                checked += 1
    assert checked > 60


@pytest.mark.parametrize(
    "change, parts",
    [
        (lambda t: t.pop("blocks.0.ffn.event"), ["blocks.0.ffn.event", "missing"]),
        (
            lambda t: t.update({"blocks.1.ffn.event": t["blocks.0.ffn.event"]}),
            ["blocks.1.ffn.event", "unknown"],
        ),
        (lambda t: t.update({"attention.slopes": np.zeros(6, np.int16)}), ["attention.slopes", "[6]", "[5]"]),
        (
            lambda t: t.update({"attention.slopes": np.zeros(5, np.int32)}),
            ["attention.slopes", "int32", "int16"],
        ),
        (lambda t: t.update({"attention.slopes": np.zeros(5, np.float32)}), ["attention.slopes", "float32"]),
        (
            lambda t: t.update({"attention.slopes": np.full(5, 1024, np.int16)}),
            ["attention.slopes", "1024", "[0]", "0..1023"],
        ),
        (
            lambda t: t["blocks.0.ffn.norm.scalars"].__setitem__(1, 15),
            ["blocks.0.ffn.norm.scalars", "15", "16.."],
        ),
        (
            lambda t: t["blocks.0.ffn.up.weight"].__setitem__((3, 4), -128),
            ["ffn.up.weight", "-128", "[3, 4]"],
        ),
    ],
)
def test_bad_tensor(copy, change, parts):
    edit_tensors(copy, change)
    refuse(copy, copy / WEIGHTS, *parts)


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 7, b"\xff" * 64, b"\x10\x00\x00\x00\x00\x00\x00\x00{not json}      "]
)
def test_unreadable_tensors(copy, data):
    (copy / WEIGHTS).write_bytes(data)
    reseal(copy)
    refuse(copy, copy / WEIGHTS, "safetensors")


# ---- header of the tensors -----------------------------------------------------------------------


def edit_header(path, change):
    """Change the text of the header; the data stay."""
    raw = (path / WEIGHTS).read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = change(raw[8 : 8 + length].decode()).encode()
    header += b" " * (-len(header) % 8)
    (path / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + raw[8 + length :])
    reseal(path)


def test_a_tensor_that_is_named_twice_is_refused(copy):
    def twice(text):
        tensors = json.loads(text)
        entry = json.dumps({"attention.slopes": tensors["attention.slopes"]})[1:-1]
        return "{" + entry + "," + text.strip()[1:]

    edit_header(copy, twice)
    refuse(copy, copy / WEIGHTS, "attention.slopes", "twice")


def test_metadata_is_passed_over(copy, pristine):
    """Texts under `__metadata__` mean nothing; the identity of the package knows them all the same."""
    before = load_package(copy)
    edit_header(copy, lambda text: '{"__metadata__": {"format": "np"},' + text.strip()[1:])
    after = load_package(copy)
    assert after.digest != before.digest
    ours, theirs = after.model.tensors(), before.model.tensors()
    assert all((ours[name] == theirs[name]).all() for name in theirs)


@pytest.mark.parametrize(
    "metadata", ['{"a": 1}', "[]", '{"a": "b", "a": "c"}', '{"a": {"b": "c"}}', '"text"']
)
def test_metadata_is_an_object_of_texts(copy, metadata):
    edit_header(copy, lambda text: f'{{"__metadata__": {metadata},' + text.strip()[1:])
    refuse(copy, copy / WEIGHTS, "safetensors")
