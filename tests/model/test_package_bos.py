"""The beginning-of-sequence token of a package: which version of the format says it, and what it does."""

from dataclasses import replace

import pytest

from symlight.host.device.packages import SHIPPED
from symlight.model.config import preset
from symlight.model.package import CONFIG, MANIFEST, load_package, save_package
from symlight.model.package_folder import read_json
from symlight.model.synthetic import random_model
from tests.benches.model.package_damage import META, edit_json, refuse

BOS_META = replace(META, bos=1, prepend_bos=True)


@pytest.fixture
def begun(tmp_path, tokenizer_bytes):
    """A package whose texts begin with token 1."""
    save_package(
        tmp_path / "begun", random_model(replace(preset("odd"), vocab=300), 1), BOS_META, tokenizer_bytes
    )
    return tmp_path / "begun"


def test_version_1_is_written_where_it_says_everything(tmp_path, odd_model):
    for name, meta, version in (("none", META, 1), ("bos", replace(META, bos=7), 2), ("both", BOS_META, 2)):
        save_package(tmp_path / name, odd_model, meta)
        assert read_json(tmp_path / name / MANIFEST)["format_version"] == version
        assert ("bos" in read_json(tmp_path / name / CONFIG)) == (version == 2)
        assert load_package(tmp_path / name).meta == meta


def test_an_old_package_keeps_its_bytes(tmp_path):
    """Loaded and saved again: the demo package was written before there was a version 2."""
    old = load_package(SHIPPED / "demo")
    save_package(tmp_path / "demo", old.model, old.meta, old.tokenizer_bytes)
    assert load_package(tmp_path / "demo").digest == old.digest
    assert (old.meta.bos, old.meta.prepend_bos) == (None, False)


def test_texts_begin_with_it_and_continuations_do_not(begun):
    package = load_package(begun)
    plain = package.tokenizer.encode("the cat")
    assert package.encode("the cat") == [1, *plain] and package.encode("") == [1]
    assert 1 not in package.encode("the cat", continues=True)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"bos": 300}, "bos is 300"),
        ({"bos": -1}, "bos is -1"),
        ({"bos": True}, "bos is True"),
        ({"bos": 1.0}, "bos is 1.0"),
        ({"bos": None}, "prepend_bos is true, but bos is null"),
        ({"prepend_bos": 1}, "prepend_bos is 1, true or false"),
    ],
)
def test_wrong_values_are_named(begun, change, message):
    edit_json(begun, CONFIG, lambda config: config.update(change))
    refuse(begun, CONFIG, message)


def test_versions_do_not_mix(begun, copy):
    edit_json(begun, MANIFEST, lambda manifest: manifest.update(format_version=1))
    refuse(begun, "'bos' is unknown in version 1")
    edit_json(copy, MANIFEST, lambda manifest: manifest.update(format_version=2))
    refuse(copy, "field 'bos' is missing")
