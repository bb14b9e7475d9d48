"""Shapes from JSON files: what is read, and what is said about everything else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.model.config import PRESETS, preset
from symlight.model.package import CONFIG
from symlight.model.shapes import MOST_BYTES, read_shape

SHAPE = preset("odd").to_json()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@pytest.mark.parametrize("name", PRESETS)
def test_a_shape_alone_and_in_a_config(tmp_path, name):
    file = tmp_path / "shape.json"
    for content in (preset(name).to_json(), {"shape": preset(name).to_json(), "name": "x"}):
        file.write_text(json.dumps(content))
        assert read_shape(file) == preset(name)


def test_the_config_of_a_package(pristine):
    assert read_shape(pristine / CONFIG) == preset("odd")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"width": 64.0}, "width = 64.0 is no whole number; write 64"),
        ({"width": 64.5}, "width = 64.5 is no whole number"),
        ({"width": "64"}, "width = '64' is no whole number"),
        ({"width": True}, "width = True is no whole number"),
        ({"width": None}, "width = None is no whole number"),
        ({"width": 4096}, "width = 4096 is outside 1..2048"),
        ({"widht": 1}, "field 'widht' is unknown; known: layers, width"),
        ({"heads": 2}, "heads * head_width = 2 * 12 is not the width 60"),
    ],
)
def test_wrong_fields_are_named(tmp_path, change, message):
    file = tmp_path / "shape.json"
    file.write_text(json.dumps(SHAPE | change))
    with pytest.raises(UserError, match="shape.json") as error:
        read_shape(file)
    assert message in str(error.value)


def test_missing_fields_are_named(tmp_path):
    file = tmp_path / "shape.json"
    for name in SHAPE:
        file.write_text(json.dumps({key: value for key, value in SHAPE.items() if key != name}))
        with pytest.raises(UserError, match=f"field '{name}' is missing"):
            read_shape(file)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"[1]", b" " * (MOST_BYTES + 1)])
def test_other_files_are_refused(tmp_path, content):
    file = tmp_path / "shape.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match="shape.json"):
        read_shape(file)


@given(st.dictionaries(st.sampled_from([*SHAPE, "shape"]), JSON))
def test_any_json_is_a_shape_or_refused(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("any") / "shape.json"
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match="shape.json"):
        read_shape(file)
