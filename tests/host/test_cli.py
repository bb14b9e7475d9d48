"""The command line: results, the one JSON object, and one clear sentence for everything that goes wrong."""

import json
import shutil
import sys

import pytest

from symlight.host.device.reference_machine import ReferenceMachine
from symlight.host.terminal.turn_report import tokens_per_second
from symlight.hw.interface import ErrorCode, Phase, Traffic
from symlight.model.package import PackageMeta, save_package

KEYS = {
    "prompt_tokens",
    "tokens",
    "text",
    "stop_reason",
    "cycles",
    "bytes_read",
    "density",
    "passes",
    "tokens_per_second",
    "verified",
}


# ---- results -----------------------------------------------------------------------------------------------


def test_text_is_continued(generate, package, model):
    result = generate("--prompt", "In the beginning", "--max-new-tokens", 9)
    prompt = package.tokenizer.encode("In the beginning")
    tokens = ReferenceMachine(model).run(prompt, 9, package.meta.eos).tokens
    text = package.tokenizer.decode(prompt + tokens)[len("In the beginning") :]
    assert result.code == 0 and result.out == text + "\n"
    assert f"{len(tokens)} tokens" in result.err and "wall time" in result.err


def test_the_json_object(on_card, package, model):
    report = on_card("--prompt", "the word", "--max-new-tokens", 5, "--no-eos", "--json", "--verify").json
    assert KEYS <= set(report) and report["device"] == "xrt:0"
    prompt = package.tokenizer.encode("the word")
    assert report["prompt_tokens"] == prompt
    assert report["tokens"] == ReferenceMachine(model).run(prompt, 5, None).tokens
    assert package.tokenizer.decode(prompt + report["tokens"]) == "the word" + report["text"]
    assert report["stop_reason"] == "length" and report["verified"] is True
    assert report["passes"] == len(prompt) + 4
    cycles = report["cycles"]
    assert cycles["total"] >= cycles["prompt"] + cycles["decode"] and cycles["decode"] == 4000
    assert set(cycles["phases"]) == {phase.name.lower() for phase in Phase}
    assert set(report["bytes_read"]) == {kind.name.lower() for kind in Traffic}
    assert set(report["density"]) == {"qkv", "decay", "up", "down"}
    assert all(0 <= value <= 1 for value in report["density"].values())
    assert len(report["density_by_layer"]) == model.shape.layers
    assert report["tokens_per_second"] == pytest.approx(4 * 175e6 / 4000)


def test_the_json_object_of_the_reference(generate):
    report = generate("--prompt-ids", "1 2,3", "--max-new-tokens", 3, "--json").json
    assert KEYS <= set(report) and report["prompt_tokens"] == [1, 2, 3]
    assert (
        report["cycles"] is report["bytes_read"] is report["tokens_per_second"] is report["verified"] is None
    )
    assert report["density"]["qkv"] > 0


def test_no_new_tokens(on_card):
    report = on_card("--prompt-ids", "1", "--max-new-tokens", 0, "--json").json
    assert (report["tokens"], report["text"], report["passes"], report["density"]) == ([], "", 0, None)
    assert report["stop_reason"] == "length"


