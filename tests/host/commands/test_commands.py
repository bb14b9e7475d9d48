"""The commands beside `generate`: chat, self-test, and those that look at or make things."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

import symlight.model.training as symlight_training
from symlight.host.commands import inspect as inspection
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.model.config import preset
from symlight.model.package import load_package, save_package
from tests.benches.host.fake_pyxrt import make_api
from tests.benches.host.host_bench import TEXT, give_lines


def chat(symlight, monkeypatch, lines: list[str], *arguments):
    give_lines(monkeypatch, lines)
    return symlight("chat", *arguments, "--max-new-tokens", 6)


def test_chat(symlight, monkeypatch, package, package_path, tmp_path, model):
    session = tmp_path / "session"
    result = chat(
        symlight,
        monkeypatch,
        [
            "In the",
            "",
            f"/save {session}",
            "/stats",
            "a light",
            "/reset",
            "In the",
            f"/load {session}",
            "a light",
            "/quit",
            "never",
        ],
        "--model",
        package_path,
        "--device",
        "reference",
        "--verify",
    )
    assert result.code == 0, result.err
    machine, texts = ReferenceMachine(model), []
    for line in ("In the", "", "\na light"):
        prompt = package.tokenizer.encode(line)
        tokens = machine.run(prompt, 6, package.meta.eos).tokens
        stream = package.tokenizer.stream(prompt)
        texts.append("".join(stream.push(token) for token in tokens) + stream.flush() + "\n")
    first, more, light = texts
    assert result.out == first + more + light + first + light
    assert result.err.count("bit-exact with the integer reference") == 5 and "density" in result.err


def test_chat_by_the_packages_template(symlight, monkeypatch, package, tmp_path, model):
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}<assistant>"
    meta = replace(package.meta, chat_template=template)
    save_package(tmp_path / "templated", model, meta, package.tokenizer_bytes)
    result = chat(
        symlight,
        monkeypatch,
        ["In the", "", "a light", "/reset", "In the"],
        *("--model", tmp_path / "templated", "--device", "reference", "--verify"),
    )
    assert result.code == 0, result.err
    machine, texts = ReferenceMachine(model), []
    for prompt in ("<user>In the</><assistant>", "", "</><user>a light</><assistant>"):
        ids = package.tokenizer.encode(prompt, continues=bool(texts))
        tokens = machine.run(ids, 6, package.meta.eos).tokens
        texts.append(package.tokenizer.decode(tokens) + "\n")
    assert result.out == "".join(texts) + texts[0]


def test_chat_survives_bad_lines(symlight, monkeypatch, package_path):
    result = chat(
        symlight,
        monkeypatch,
        ["", "/load /nothing", "/save", "/help", "the word"],
        "--model",
        package_path,
        "--device",
        "reference",
    )
    assert result.code == 0 and result.out.strip("\n")
    for part in ("prompt is empty", "cannot read the session state", "/save needs the name", "new session"):
        assert part in " ".join(result.err.split())


def test_selftest(symlight, package_path, fake_pyxrt, xclbin):
    result = symlight("selftest", "--model", package_path, "--device", "xrt:0", "--xclbin", xclbin)
    assert result.code == 0 and result.out.endswith("selftest passed\n")
    assert result.out.count(" ok ") == 9 and "none are beside this package" in result.out
    fake_pyxrt.tokens = [3] * 12
    result = symlight("selftest", "--model", package_path, "--device", "xrt:0", "--xclbin", xclbin)
    assert "checks of xrt:0 failed" in result.error(1)
    assert "FAILED" in result.out and "passed" not in result.out


def test_golden_tokens_stand_in_a_file(symlight, package, tmp_path):
    """They are checked on every device: a wrong reference is noticed, too."""
    path = tmp_path / "tiny"
    shutil.copytree(package.path, path)
    tokens = ReferenceMachine(package.model).run([1, 2, 3], 5, None).tokens
    content = {"package": package.digest, "runs": [{"prompt_tokens": [1, 2, 3], "tokens": tokens}]}
    golden = tmp_path / "tiny.golden.json"
    selftest = ("selftest", "--model", path, "--device", "reference")
    golden.write_text(json.dumps(content))
    result = symlight(*selftest)
    assert result.code == 0 and "5 tokens of 1 runs" in result.out
    content["runs"][0]["tokens"] = [*tokens[:3], tokens[3] ^ 1, tokens[4]]
    golden.write_text(json.dumps(content))
    result = symlight(*selftest)
    assert "1 checks of reference failed" in result.error(1)
    assert f"token 3 is {tokens[3]} instead of {tokens[3] ^ 1}" in result.out
    golden.write_text(json.dumps(content | {"package": "0" * 64}))
    assert "belongs to package 000" in symlight(*selftest).error()
    golden.write_text("{}")
    assert "is not a file of golden tokens" in symlight(*selftest).error()


def test_inspect(symlight, package_path, model):
    about = symlight("inspect", package_path, "--json").json
    assert (
        about["shape"]["width"] == model.shape.width
        and about["eos"] == 2
        and about["tokenizer_pieces"] == 110
    )
    assert set(about["cards"]) >= {"sim4", "u50c"} and about["cards"]["sim4"].startswith("fits")
    assert "head_width" in symlight("inspect", package_path).out


def test_devices(symlight, fake_pyxrt, monkeypatch):
    found = {entry["device"]: entry for entry in symlight("devices", "--json").json["devices"]}
    assert set(found) == {"cpu", "reference", "sim", "xrt:0"}
    assert "plain" in found["cpu"]["about"]
    assert found["xrt:0"]["state"] == "found" and "0000:3b:00.1" in found["xrt:0"]["about"]
    monkeypatch.setitem(sys.modules, "pyxrt", make_api(fake_pyxrt, contexts=False))  # which cannot enumerate
    assert symlight("devices", "--json").json["devices"][3]["state"] == "found"
    monkeypatch.setitem(sys.modules, "pyxrt", None)
    monkeypatch.setattr(inspection.shutil, "which", lambda name: None)
    found = {entry["device"]: entry for entry in symlight("devices", "--json").json["devices"]}
    assert found["cpu"]["about"].startswith("g++ not found")
    assert "g++, make not found" in found["sim"]["about"] and "XRT" in found["xrt:0"]["about"]


def test_random_model(symlight, tmp_path):
    options = ("--model", "tiny", "--seed", 3, "--density", 0.3)
    assert symlight("random-model", *options, "--out", tmp_path / "s").code == 0
    package = load_package(tmp_path / "s")
    assert package.meta.synthetic and package.shape == preset("tiny") and package.meta.provenance["seed"] == 3
    (tmp_path / "file").write_text("")
    refused = symlight("random-model", "--model", "tiny", "--out", tmp_path / "file")
    assert "choose another place" in refused.error()
    renamed = symlight("synthesize", *options, "--out", tmp_path / "old" / "s")
    assert renamed.code == 0 and "is now called `random-model`" in renamed.err
    assert load_package(tmp_path / "old" / "s").digest == package.digest
    assert "synthesize" not in symlight("--help").out


@pytest.mark.parametrize(
    "content",
    ["[]", '{"package": 1, "runs": 5}', '{"package": 1, "runs": [{"prompt_tokens": "ab", "tokens": []}]}'],
)
def test_a_damaged_file_of_golden_tokens_is_named(symlight, package, tmp_path, content):
    shutil.copytree(package.path, tmp_path / "tiny")
    (tmp_path / "tiny.golden.json").write_text(content)
    sentence = symlight("selftest", "--model", tmp_path / "tiny", "--device", "reference").error()
    assert "tiny.golden.json" in sentence and sentence.endswith("remove it or make it again")


def test_quantise_needs_a_checkpoint(symlight, tmp_path):
    assert (
        "no checkpoint"
        in symlight("quantise", tmp_path / "none.safetensors", "--out", tmp_path / "q").error()
    )


def test_train_and_quantise(symlight, tmp_path):
    pytest.importorskip("torch")
    words = TEXT.replace("\n", " ").split()
    verses = [" ".join(words[(i * k) % len(words)] for i in range(1, 13)) for k in range(1, 6000)]
    (tmp_path / "corpus.txt").write_text(
        "\n\n".join("\n".join(verses[i : i + 40]) for i in range(0, 6000, 40))
    )
    out = tmp_path / "trained"
    arguments = ["--corpus", tmp_path / "corpus.txt", "--shape", "tiny", "--steps", 1]
    assert symlight("train", "--out", out, *arguments).out.strip() == str(out / "model.safetensors")
    about = ["--description", "a test", "--data", "made-up verses"]
    (out / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert symlight("quantise", out, "--out", tmp_path / "package", *about).code == 0
    assert load_package(tmp_path / "package").meta.chat_template == "{{ messages[0].content }}"
    meta = load_package(tmp_path / "package").meta
    assert (meta.name, meta.description, meta.eos, meta.synthetic) == ("package", "a test", 2, False)
    assert meta.provenance["data"] == "made-up verses" and meta.provenance["training"]["steps"] == 1
    report = symlight(
        "generate",
        "--model",
        tmp_path / "package",
        "--device",
        "reference",
        "--prompt",
        "the",
        "--json",
        "--verify",
    ).json
    assert report["tokens"] and report["verified"]
    assert (
        "cannot be read"
        in symlight("quantise", out, "--out", tmp_path / "p", "--tokenizer", "/nothing").error()
    )
    (out / "train.json").write_text("{}")
    assert "not the report of a training" in symlight("quantise", out, "--out", tmp_path / "p").error()


def test_train_needs_torch(symlight, tmp_path, monkeypatch):
    monkeypatch.delattr(symlight_training, "trainer", raising=False)
    monkeypatch.setitem(sys.modules, "symlight.model.training.trainer", None)
    assert "pip install 'symlight[train]'" in symlight("train", "--out", tmp_path / "t").error()


def test_help_names_every_command(symlight):
    result = symlight("--help")
    for name in (
        "generate",
        "chat",
        "inspect",
        "devices",
        "selftest",
        "verilog",
        "train",
        "quantise",
        "random-model",
    ):
        assert name in result.out


# ---- as a process ------------------------------------------------------------------------------------------


def start(package_path, count: int) -> subprocess.Popen:
    """`symlight generate` of so many tokens on the reference."""
    command = [
        sys.executable,
        "-m",
        "symlight.host.cli",
        "generate",
        "--model",
        str(package_path),
        "--no-eos",
    ]
    command += ["--device", "reference", "--prompt", "the", "--max-new-tokens", str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c(package_path):
    process = start(package_path, 60000)
    assert process.stdout.read(1)
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (
        process.returncode == 130
        and err.splitlines()[-1] == "symlight: interrupted"
        and "Traceback" not in err
    )


def test_a_closed_pipe_is_no_error_message(package_path):
    process = start(package_path, 5000)
    process.stdout.read(1)
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=20) != 0 and "Traceback" not in err
