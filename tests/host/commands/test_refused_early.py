"""What can be refused is refused before a kernel is generated or anything measured; results go to standard
output."""

import json
import resource
from pathlib import Path

import pytest

from symlight.base.errors import UserError
from symlight.host.bench import simulation
from symlight.host.commands import bench
from symlight.host.device import opening

pytestmark = pytest.mark.timeout(60)


class TooLate(AssertionError):
    pass


@pytest.fixture(autouse=True)
def nothing_dear(monkeypatch):
    def dear(*_, **__):
        raise TooLate

    monkeypatch.setattr(opening, "obtain_kernel", dear)
    monkeypatch.setattr(simulation, "obtain_kernel", dear)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--prompt-ids", "5000"], "token 5000 is outside the vocabulary"),
        (["--prompt-ids", "1", "--eos", "5000"], "the end-of-sequence token 5000 is outside the vocabulary"),
        (["--prompt-ids", "1", "--max-new-tokens", "1000000"], "one turn takes at most 65536"),
        (["--prompt-ids", "1", "--load-state", "/nothing/there"], "cannot read the session state"),
        (["--prompt-ids", "1", "--save-state", "/nothing/x"], "the folder /nothing does not exist"),
        (["--prompt-ids", "1", "--save-state", "/"], "/ is a folder; give the name of a file"),
        (["--prompt-ids", "1", "--logits-out", "/nothing/x"], "the folder /nothing does not exist"),
    ],
)
def test_generate(generate, arguments, sentence):
    assert sentence in generate(*arguments, device="sim").error()


def test_a_model_that_does_not_fit(generate, monkeypatch):
    def does_not_fit(engine, shape):
        raise UserError("it needs more words than the card has")

    monkeypatch.setattr(opening, "layout_on", does_not_fit)
    assert "it needs more words" in generate("--prompt-ids", "1", device="sim").error()


def test_what_is_right_comes_as_far_as_the_kernel(generate):
    with pytest.raises(TooLate):
        generate("--prompt-ids", "1", device="sim")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--out", "/"], "/ is a folder; give the name of a file"),
        (["--out", "/nothing/x"], "the folder /nothing does not exist"),
        (["--prefix", "99999999"], "the prompt has 99999999 tokens, one turn takes at most 65536"),
        (["--new-tokens", "99999999"], "one turn takes at most 65536"),
        (["--rounds", "2", "--out", "/"], "/ is a folder"),
        (["--rounds", "2", "--prefix", "32", "99999999"], "the prompt has 99999999 tokens"),
    ],
)
def test_bench(symlight, package_path, arguments, sentence):
    assert sentence in symlight("bench", "--model", package_path, "--card", "sim4", *arguments).error()


def test_bench_table_looks_at_the_readme_first(symlight, package_path, tmp_path):
    common = ["bench-table", "--model", package_path, "--card", "sim4", "--out", tmp_path / "o"]
    assert "no such file" in symlight(*common, "--readme", tmp_path / "no.md").error()
    (tmp_path / "README.md").write_text("text\n")
    assert "no lines" in symlight(*common, "--readme", tmp_path / "README.md").error()


def test_a_result_is_printed_before_it_is_written(symlight, package_path, tmp_path, monkeypatch):
    """A file that cannot be written after all does not cost the measurement."""
    out = tmp_path / "folder" / "result.json"
    out.parent.mkdir()

    def measured(*_, **__):
        out.parent.rmdir()
        return {"bit_exact": True}

    monkeypatch.setattr(bench, "bench_package", measured)
    result = symlight("bench", "--model", package_path, "--card", "sim4", "--json", "--out", out)
    assert json.loads(result.out) == {"bit_exact": True}
    assert "result.json: no such file or directory" in result.error()


def test_estimate_is_a_result(symlight):
    result = symlight("estimate", "--model", "demo", "--card", "sim4")
    assert "decode pass" in result.out and "turnaround" in result.out and "decode pass" not in result.err


def test_selftest_shows_its_table_as_result(symlight, package_path):
    result = symlight("selftest", "--model", package_path, "--device", "reference")
    assert result.code == 0 and result.out.endswith("selftest passed\n") and "golden tokens" in result.out


@pytest.mark.parametrize(
    "command",
    [
        ("inspect", "ZERO.xclbin"),
        ("serve", "--port", "0", "--api-key-file", "ZERO"),
        ("eval", "demo", "ZERO"),
        ("train", "--out", "t", "--steps", "1", "--corpus", "ZERO"),
        ("import-v1", "none.pt", "--tokenizer", "ZERO", "--out", "i"),
        ("quantise", "none.safetensors", "--tokenizer", "ZERO", "--out", "q"),
        ("quantise", "none.safetensors", "--chat-template", "ZERO", "--out", "q"),
        ("generate", "--device", "reference", "--prompt", "a", "--load-state", "ZERO"),
        ("generate", "--device", "reference", "--prompt-file", "ZERO"),
        ("inspect", "ZERO"),
        ("estimate", "--model", "ZERO"),
    ],
    ids=" ".join,
)
def test_files_without_an_end(symlight, tmp_path, monkeypatch, command):
    """Each is one sentence that names the file, within the memory of a small machine."""
    monkeypatch.chdir(tmp_path)
    for name in ("ZERO", "ZERO.xclbin"):
        (tmp_path / name).symlink_to("/dev/zero")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), limits[1]))
    try:
        sentence = symlight(*command).error()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert "ZERO" in sentence and "memory" not in sentence, sentence