def test_eos_and_stop_text(on_card, package, model):
    tokens = ReferenceMachine(model).run([4, 5, 6], 12, None).tokens
    for more in ([], ["--interactive"]):
        report = on_card("--prompt-ids", "4 5 6", "--eos", tokens[3], "--json", *more).json
        assert report["stop_reason"] == "eos" and report["tokens"] == tokens[: tokens.index(tokens[3]) + 1]
    text = on_card("--prompt-ids", "4 5 6", "--no-eos", "--max-new-tokens", 12, "--json").json["text"]
    stop = text[: len(text) // 2][-1]
    report = on_card(
        "--prompt-ids", "4 5 6", "--no-eos", "--max-new-tokens", 12, "--stop", stop, "--json"
    ).json
    assert report["stop_reason"] == "stop" and stop in report["text"] and len(report["tokens"]) < 12


def test_summary_and_stats(on_card):
    result = on_card("--prompt-ids", "1 2", "--max-new-tokens", 4, "--no-eos", "--verify", "--stats")
    for part in (
        "4 tokens (length)",
        "cycles per pass over 5 passes",
        "tokens/s at 175 MHz",
        "wall time",
        "bit-exact with the CPU engine, checked against the reference",
        "turnaround",
        "attention",
        "read from memory",
        "density",
    ):
        assert part in " ".join(result.err.split()), part


def test_rate_of_a_turn_without_decode_passes(on_card):
    report = on_card("--prompt-ids", "1 2", "--max-new-tokens", 1, "--json").json
    assert report["tokens_per_second"] == pytest.approx(175e6 / report["cycles"]["total"], rel=1e-3)
    assert tokens_per_second.__doc__


def test_prompt_files(generate, tmp_path, monkeypatch):
    (tmp_path / "prompt.txt").write_text("the dark")
    expected = generate("--prompt", "the dark", "--json").json["tokens"]
    assert generate("--prompt-file", tmp_path / "prompt.txt", "--json").json["tokens"] == expected


def test_a_session_goes_on_from_a_file(on_card, tmp_path):
    whole = on_card("--prompt-ids", "1 2 3", "--max-new-tokens", 8, "--no-eos", "--json").json["tokens"]
    first = on_card(
        "--prompt-ids", "1 2 3", "--max-new-tokens", 4, "--no-eos", "--json", "--save-state", tmp_path / "s"
    )
    assert first.json["tokens"] == whole[:4]
    # what comes next is given as a prompt here, so the pending token and it are ingested
    more = on_card(
        "--prompt-ids",
        str(whole[4]),
        "--max-new-tokens",
        3,
        "--no-eos",
        "--json",
        "--verify",
        "--load-state",
        tmp_path / "s",
    ).json
    assert more["tokens"] == whole[5:]


# ---- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ([], "give one prompt"),
        (["--prompt", "a", "--prompt-ids", "1"], "give one prompt"),
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt-ids", " "], "the prompt is empty"),
        (["--prompt-ids", "1 x"], "is not a list of numbers"),
        (["--prompt-ids", "160"], "token 160 is outside the vocabulary 0..159"),
        (["--prompt-ids", "1", "--max-new-tokens", "70000"], "at most 65536"),
        (["--prompt-ids", "1", "--eos", "160"], "the end-of-sequence token 160 is outside the vocabulary"),
        (["--prompt-ids", "1 " * 65537], "the prompt has 65537 tokens"),
        (["--prompt-ids", "1", "--max-new-tokens", "-1"], "-1"),
        (["--prompt-file", "/nothing/there"], "cannot be read"),
        (["--prompt-ids", "1", "--load-state", "/nothing/there"], "cannot read the session state"),
        (["--prompt", "a", "--bad"], "No such option"),
        (["--prompt", "a", "--card", "sim5"], "sim5"),
    ],
)
def test_bad_input(generate, arguments, sentence):
    result = generate(*arguments, "--json")
    assert sentence in result.error() and result.out == ""


def test_unknown_devices_and_models(generate, symlight):
    assert (
        "no device is called 'gpu'; known: cpu, cpu:THREADS, sim, reference, xrt:0"
        in generate("--prompt", "a", device="gpu").error()
    )
    assert (
        "no model package is at 'nothing'"
        in symlight("generate", "--model", "nothing", "--prompt", "a").error()
    )


def test_a_package_without_tokenizer(symlight, tmp_path, model):
    save_package(tmp_path / "mute", model, PackageMeta(name="mute"))
    arguments = ["generate", "--model", tmp_path / "mute", "--device", "reference"]
    assert "has no tokenizer.model" in symlight(*arguments, "--prompt", "a").error()
    result = symlight(*arguments, "--prompt-ids", "1 2", "--max-new-tokens", 3)
    assert len(result.out.split()) == 3
    assert symlight(*arguments, "--prompt-ids", "1 2", "--json").json["text"] is None


