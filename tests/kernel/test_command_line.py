"""The command line on the simulated card: generate, selftest and chat, as a user calls them."""

import io
import json

import pytest

from symlight.host.cli import run
from symlight.host.device.packages import open_package
from symlight.model.reference import Reference
from symlight.sim import card as cards
from symlight.sim.build import build_model
from tests.benches.kernel.kernel_list import CACHE, OPTIMISE

pytestmark = pytest.mark.kernel("sim4")
DEVICE = ["--device", "sim", "--card", "sim4", "--build", "runtime", "--cache", str(CACHE)]
PROMPT = "In the beginning"


@pytest.fixture
def command(kernel, monkeypatch, capsys):
    """command(*words) -> (exit code, standard output, standard error), on the kernel of these tests."""
    monkeypatch.setattr(cards, "build_model", lambda *a, **k: build_model(*a, **k | {"optimise": OPTIMISE}))

    def call(*words):
        code = run([str(word) for word in words])
        cards._cards.clear()
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def expected():
    """Tokens and text of the reference."""
    package = open_package("demo")
    prompt = package.tokenizer.encode(PROMPT)
    tokens = Reference(package.model).generate(prompt, 10, package.meta.eos).tokens
    return prompt, tokens


@pytest.mark.parametrize("mode", [[], ["--interactive"], ["--gather", "dense", "--kv", "full"]])
def test_generate_verified_json(command, expected, mode):
    code, out, err = command(
        "generate", *DEVICE, "--prompt", PROMPT, "--max-new-tokens", 10, "--verify", "--json", *mode
    )
    assert code == 0, err
    result = json.loads(out)
    assert out.count("\n") == 1
    assert (result["prompt_tokens"], result["tokens"]) == expected
    assert result["verified"] is True and result["stop_reason"] == "length"
    assert result["passes"] == len(expected[0]) + 9
    assert result["cycles"]["total"] > result["cycles"]["prompt"] + result["cycles"]["decode"] > 0
    assert result["bytes_read"]["head"] > 0 and 0 < result["density"]["qkv"] < 1
    assert result["tokens_per_second"] > 0


def test_generate_text_and_stats(command):
    code, out, err = command(
        "generate",
        *DEVICE,
        "--prompt",
        PROMPT,
        "--max-new-tokens",
        6,
        "--verify",
        "--stats",
        "--hbm",
        "ideal",
    )
    assert code == 0, err
    assert out.strip()
    for part in ("bit-exact with the CPU engine", "simulated tokens/s", "attention"):
        assert part in err


def test_session_goes_on_from_a_file(command, expected, tmp_path):
    file = tmp_path / "session"
    code, out, err = command(
        "generate", *DEVICE, "--prompt", PROMPT, "--max-new-tokens", 4, "--json", "--save-state", file
    )
    assert code == 0, err
    first = json.loads(out)["tokens"]
    code, out, err = command(
        "generate", *DEVICE, "--prompt", "", "--max-new-tokens", 6, "--json", "--load-state", file, "--verify"
    )
    assert code == 0, err
    assert first + json.loads(out)["tokens"] == expected[1]


def test_selftest(command):
    code, out, err = command("selftest", *DEVICE)
    assert code == 0, err
    assert "selftest passed" in out and "FAILED" not in out and "144 tokens of 2 runs" in out


def test_chat(command, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("Who are you?\n\n/stats\n/reset\nAnd God said\n/quit\n"))
    code, _out, err = command("chat", *DEVICE, "--max-new-tokens", 5, "--verify")
    assert code == 0, err
    assert err.count("bit-exact with the CPU engine") == 3


def test_watchdog_is_one_sentence(command):
    code, _out, err = command("generate", *DEVICE, "--prompt", PROMPT, "--watchdog", 4000)
    assert code != 0 and "watchdog" in err and "Traceback" not in err
