"""Packages: a round trip, and every way to damage one. A message must name the file and the value."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from symlight.model import package as package_module
from symlight.model.config import Numerics, preset
from symlight.model.errors import UserError
from symlight.model.package import (
    CONFIG,
    MANIFEST,
    TOKENIZER,
    WEIGHTS,
    PackageMeta,
    load_package,
    save_package,
)
from symlight.model.reference import Reference
from symlight.model.synthetic import random_model
from symlight.model.weights import TENSORS, tensor_names

META = PackageMeta(
    name="test", description="ü", eos=3, synthetic=True, logit_scale=1e-6, provenance={"seed": 1}
)


@pytest.fixture(scope="module")
def model():
    return random_model(preset("odd"), 11, numerics=Numerics(score_frac=5))


@pytest.fixture(scope="module")
def pristine(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("packages") / "pristine"
    save_package(path, model, META)
    return path


@pytest.fixture
def copy(tmp_path, pristine):
    return shutil.copytree(pristine, tmp_path / "package")


def reseal(path):
    """Make the manifest agree with the files, so that the checks behind the hashes are reached."""
    manifest = json.loads((path / MANIFEST).read_text())
    for name in manifest["files"]:
        data = (path / name).read_bytes()
        manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    (path / MANIFEST).write_text(json.dumps(manifest))


def edit_json(path, name, change):
    data = json.loads((path / name).read_text())
    change(data)
    (path / name).write_text(json.dumps(data))
    if name != MANIFEST:
        reseal(path)


def refuse(path, *parts):
    with pytest.raises(UserError) as error:
        load_package(path)
    for part in parts:
        assert str(part) in str(error.value), (part, str(error.value))


# ---- round trip ----------------------------------------------------------------------------------


def test_round_trip(pristine, model):
    package = load_package(pristine)
    assert (package.shape, package.numerics, package.meta) == (model.shape, model.numerics, META)
    ours, theirs = model.tensors(), package.model.tensors()
    assert list(ours) == list(theirs)
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype and (ours[name] == theirs[name]).all(), name
    assert Reference(package.model).generate([1, 2], 5).tokens == Reference(model).generate([1, 2], 5).tokens


def test_saving_twice_gives_the_same_identity(tmp_path, pristine, model):
    save_package(tmp_path / "again", model, META)
    assert load_package(tmp_path / "again").digest == load_package(pristine).digest


def test_overwriting_replaces_a_package(copy, model):
    save_package(copy, model, PackageMeta(name="second"))
    assert load_package(copy).meta.name == "second"
    assert [entry.name for entry in copy.parent.iterdir()] == [copy.name]


def test_foreign_folders_are_not_overwritten(tmp_path, model):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not a package"):
        save_package(tmp_path, model, META)
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_failed_saving_keeps_the_old_package(copy, model, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(package_module, "tensor_bytes", full)
    with pytest.raises(OSError, match="no space"):
        save_package(copy, model, PackageMeta(name="second"))
    assert load_package(copy).meta.name == "test"
    assert [entry.name for entry in copy.parent.iterdir()] == [copy.name]


def test_unloadable_packages_are_not_saved(tmp_path, model):
    with pytest.raises(UserError, match="eos is 131"):
        save_package(tmp_path / "p", model, PackageMeta(name="x", eos=131))
    assert not list(tmp_path.iterdir())


def test_table_names_are_unique(model):
    names = [name for name, _ in tensor_names(model.shape)]
    assert len(set(names)) == len(names) and len({spec.name for spec in TENSORS}) == len(TENSORS)


# ---- files and manifest --------------------------------------------------------------------------


def test_no_such_folder(tmp_path):
    refuse(tmp_path / "nowhere", "nowhere", "does not exist")
    (tmp_path / "file").write_text("x")
    refuse(tmp_path / "file", "file", "it is a file")
    refuse(tmp_path, tmp_path, MANIFEST, "missing")


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_missing_file(copy, name):
    (copy / name).unlink()
    refuse(copy, copy / name, "missing")


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_unlisted_required_file(copy, name):
    edit_json(copy, MANIFEST, lambda m: m["files"].pop(name))
    refuse(copy, name, "not listed")


def test_truncated_file(copy):
    data = (copy / WEIGHTS).read_bytes()
    (copy / WEIGHTS).write_bytes(data[:-1])
    refuse(copy, copy / WEIGHTS, len(data), len(data) - 1)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_flipped_bit(copy, name):
    data = bytearray((copy / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / name).write_bytes(data)
    refuse(copy, copy / name, "sha256", hashlib.sha256(data).hexdigest())


def test_extra_file(copy):
    (copy / "notes.txt").write_text("x")
    refuse(copy, copy / "notes.txt")
    edit_json(copy, MANIFEST, lambda m: m["files"].update({"notes.txt": {"sha256": "", "bytes": 1}}))
    refuse(copy, MANIFEST, "notes.txt")


@pytest.mark.parametrize("version", [2, 0, "1", None, True])
def test_unsupported_version(copy, version):
    edit_json(copy, MANIFEST, lambda m: m.update(format_version=version))
    refuse(copy, MANIFEST, repr(version), "reads version 1")


@pytest.mark.parametrize("files", [[], "x", {CONFIG: 1, WEIGHTS: 2}, {CONFIG: {"sha256": "x"}, WEIGHTS: {}}])
def test_malformed_file_list(copy, files):
    edit_json(copy, MANIFEST, lambda m: m.update(files=files))
    refuse(copy, MANIFEST)


def test_path_in_the_file_list(copy):
    edit_json(copy, MANIFEST, lambda m: m["files"].update({"../secret": {"sha256": "", "bytes": 0}}))
    refuse(copy, MANIFEST, "../secret")


@pytest.mark.parametrize("name", [MANIFEST, CONFIG])
@pytest.mark.parametrize("text", ["", "{", "[1]", "\xff", "[" * 100000, '{"a": 1}'])
def test_malformed_json(copy, name, text):
    (copy / name).write_text(text, encoding="latin-1")
    if name == CONFIG:
        reseal(copy)
    refuse(copy, copy / name)


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
        (lambda c: c.update(logit_scale=float("nan")), ["logit_scale", "nan"]),
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


def test_every_missing_tensor_is_named(pristine, model):
    tensors = model.tensors()
    for name in tensors:
        rest = {key: value for key, value in tensors.items() if key != name}
        with pytest.raises(UserError, match=f"tensor {name} is missing"):
            type(model).from_tensors(model.shape, model.numerics, rest)


def test_every_range_is_checked(model):
    """One step outside each bound, for every tensor whose type can hold such a value."""
    checked = 0
    for name, spec in tensor_names(model.shape):
        info = np.iinfo(spec.dtype)
        for limit, outside in ((spec.low, -1), (spec.high, 1)):
            limits = np.broadcast_to(limit, spec.shape(model.shape)).reshape(-1)
            for place in {0, len(limits) - 1}:
                value = int(limits[place]) + outside
                if not info.min <= value <= info.max:
                    continue
                array = model.tensors()[name].copy()
                array.reshape(-1)[place] = value
                with pytest.raises(UserError) as error:
                    type(model).from_tensors(model.shape, model.numerics, {**model.tensors(), name: array})
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


# ---- tokenizer -----------------------------------------------------------------------------------


def test_package_without_tokenizer(pristine):
    package = load_package(pristine)
    assert package.tokenizer_bytes is None
    with pytest.raises(UserError, match=TOKENIZER):
        package.tokenizer.encode("x")


def test_package_with_tokenizer(tmp_path, tokenizer_bytes):
    model = random_model(preset("demo"), 1)
    save_package(tmp_path / "p", model, META, tokenizer_bytes)
    tokenizer = load_package(tmp_path / "p").tokenizer
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"
    (tmp_path / "p" / TOKENIZER).unlink()
    refuse(tmp_path / "p", tmp_path / "p" / TOKENIZER, "missing")


def test_tokenizer_larger_than_the_vocabulary(tmp_path, model, tokenizer_bytes):
    save_package(tmp_path / "p", model, META, tokenizer_bytes)
    with pytest.raises(UserError, match="pieces, the model only 131"):
        load_package(tmp_path / "p").tokenizer.encode("x")


# ---- documentation -------------------------------------------------------------------------------


def test_documented_table_is_the_table():
    def limit(value):
        return str(value) if isinstance(value, int) else f"({', '.join(map(str, value))})"

    page = (Path(__file__).parents[2] / "docs" / "package-format.md").read_text(encoding="utf-8")
    documented = [
        line
        for line in page.splitlines()
        if line.startswith(("| `spike_encoder", "| `attention", "| `blocks", "| `output_head"))
    ]
    assert documented == [
        f"| `{spec.name}` | {spec.dtype} | [{', '.join(map(str, spec.dims))}] "
        f"| {limit(spec.low)} .. {limit(spec.high)} | {spec.meaning} |"
        for spec in TENSORS
    ]
    for field in [*preset("tiny").to_json(), *Numerics().to_json(), *vars(META), "format_version"]:
        assert f"`{field}`" in page, field
