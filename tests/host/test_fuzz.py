"""Command lines and files at random: every command ends with an exit code and a sentence, and harms no file.

hypothesis prints the seed that repeats a run (`--hypothesis-seed`); a failure prints its smallest example.
"""

import random
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symlight.bitstreams.axlf import Section, Xclbin, encode
from symlight.host.cli import cli, run
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.host.device.session import Session

pytestmark = pytest.mark.timeout(280)
BOUNDED = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=True,
)
# What takes long by design, downloads or listens; `chat`, which reads standard input; and `cache`, a group.
LONG = {"bench", "bench-table", "bench-serve", "manifests", "package", "profile", "eval", "selftest", "soak"}
OTHER = {"cache", "chat", "serve", "train", "verilog"}
QUICK = sorted(set(cli.commands) - LONG - OTHER)
VALUES = st.one_of(
    st.sampled_from(["0", "1", "-1", "3", "1e9", "nan", "inf", "", " ", "1 2 3", "[b]", "\x1b[31m"]),
    st.sampled_from(["tiny", "demo", "sim4", "u50c", "/", "/nothing/x", ".", "file", "link", "/dev/null"]),
    st.sampled_from(["x" * 300, "hf:a/b"]),
    st.integers(-(2**70), 2**70).map(str),
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=12),
)
PACKAGE_FILES = ["config.json", "manifest.json", "weights.safetensors", "tokenizer.model"]
REFERENCE = ["--device", "reference", "--max-new-tokens", "2"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory whose file nobody may change."""
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to("file")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def checked(words: list[str], capsys) -> None:
    code = run(words)
    said = capsys.readouterr()
    assert code in (0, 1, 2), (code, words)
    assert "Traceback" not in said.err and "Traceback" not in said.out
    if code:
        assert said.err.strip(), words


@BOUNDED
@given(data=st.data())
def test_command_lines(data, place, capsys):
    command = data.draw(st.sampled_from(QUICK))
    options = [option for parameter in cli.commands[command].params for option in parameter.opts]
    words = [command]
    for _ in range(data.draw(st.integers(0, 4))):
        option = data.draw(st.sampled_from(options))
        if option not in ("--out", "--save-state", "--logits-out", "--readme", "--cache"):
            words += [option] if option.startswith("-") else []
            words += data.draw(st.lists(VALUES, max_size=1))
    if command == "generate":
        words += REFERENCE
    checked(words, capsys)
    assert (place / "file").read_text() == "precious"


def damaged(content: bytes, seed: int) -> bytes:
    """Cut, flipped, filled, repeated: at random places."""
    generator = random.Random(seed)
    data = bytearray(content)
    for _ in range(generator.randrange(1, 4)):
        at = generator.randrange(len(data) + 1)
        kind = generator.randrange(5)
        if kind == 0:
            del data[at:]
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << generator.randrange(8)
        elif kind == 2:
            data[at : at + 8] = generator.choice([b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7])
        elif kind == 3:
            data[at:at] = data[:64]
        else:
            data += generator.randbytes(generator.randrange(1, 100))
    return bytes(data)


@BOUNDED
@given(
    seed=st.integers(0, 2**32),
    name=st.sampled_from(["config.json", "manifest.json", "weights.safetensors", "tokenizer.model"]),
)
def test_packages(seed, name, package_path, place, capsys):
    path = place / "package"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(package_path, path)
    (path / name).write_bytes(damaged((path / name).read_bytes(), seed))
    checked(["inspect", str(path)], capsys)
    checked(["generate", "--model", str(path), "--prompt-ids", "1", *REFERENCE], capsys)


@BOUNDED
@given(seed=st.integers(0, 2**32))
def test_sessions(seed, model, package_path, place, capsys):
    machine = ReferenceMachine(model)
    machine.run([1, 2, 3], 2, None)
    Session(machine).save(place / "saved")
    content = damaged((place / "saved").read_bytes(), seed)
    (place / "session").write_bytes(content)
    checked(
        [
            "generate",
            "--model",
            str(package_path),
            "--load-state",
            str(place / "session"),
            "--prompt-ids",
            "1",
            *REFERENCE,
        ],
        capsys,
    )
    assert (place / "session").read_bytes() == content


@BOUNDED
@given(seed=st.integers(0, 2**32))
def test_bitstreams(seed, place, capsys):
    sections = [Section(0, "bitstream", b"configuration" * 9), Section(2, "x", b"{}" * 40)]
    image = encode(Xclbin(uuid="01234567-89ab-cdef-0123-456789abcdef", sections=sections))
    (place / "made.xclbin").write_bytes(damaged(image, seed))
    checked(["inspect", str(place / "made.xclbin")], capsys)
