"""V1 packages: what is saved is loaded, faults are refused, kinds are not mixed up."""

import json

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.model.config import preset
from symlight.model.package import MANIFEST, PackageMeta, load_package, save_package
from symlight.model.synthetic import random_model
from symlight.model.v1 import tensors as names
from symlight.model.v1.config import V1_194M
from symlight.model.v1.package import V1Meta, load_v1, quantise, save_v1
from tests.benches.model.package_damage import edit_json, reseal
from tests.benches.model.v1_worlds import model
from tests.benches.places import ROOT

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def world():
    return model(11)


def save(path, world, **meta):
    shape, tensors, _ = world
    save_v1(path, shape, V1Meta(name="test", eos=2, bos=1, synthetic=True, **meta), tensors.items())
    return path


@pytest.mark.parametrize("weights", ["int8", "float32"])
def test_round_trip(tmp_path, world, weights):
    shape, tensors, _ = world
    package = load_v1(save(tmp_path / "p", world, weights=weights))
    assert package.shape == shape
    assert (package.meta.bos, package.meta.eos, package.meta.synthetic) == (1, 2, True)
    assert package.pieces == shape.vocab  # without a tokenizer every row may be generated
    for name, tensor in package.float_tensors().items():
        if weights == "int8" and name.removesuffix(".weight") in names.matrices(shape):
            assert np.abs(tensor - tensors[name]).max() <= np.abs(tensors[name]).max() / 254 * 1.001
        else:
            assert np.array_equal(tensor, tensors[name])
    rows = np.array([5, 0, 95, 5])
    assert np.array_equal(package.weights.rows(names.EMBEDDING, rows), tensors[names.EMBEDDING][rows])


def test_quantise():
    matrix = np.array([[0.5, -1.27, 0], [0, 0, 0], [1e-30, 0, -1e-30]], np.float32)
    weight, scale = quantise(matrix)
    assert weight.tolist() == [[50, -127, 0], [0, 0, 0], [127, 0, -127]]
    assert scale[1] == 0
    assert np.allclose(weight * scale[:, None], matrix, atol=0.005)


def refuse(path, *parts, load=load_v1):
    with pytest.raises(UserError) as error:
        load(path)
    for part in parts:
        assert str(part) in str(error.value), (part, str(error.value))


def test_kinds_are_not_mixed_up(tmp_path, world):
    v1 = save(tmp_path / "v1", world)
    refuse(
        v1, v1, "package of SymbolicLight V1", "SymbolicLight V2 is needed", "--device cpu", load=load_package
    )
    v2 = tmp_path / "v2"
    save_package(v2, random_model(preset("tiny"), seed=1), PackageMeta(name="two"))
    refuse(v2, v2, "package of SymbolicLight V2", "SymbolicLight V1 is needed")
    edit_json(v1, MANIFEST, lambda manifest: manifest.update(kind="v9"))
    refuse(v1, "kind 'v9' is unknown")


@pytest.mark.parametrize(
    "change, parts",
    [
        (lambda c: c.update(weights="int4"), ["weights is 'int4'"]),
        (lambda c: c.update(eos=96), ["eos is 96", "0..95"]),
        (lambda c: c.pop("bos"), ["field 'bos' is missing"]),
        (lambda c: c.update(extra=1), ["field 'extra' is unknown"]),
        (lambda c: c["shape"].update(layers=3), ["blocks.2", "missing"]),
        (lambda c: c["shape"].update(ffn=64), ["ffn.up.weight", "[48, 32]"]),
        (lambda c: c["shape"].update(heads=3), ["heads"]),
        (lambda c: c.update(synthetic=1), ["synthetic is 1"]),
    ],
)
def test_wrong_configurations(tmp_path, world, change, parts):
    path = save(tmp_path / "p", world)
    edit_json(path, "config.json", change)
    refuse(
        path, path / "config.json" if "blocks.2" not in parts and "ffn.up" not in parts[0] else path, *parts
    )


def test_damage(tmp_path, world):
    path = save(tmp_path / "p", world)
    file = path / "weights.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-4] + b"abcd")
    refuse(path, file, "sha256")
    for bad, part in (
        (content[:-100], "ends after the file"),
        (b"\xff" * 64, "safetensors"),
        (b"", "safetensors"),
    ):
        file.write_bytes(bad)
        reseal(path)
        refuse(path, file, part)
    refuse(tmp_path / "none", "does not exist")


def test_values_that_are_not_finite(tmp_path, world):
    shape, tensors, random = world
    bad = dict(tensors)
    bad[names.ENCODER_NORM + ".bias"] = np.full(shape.width, np.nan, np.float32)
    with pytest.raises(UserError, match="spike_encoder.norm.bias"):
        save(tmp_path / "p", (shape, bad, random))
    assert list(tmp_path.iterdir()) == []  # nothing is half written


def test_an_interrupted_writer_leaves_the_old_package(tmp_path, world):
    shape, tensors, _ = world
    path = save(tmp_path / "p", world)
    before = json.loads((path / MANIFEST).read_text())

    def broken():
        yield from list(tensors.items())[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_v1(path, shape, V1Meta(name="other"), broken())
    assert json.loads((path / MANIFEST).read_text()) == before
    assert [found.name for found in tmp_path.iterdir()] == ["p"]


def test_the_documented_table_is_the_table():
    shape = V1_194M.shape
    sizes = {"D": shape.width, "F": shape.ffn, "V": shape.vocab, "B": shape.bottleneck, "H": shape.heads}
    sizes |= {"d/2": shape.head_width // 2, "1": 1}
    page = (ROOT / "docs" / "package-format.md").read_text(encoding="utf-8")
    documented = {}
    for line in page.partition("## SymbolicLight V1")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[2] in ("yes", "no"):
            name, dims = cells[0].strip("`"), tuple(sizes[dim] for dim in cells[1].strip("[]").split(", "))
            for layer in range(shape.layers):
                documented[name.replace("blocks.N", f"blocks.{layer}")] = (dims, cells[2] == "yes")
    matrices = {f"{name}.weight": (dims, True) for name, dims in names.matrices(shape).items()}
    vectors = {name: (dims, False) for name, dims in names.vectors(shape).items()}
    assert documented == matrices | vectors | {names.EMBEDDING: ((shape.vocab, shape.width), False)}
