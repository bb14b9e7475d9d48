"""Packages: a round trip, and every way to damage one. A message must name the file and the value."""

import hashlib
import re

import pytest

from symlight.base.errors import UserError
from symlight.model import package as package_module
from symlight.model.config import Numerics, preset
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
from symlight.model.tensors import TENSORS, tensor_names
from tests.benches.model.package_damage import META, edit_json, refuse, reseal
from tests.benches.places import ROOT

# ---- round trip ----------------------------------------------------------------------------------


def test_round_trip(pristine, odd_model):
    package = load_package(pristine)
    assert (package.shape, package.numerics, package.meta) == (odd_model.shape, odd_model.numerics, META)
    ours, theirs = odd_model.tensors(), package.model.tensors()
    assert list(ours) == list(theirs)
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype and (ours[name] == theirs[name]).all(), name
    ours, theirs = Reference(odd_model).generate([1, 2], 5), Reference(package.model).generate([1, 2], 5)
    assert ours.tokens == theirs.tokens


def test_saving_twice_gives_the_same_identity(tmp_path, pristine, odd_model):
    save_package(tmp_path / "again", odd_model, META)
    assert load_package(tmp_path / "again").digest == load_package(pristine).digest


def test_overwriting_replaces_a_package(copy, odd_model):
    save_package(copy, odd_model, PackageMeta(name="second"))
    assert load_package(copy).meta.name == "second"
    assert [entry.name for entry in copy.parent.iterdir()] == [copy.name]


def test_foreign_folders_are_not_overwritten(tmp_path, odd_model):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not a package"):
        save_package(tmp_path, odd_model, META)
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_failed_saving_keeps_the_old_package(copy, odd_model, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(package_module, "tensor_bytes", full)
    with pytest.raises(OSError, match="no space"):
        save_package(copy, odd_model, PackageMeta(name="second"))
    assert load_package(copy).meta.name == "test"
    assert [entry.name for entry in copy.parent.iterdir()] == [copy.name]


def test_unloadable_packages_are_not_saved(tmp_path, odd_model):
    with pytest.raises(UserError, match="eos is 131"):
        save_package(tmp_path / "p", odd_model, PackageMeta(name="x", eos=131))
    assert not list(tmp_path.iterdir())


def test_table_names_are_unique(odd_model):
    names = [name for name, _ in tensor_names(odd_model.shape)]
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


@pytest.mark.parametrize("version", [5, 0, "1", None, True])
def test_unsupported_version(copy, version):
    edit_json(copy, MANIFEST, lambda m: m.update(format_version=version))
    refuse(copy, MANIFEST, repr(version), "reads versions 1 to 4")


@pytest.mark.parametrize("files", [[], "x", {CONFIG: 1, WEIGHTS: 2}, {CONFIG: {"sha256": "x"}, WEIGHTS: {}}])
def test_malformed_file_list(copy, files):
    edit_json(copy, MANIFEST, lambda m: m.update(files=files))
    refuse(copy, MANIFEST)


@pytest.mark.parametrize("value", [1.0, True, "1", None, -1, [1]])
def test_sizes_are_whole_numbers(copy, value):
    edit_json(copy, MANIFEST, lambda m: m["files"][CONFIG].update(bytes=value))
    refuse(copy, copy / MANIFEST, f"bytes of {CONFIG} is {value!r}", "whole number")


@pytest.mark.parametrize("change", [str.upper, lambda d: d[:-1], lambda d: d + "0", lambda d: d[:-1] + "g"])
def test_hashes_are_lower_case_hexadecimal(copy, change):
    edit_json(
        copy, MANIFEST, lambda m: m["files"][CONFIG].update(sha256=change(m["files"][CONFIG]["sha256"]))
    )
    refuse(copy, copy / MANIFEST, f"sha256 of {CONFIG} is", "64 hexadecimal digits in lower case")


def test_a_size_that_equals_but_is_no_integer_is_refused(copy):
    edit_json(copy, MANIFEST, lambda m: m["files"][CONFIG].update(bytes=float(m["files"][CONFIG]["bytes"])))
    refuse(copy, copy / MANIFEST, "whole number")


def test_a_file_that_is_listed_twice_is_refused(copy):
    text = (copy / MANIFEST).read_text()
    assert '"files": {' in text
    (copy / MANIFEST).write_text(text.replace('"files": {', f'"files": {{"{CONFIG}": {{}},'))
    refuse(copy, copy / MANIFEST, CONFIG, "twice")


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


def test_tokenizer_larger_than_the_vocabulary(tmp_path, odd_model, tokenizer_bytes):
    save_package(tmp_path / "p", odd_model, META, tokenizer_bytes)
    with pytest.raises(UserError, match="pieces, the model only 131"):
        load_package(tmp_path / "p").tokenizer.encode("x")


# ---- documentation -------------------------------------------------------------------------------


def in_words_of_the_page(meaning: str) -> str:
    """The page says "per head" where the table's own text has "a head"."""
    return re.sub(r"(?<=\w) a (head|channel)\b", r" per \1", meaning)


def test_documented_table_is_the_table():
    def limit(value):
        return str(value) if isinstance(value, int) else f"({', '.join(map(str, value))})"

    page = (ROOT / "docs" / "package-format.md").read_text(encoding="utf-8")
    documented = [
        line
        for line in page.partition("## SymbolicLight V1")[0].splitlines()
        if line.startswith(("| `spike_encoder", "| `attention", "| `blocks", "| `output_head"))
    ]
    assert documented == [
        f"| `{spec.name}` | {spec.dtype} | [{', '.join(map(str, spec.dims))}] "
        f"| {limit(spec.low)} .. {limit(spec.high)} | {in_words_of_the_page(spec.meaning)} |"
        for spec in TENSORS
    ]
    for field in [*preset("tiny").to_json(), *Numerics().to_json(), *vars(META), "format_version"]:
        assert f"`{field}`" in page, field
