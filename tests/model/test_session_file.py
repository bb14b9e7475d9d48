"""Session files: what is saved comes back, and whatever is wrong with one is one sentence in bounded
memory."""

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.model.config import MAX_POSITION, preset
from symlight.model.reference import Reference
from symlight.model.sampling import SamplingOptions
from symlight.model.session_file import SavedSession, read_session, write_session
from symlight.model.state import ARRAYS, State
from symlight.model.synthetic import random_model

pytestmark = pytest.mark.timeout(60)
SHAPE = preset("odd")
SAMPLING = SamplingOptions(temperature=0.7, top_p=0.9, seed=3)
MEMORY = 8 << 20  # bytes that reading a damaged file may take


def saved() -> SavedSession:
    reference = Reference(random_model(SHAPE, 11))
    run = reference.generate([1, 2, 3], 6)
    return SavedSession(state=reference.state, sampling=SAMPLING, tokens=[1, 2, 3, *run.tokens])


SAVED = saved()
IMAGE = SAVED.to_bytes()


def with_records(**records) -> bytes:
    """The image with other records; None leaves one out, bytes are the record as it is."""
    with np.load(io.BytesIO(IMAGE)) as image:
        content = {name: image[name] for name in image.files} | records
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, value in content.items():
            if isinstance(value, bytes):
                archive.writestr(f"{name}.npy", value)
            elif value is not None:
                array = io.BytesIO()
                np.save(array, value)
                archive.writestr(f"{name}.npy", array.getvalue())
    return written.getvalue()


def header(description: str, content: bytes = b"") -> bytes:
    text = description.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


def refused(data: bytes) -> str:
    with pytest.raises(UserError, match="my.state") as error:
        SavedSession.from_bytes(SHAPE, data, "my.state")
    return str(error.value)


def test_what_is_saved_comes_back(tmp_path):
    file = tmp_path / "session.npz"
    for session in (SAVED, SavedSession(state=State.new(SHAPE)), SavedSession(state=SAVED.state)):
        write_session(file, session)
        assert read_session(file, SHAPE) == session


@pytest.mark.parametrize("data", [b"", IMAGE[:50], IMAGE[:-1], IMAGE[40:], b"not a state" * 20])
def test_damaged_files_are_refused(data):
    refused(data)


@pytest.mark.parametrize(
    "records, message",
    [
        ({"membrane": None}, "not a session state"),
        ({"more": np.int64(1)}, "not a session state"),
        ({"position": np.int64(MAX_POSITION + 1)}, "position 1048577 is outside"),
        ({"position": np.int64(-1)}, "position -1"),
        ({"position": np.int32(1)}, "position is int32"),
        ({"pending": np.int64(131)}, "pending token 131"),
        ({"decay": np.zeros((2, 60), np.int16)}, "another model"),
        ({"decay": np.zeros((1, 60), np.float32)}, "decay is float32"),
        ({"decay": np.zeros((60, 1), np.int16, order="F").T}, None),  # one row: the same in either order
        ({"membrane": np.array([None] * 60)}, "membrane is object"),
        ({"membrane": header("{'descr': '<i2', 'fortran_order': False, 'shape': (1 << 60,)}")}, "damaged"),
        (
            {"membrane": header("{'descr': '<i2', 'fortran_order': False, 'shape': (99999999999,)}")},
            "another",
        ),
        (
            {"membrane": header("{'descr': '<i2', 'fortran_order': False, 'shape': (60,)}", b"12")},
            "120 bytes",
        ),
        ({"membrane": header("{'descr': '<i2', 'fortran_order': False, 'shape': 60}", b"12")}, "damaged"),
        ({"membrane": header("[" * 110)}, "damaged"),
        ({"membrane": b"\x93NUMPY\x09\x00"}, "damaged"),
        ({"ring_k": np.full((1, 8, 60), -128, np.int8)}, "-128"),
        ({"tokens": np.array([1, 2], np.int32)}, "2 tokens instead of 9"),
        ({"tokens": np.full(9, 131, np.int32)}, "outside the vocabulary"),
        ({"tokens": np.zeros(9, np.int32)}, "its newest token is 0"),
        ({"sampling": np.frombuffer(b"[" * 4000, np.uint8)}, "sampling options cannot be read"),
        ({"sampling": np.frombuffer(b"[1]", np.uint8)}, "sampling options are"),
        ({"sampling": np.frombuffer(b'{"heat": 1}', np.uint8)}, "my.state"),
        ({"sampling": np.zeros(5000, np.uint8)}, "sampling is uint8 [5000]"),
    ],
)
def test_wrong_records_are_named(records, message):
    data = with_records(**records)
    if message is None:
        SavedSession.from_bytes(SHAPE, data)
    else:
        assert message in refused(data)


def test_a_record_twice_is_refused():
    written = io.BytesIO(IMAGE)
    with zipfile.ZipFile(written, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("membrane.npy", b"")
    assert "twice" in refused(written.getvalue())


def test_memory_is_bounded():
    """A small file that unpacks to much, and one that never ends."""
    written = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(IMAGE)) as old,
        zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name) + (bytes(1 << 28) if name == "membrane.npy" else b""))
    data = written.getvalue()
    tracemalloc.start()
    try:
        assert "damaged" in refused(data)
        with pytest.raises(UserError, match="/dev/zero has more than"):
            read_session(Path("/dev/zero"), SHAPE)
        assert tracemalloc.get_traced_memory()[1] < 2 * MEMORY
    finally:
        tracemalloc.stop()


@given(st.data())
def test_any_flipped_bytes_are_refused_or_harmless(data):
    damaged = bytearray(IMAGE)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        SavedSession.from_bytes(SHAPE, bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    except UserError:
        pass


@given(st.data())
def test_flips_in_the_directory_are_refused_or_harmless(data):
    """The zip's directory at the end says how to read everything else: flags, methods, sizes."""
    damaged = bytearray(IMAGE)
    start = IMAGE.index(b"PK\x01\x02")
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(start, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        SavedSession.from_bytes(SHAPE, bytes(damaged))
    except UserError:
        pass


def test_a_failed_save_leaves_the_older_file(tmp_path, monkeypatch):
    file = tmp_path / "session.npz"
    write_session(file, SAVED)
    monkeypatch.setattr(
        "os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(UserError, match=r"session\.npz.*[Nn]o space left"):
        write_session(file, SavedSession(state=State.new(SHAPE)))
    assert read_session(file, SHAPE) == SAVED and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_a_copy_is_the_state_and_stands_alone(count):
    reference = Reference(random_model(preset("tiny"), 3))
    for token in range(count):
        reference.ingest(token)
    state = reference.state
    state.pending = 7
    state.ring_k[:, state.populated :] = 9  # means nothing
    copied = state.copy()
    assert copied == state and copied.pending == 7 and not copied.ring_k[:, state.populated :].any()
    before = state.copy()
    for name in ARRAYS:
        getattr(copied, name)[...] = 1
    assert state == before
