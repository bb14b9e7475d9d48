"""An option that would change nothing is refused, and so are numbers and texts that mean nothing."""

import click
import pytest

from symlight.host.cli import cli
from symlight.host.terminal.options import FiniteRange

PROMPT = ("--prompt", "the word", "--max-new-tokens", 1)


@pytest.mark.parametrize("device", ["reference", "cpu:2"])
@pytest.mark.parametrize(
    "option",
    [
        ("--card", "sim4"),
        ("--build", "partial-kv"),
        ("--hbm", "ideal"),
        ("--refresh-seed", 2),
        ("--gather", "active"),
        ("--kv", "full"),
        ("--watchdog", 5000),
        ("--time-limit", 1),
        ("--xclbin", "/nothing"),
        ("--bitstream", "/nothing"),
    ],
)
def test_options_of_another_device_are_refused(generate, device, option):
    sentence = generate(*PROMPT, *option, device=device).error()
    assert sentence.startswith(f"{option[0]} has no effect on device {device!r}: it is for ")


def test_options_of_a_card_and_of_the_simulated_one(generate, on_card):
    assert generate(*PROMPT, "--xclbin", "x", device="sim").error().startswith("--xclbin has no effect")
    assert on_card(*PROMPT, "--card", "sim4").error().startswith("--card has no effect on device 'xrt:0'")
    assert generate(*PROMPT, "--kv", "full", device="serial:x").error().startswith("--kv has no effect")
    assert on_card(*PROMPT, "--watchdog", 5000, "--time-limit", 60).code == 0


@pytest.mark.parametrize("option, value", [("--gather", "dense"), ("--kv", "full"), ("--gather", "active")])
def test_modes_that_the_build_fixes_are_refused(generate, option, value):
    sentence = generate(*PROMPT, option, value, device="sim").error()
    assert sentence == (
        f"{option} {value} has no effect: build 'partial-kv' fixes it; leave it out, or give --build runtime"
    )


@pytest.mark.parametrize("command", ["generate", "chat"])
def test_an_empty_stop_text_is_refused(symlight, package_path, command):
    sentence = symlight(command, "--model", package_path, "--device", "reference", "--stop", "").error()
    assert "--stop" in sentence and "at least one character" in sentence


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "0", "-1", "1e999", ""])
def test_time_limits_are_positive_numbers(generate, value):
    assert "--time-limit" in generate(*PROMPT, "--time-limit", value, device="sim").error()


@pytest.mark.parametrize(
    "words",
    [
        ["random-model", "--out", "x", "--density"],
        ["estimate", "--density"],
        ["train", "--out", "x", "--minutes"],
        ["bench", "--seconds"],
        ["bench", "--idle-seconds"],
        ["generate", "--prompt", "a", "--temperature"],
        ["generate", "--prompt", "a", "--top-p"],
        ["generate", "--prompt", "a", "--temperature", "1", "--min-p"],
        ["serve", "--request-timeout"],
    ],
)
@pytest.mark.parametrize("value", ["nan", "inf", "x"])
def test_numbers_are_finite(symlight, words, value):
    symlight(*words, value).error()


@pytest.mark.parametrize("density", ["0", "1", "1.5", "-0.1"])
def test_densities_lie_between_0_and_1(symlight, density, tmp_path):
    for words in (["random-model", "--out", tmp_path / "x"], ["estimate"]):
        assert "0<x<1" in symlight(*words, "--density", density).error()


def test_options_that_exclude_each_other(symlight, generate, tmp_path):
    pytest.importorskip("torch")
    assert (
        generate(*PROMPT, "--no-eos", "--eos", 3).error() == "--eos has no effect with --no-eos; leave it out"
    )
    train = ("train", "--out", tmp_path / "out", "--corpus", "/dev/null", "--steps", 3, "--minutes", 2)
    assert symlight(*train).error() == "--minutes has no effect with --steps; leave it out"
    seal = ("package", "--seal", tmp_path / "x.xclbin")
    assert symlight(*seal, "--card", "u50c").error().startswith("--card has no effect with --seal")


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--xclbin", "x"], "--xclbin has no effect on the simulated card"),
        (["--rounds", 1, "--state", "ingest"], "--state has no effect in a measurement in rounds"),
        (["--rounds", 1, "--also-clock", 300], "--also-clock has no effect in a measurement in rounds"),
        (["--device", "xrt:0", "--xclbin", "x", "--card", "sim4"], "--card has no effect on xrt:0"),
        (
            ["--device", "xrt:0", "--xclbin", "x", "--refresh-seed", 4],
            "--refresh-seed has no effect on xrt:0",
        ),
    ],
)
def test_options_of_the_other_measurement(symlight, words, sentence):
    assert symlight("bench", *words).error().startswith(sentence)


@pytest.mark.parametrize(
    "count, message", [(65537, "65537 new tokens are wanted, one turn takes at most 65536"), (-1, "-1")]
)
def test_too_many_tokens_are_said_once(generate, count, message):
    assert message in generate("--prompt", "a", "--max-new-tokens", count).error()


CHECKED_ELSEWHERE = {"temperature", "top_p", "min_p"}  # by model.sampling, which knows what they mean


@pytest.mark.parametrize("name", cli.commands)
def test_every_option_that_is_a_number_is_finite(name):
    for parameter in cli.commands[name].params:
        if isinstance(parameter.type, click.types.FloatParamType) and parameter.name not in CHECKED_ELSEWHERE:
            assert isinstance(parameter.type, FiniteRange), parameter.name