def test_pyxrt_is_absent(generate, monkeypatch, xclbin):
    monkeypatch.setitem(sys.modules, "pyxrt", None)
    sentence = generate("--xclbin", xclbin, "--prompt", "a", device="xrt:0").error()
    assert "pyxrt cannot be imported" in sentence and "--device sim" in sentence


def test_bitstream_and_card_problems(generate, on_card, fake_pyxrt, xclbin):
    assert "give --xclbin FILE" in generate("--prompt", "a", device="xrt:0").error()
    assert (
        "does not exist" in generate("--xclbin", "/nothing.xclbin", "--prompt", "a", device="xrt:0").error()
    )
    sentence = generate("--xclbin", xclbin, "--prompt", "a", device="xrt:7").error()
    assert "opening device 7 failed: No such device" in sentence
    assert generate("--xclbin", xclbin, "--prompt", "a", device="xrt:0000:3b:00.1").code == 0
    manifest = json.loads((xclbin.parent / "manifest.json").read_text())
    (xclbin.parent / "manifest.json").write_text(json.dumps(manifest | {"build_id": "5" * 32}))
    assert f"its manifest says {'5' * 32}" in on_card("--prompt", "a").error()


def test_a_package_that_does_not_fit_the_bitstream(on_card, fake_pyxrt, xclbin):
    manifest = json.loads((xclbin.parent / "manifest.json").read_text())
    manifest["engine"]["parameter_words"] = 2
    (xclbin.parent / "manifest.json").write_text(json.dumps(manifest))
    sentence = on_card("--prompt", "a").error()
    assert "parameter words, this kernel has 2" in sentence and "it fits the cards sim2, sim4" in sentence
    assert fake_pyxrt.opened == 0, "refused before anything moves"


def test_no_compiler(generate, monkeypatch, cache):
    """Said before a kernel is generated."""
    monkeypatch.setenv("PATH", "")
    assert "g++ and make not found; install them" in generate("--prompt", "a", device="sim").error()
    assert [path.name for path in cache.iterdir()] == ["cpu"]


def test_faults_of_the_card(on_card, fake_pyxrt):
    start = fake_pyxrt._generate

    def fault(report, counters):
        report |= fake_pyxrt._failed(error, channel=2, address=0x40)
        yield from ()

    fake_pyxrt._generate = fault
    for error, sentence in (
        (ErrorCode.WATCHDOG, "took more than 5000 cycles"),
        (ErrorCode.READ_RESPONSE, "memory read failed (channel 2, address 0x40)"),
    ):
        result = on_card("--prompt", "a", "--watchdog", 5000, "--json")
        assert sentence in result.error() and result.out == ""
    fake_pyxrt._generate = start
    assert on_card("--prompt", "a", "--json").json["tokens"]
    fake_pyxrt.hang = True
    assert "did not end within 0.1 s" in on_card("--prompt", "a", "--time-limit", 0.1).error()


def test_a_difference_has_its_own_exit_code(on_card, fake_pyxrt):
    fake_pyxrt.tokens = [1, 2, 3]
    result = on_card("--prompt", "a", "--max-new-tokens", 3, "--verify", "--json")
    assert "token 0 differs" in result.error(1) and result.out == ""


def test_a_damaged_package_is_told(symlight, package_path, tmp_path):
    shutil.copytree(package_path, tmp_path / "damaged")
    with open(tmp_path / "damaged" / "weights.safetensors", "r+b") as file:
        file.seek(5000)
        file.write(b"\x55\x55")
    assert "weights.safetensors has sha256" in symlight("inspect", tmp_path / "damaged").error()
