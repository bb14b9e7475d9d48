"""A disk that becomes full: one sentence names the place, nothing is half-written, older files stay."""

import pytest

from symlight.model.v1.config import V1_194M, small
from tests.benches.host.small_disk import on_small_disk
from tests.benches.host.v1_pieces import pieces
from tests.benches.model.v1_worlds import model

pytestmark = pytest.mark.timeout(120)
FULL = "no space left on device; free some space there, or choose another place"
TINY = ("random-model", "--model", "tiny", "--density", 0.3)
GENERATE = ("generate", "--model", "demo", "--device", "reference", "--prompt", "In the", "--max-new-tokens")


@pytest.fixture
def disk(tmp_path):
    return tmp_path / "disk"


def test_a_package(disk):
    done = on_small_disk(disk, "64k", (*TINY, "--out", disk / "p"))
    assert done.sentence() == f"{disk / 'p'}: {FULL}" and done.left == {}


def test_an_older_package_stays(disk):
    bigger = ("random-model", "--model", "demo", "--density", 0.3, "--out", disk / "p", "--force")
    done = on_small_disk(disk, "700k", (*TINY, "--out", disk / "p"), bigger)
    assert done.sentence() == f"{disk / 'p'}: {FULL}"
    assert sorted(done.left) == ["p", "p/config.json", "p/manifest.json", "p/weights.safetensors"]
    done = on_small_disk(
        disk, "700k", (*TINY, "--out", disk / "p"), bigger, ("inspect", disk / "p", "--json")
    )
    assert done.code == 0 and '"name": "p"' in done.out


def test_an_imported_package(tmp_path, disk):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from tests.benches.model.v1_checkpoints import write

    checkpoint = write(tmp_path / "c.pt", small(V1_194M), model(3)[1])
    (tmp_path / "t.model").write_bytes(pieces(32))
    command = ("import-v1", checkpoint, "--tokenizer", tmp_path / "t.model", "--out", disk / "p")
    done = on_small_disk(disk, "16k", command)
    assert done.sentence() == f"{disk / 'p'}: {FULL}" and done.left == {}


def test_a_session(disk):
    save = (*GENERATE, 2, "--save-state", disk / "s")
    done = on_small_disk(disk, "4k", save)
    assert done.sentence() == f"cannot write the session state to {disk / 's'}: {FULL}" and done.left == {}
    longer = (*GENERATE, 60, "--save-state", disk / "s")
    done = on_small_disk(disk, "12k", save, longer, (*GENERATE, 1, "--load-state", disk / "s"))
    assert FULL in done.err and done.code == 0, "the older session is whole"
    assert list(done.left) == ["s"]


def test_logits_and_results(disk):
    done = on_small_disk(disk, "4k", (*GENERATE, 4, "--logits-out", disk / "l.npy"))
    assert done.sentence() == f"{disk / 'l.npy'}: {FULL}" and done.left == {}
    rounds = ("--rounds", 1, "--seconds", 0.1, "--prefix", 4, "--new-tokens", 600, "--device", "cpu:1")
    done = on_small_disk(
        disk, "4k", ("bench", "--model", "demo", *rounds, "--out", disk / "r.json", "--json")
    )
    assert done.sentence() == f"{disk / 'r.json'}: {FULL}" and done.left == {}
    assert done.out.startswith("{"), "what took minutes is shown"


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_cache(disk, device):
    command = ("generate", "--model", "demo", "--device", device, "--prompt", "a", "--cache", disk / "c")
    done = on_small_disk(disk, "32k", command)
    sentence = done.sentence()
    assert FULL in sentence and str(disk / "c") in sentence, sentence
    assert all(size == 0 or name.count("/") < 2 for name, size in done.left.items()), done.left
    assert not any(name.endswith(("contents.json", ".new")) for name in done.left), done.left
