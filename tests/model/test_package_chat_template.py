"""The chat template of a package: which version of the format says it, and which values are refused."""

from dataclasses import replace

import pytest

from symlight.base.errors import UserError
from symlight.model.package import CONFIG, MANIFEST, load_package, save_package
from symlight.model.package_folder import MOST_TEMPLATE_LETTERS, read_json
from symlight.model.v1.package import V1Meta, load_v1, save_v1
from tests.benches.model.package_damage import META, edit_json, refuse, reseal
from tests.benches.model.v1_worlds import model

TEMPLATE = "{% for message in messages %}[{{ message.role }}] {{ message.content }} ü\n{% endfor %}"


@pytest.fixture
def templated(tmp_path, odd_model):
    save_package(tmp_path / "t", odd_model, replace(META, chat_template=TEMPLATE))
    return tmp_path / "t"


def test_it_is_kept(tmp_path, templated):
    package = load_package(templated)
    assert package.meta.chat_template == TEMPLATE and package.meta.bos is None
    assert read_json(templated / MANIFEST)["format_version"] == 4
    save_package(tmp_path / "again", package.model, package.meta)
    assert load_package(tmp_path / "again").digest == package.digest


@pytest.mark.parametrize("value", ["", " \n", 5, True, [TEMPLATE], "x" * (MOST_TEMPLATE_LETTERS + 1)])
def test_wrong_values_are_named(templated, value):
    edit_json(templated, CONFIG, lambda config: config.update(chat_template=value))
    refuse(templated, CONFIG, "chat_template is")
    with pytest.raises(UserError) as error:
        load_package(templated)
    assert len(str(error.value)) < 300


def test_older_versions_have_none(templated):
    edit_json(templated, MANIFEST, lambda manifest: manifest.update(format_version=3))
    refuse(templated, "'chat_template' is unknown in version 3")
    edit_json(templated, CONFIG, lambda config: config.pop("chat_template"))
    assert load_package(templated).meta.chat_template is None


def test_version_4_must_have_it(templated):
    edit_json(templated, CONFIG, lambda config: config.pop("chat_template"))
    refuse(templated, "field 'chat_template' is missing")


def test_packages_of_v1(tmp_path):
    shape, tensors, _ = model(21, vocab=40)
    for name, template, version in (("none", None, 1), ("some", TEMPLATE, 2)):
        meta = V1Meta(name=name, synthetic=True, chat_template=template)
        save_v1(tmp_path / name, shape, meta, tensors.items())
        assert read_json(tmp_path / name / MANIFEST)["format_version"] == version
        assert ("chat_template" in read_json(tmp_path / name / CONFIG)) == (version == 2)
        assert load_v1(tmp_path / name).meta == meta
    edit_json(tmp_path / "some", CONFIG, lambda config: config.update(chat_template=7))
    reseal(tmp_path / "some")
    with pytest.raises(UserError, match="chat_template is 7"):
        load_v1(tmp_path / "some")
