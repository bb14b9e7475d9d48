"""Packed weights are kept by the package's digest, and nothing damaged is ever used."""

import json
import multiprocessing

import numpy as np
import pytest

from symlight.cpu import store
from symlight.cpu.engine import Engine, Feed, Session, Want
from symlight.cpu.isa import find, runnable
from symlight.cpu.library import Library
from symlight.cpu.store import BINARY, DESCRIPTION, stored_weights
from symlight.model.config import preset
from symlight.model.synthetic import random_model

MODEL = random_model(preset("tiny"), 4)
LIBRARY = Library(find(None))


def open_weights(cache, digest: str = "d", loads: list | None = None, **options):
    """`loads` gets an entry whenever the model is asked for."""

    def load():
        if loads is not None:
            loads.append(digest)
        return MODEL

    return stored_weights(digest, MODEL.shape, MODEL.numerics, load, LIBRARY, cache=cache, **options)


def files(cache):
    """The one folder in the cache."""
    (found,) = [path for path in (cache / "weights").iterdir() if path.is_dir()]
    return found / BINARY, found / DESCRIPTION


def logits(weights):
    with Engine(weights, 1, library=LIBRARY) as engine:
        return engine.run([Feed(Session.new(MODEL.shape), [1, 2, 3], Want.ALL, logits=True)])[0].logits


@pytest.mark.parametrize("threads", [1, 3])
def test_packed_once(tmp_path, threads):
    loads = []
    first = open_weights(tmp_path, loads=loads)
    second = open_weights(tmp_path, loads=loads, threads=threads)
    assert loads == ["d"]
    np.testing.assert_array_equal(logits(first), logits(second))
    open_weights(tmp_path, "another", loads)
    open_weights(tmp_path, "d", loads, by_row=frozenset())
    assert loads == ["d", "another", "d"]


def cut(binary, description):
    binary.write_bytes(binary.read_bytes()[:-4096])


def empty(binary, description):
    binary.write_bytes(b"")


def flip(place):
    def damage(binary, description):
        content = bytearray(binary.read_bytes())
        content[place] ^= 16
        binary.write_bytes(content)

    return damage


def missing(binary, description):
    binary.unlink()


def nonsense(binary, description):
    description.write_text("[]")


def other_sum(binary, description):
    about = json.loads(description.read_text())
    description.write_text(json.dumps(about | {"checksums": ["0" * 16] * 2}))


@pytest.mark.parametrize(
    "damage", [cut, empty, flip(0), flip(70_001), flip(-5000), missing, nonsense, other_sum]
)
def test_damage_is_found_and_mended(tmp_path, damage):
    expected = logits(open_weights(tmp_path))
    damage(*files(tmp_path))
    loads = []
    np.testing.assert_array_equal(logits(open_weights(tmp_path, loads=loads)), expected)
    open_weights(tmp_path, loads=loads)
    assert loads == ["d"]  # made again, once


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "_write", full)
    assert logits(open_weights(tmp_path)).any()
    assert not [path for path in (tmp_path / "weights").iterdir() if path.is_dir()]


def child(cache, results):
    results.put(logits(open_weights(cache)).tobytes())


@pytest.mark.timeout(60)
def test_several_processes_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    processes = [context.Process(target=child, args=(tmp_path, results)) for _ in range(3)]
    for process in processes:
        process.start()
    found = {results.get() for _ in processes}
    for process in processes:
        process.join()
    assert found == {logits(open_weights(tmp_path)).tobytes()}


def test_every_instruction_set_has_the_same_checksum():
    data = np.random.default_rng(1).integers(0, 256, (3 << 20) + 77).astype(np.uint8)
    copy = np.zeros_like(data)
    sums = {Library(isa).checksum(data, copy, threads) for isa in runnable() for threads in (1, 2)}
    assert len(sums) == 1 and np.array_equal(copy, data)
    for place in (0, 4095, 1 << 20, len(data) - 1):
        changed = data.copy()
        changed[place] ^= 1
        assert LIBRARY.checksum(changed) not in sums
