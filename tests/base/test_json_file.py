"""base.json_file: an object, or a sentence that names the file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.base.json_file import read_object


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "not readable JSON"),
        (b"{", "not readable JSON"),
        (b'{"a": \xff}', "not readable JSON"),
        (b"[" * 100_000, "not readable JSON"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "field 'c' is there twice"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": [-Infinity]}', "-Infinity is no number"),
        (b'{"a": "\\ud800"}', r"lone surrogate '\\ud800'"),
        (b'{"\\udfff": 1}', "lone surrogate"),
        (b"[1]", "holds list, an object is required"),
        (b"1" * 5000, "not readable JSON"),
    ],
)
def test_what_is_no_object_is_refused(tmp_path, content, message):
    file = tmp_path / "file.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=rf"file\.json .*{message}.*; make it again"):
        read_object(file, "make it again")


@given(st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.lists(st.booleans())))
def test_objects_come_back(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("json") / "file.json"
    file.write_text(json.dumps(data))
    assert read_object(file, "") == data


def test_what_cannot_be_read_is_the_systems_error(tmp_path):
    with pytest.raises(OSError):
        read_object(tmp_path / "none", "")
