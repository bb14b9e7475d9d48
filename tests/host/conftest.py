"""Models, packages and a fake card for the tests of the host."""

import hashlib
import io
import json
import sys

import pytest
import sentencepiece

from symlight.base.cache import room
from symlight.bitstreams.axlf import Section, Xclbin, encode
from symlight.cpu.build import ROOM
from symlight.cpu.isa import ISAS, find
from symlight.cpu.library import Library
from symlight.host.cli import run
from symlight.hw.config import CARDS, Engine
from symlight.model.config import preset
from symlight.model.package import PackageMeta, load_package, save_package
from symlight.model.synthetic import random_model
from tests.benches.host.fake_card import FakeCard
from tests.benches.host.fake_pyxrt import make_api
from tests.benches.host.host_bench import BUILD_ID, LOGIT_SCALE, TEXT, UUID


@pytest.fixture(scope="session")
def tokenizer_bytes() -> bytes:
    """A small SentencePiece model like the shipped one's."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.splitlines() * 4),
        model_writer=model,
        model_type="bpe",
        vocab_size=110,
        character_coverage=1.0,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        user_defined_symbols=["\n"],
        pad_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


@pytest.fixture(scope="session")
def model():
    return random_model(preset("tiny"), 7, 0.3)


@pytest.fixture(scope="session")
def package_path(tmp_path_factory, model, tokenizer_bytes):
    path = tmp_path_factory.mktemp("packages") / "tiny"
    save_package(path, model, PackageMeta(name="tiny", eos=2), tokenizer_bytes)
    return path


@pytest.fixture(scope="session")
def scaled_path(tmp_path_factory, model, tokenizer_bytes):
    """The same model with a logit scale, which sampling needs."""
    path = tmp_path_factory.mktemp("packages") / "scaled"
    save_package(path, model, PackageMeta(name="scaled", eos=2, logit_scale=LOGIT_SCALE), tokenizer_bytes)
    return path


@pytest.fixture(scope="session")
def package(package_path):
    return load_package(package_path)


@pytest.fixture
def engine() -> Engine:
    return CARDS["sim4"]


@pytest.fixture
def card(engine, model) -> FakeCard:
    return FakeCard(engine, model, BUILD_ID)


@pytest.fixture
def xclbin(tmp_path, engine):
    """A bitstream that the fake card takes, with its manifest."""
    file = tmp_path / "bitstream" / "symlight.xclbin"
    file.parent.mkdir()
    image = encode(Xclbin(uuid=UUID, sections=[Section(0, "bitstream", b"configuration")]))
    file.write_bytes(image)
    sealed = {"xclbin": {"sha256": hashlib.sha256(image).hexdigest(), "uuid": UUID}}
    manifest = {
        "kernel": "symlight",
        "build_id": f"{BUILD_ID:032x}",
        "engine": engine.to_json(),
        "result": sealed,
    }
    (file.parent / "manifest.json").write_text(json.dumps(manifest))
    return file


@pytest.fixture
def fake_pyxrt(monkeypatch, card):
    """The fake card behind `import pyxrt`."""
    monkeypatch.setitem(sys.modules, "pyxrt", make_api(card))
    return card


@pytest.fixture
def cache(tmp_path_factory):
    """The cache of commands: new in every test, but the libraries in it are those of the whole suite."""
    folder = tmp_path_factory.mktemp("cache")
    cpu = folder / "cpu"
    cpu.mkdir()
    Library(find(None))
    for path in room(None, ROOM).iterdir():
        if path.name.startswith(tuple(isa.name for isa in ISAS)):
            (cpu / path.name).symlink_to(path)
    return folder


class Result:
    """What one command line did."""

    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict:
        assert self.code == 0, self.err
        assert self.out.count("\n") == 1, "more than one line on standard output"
        return json.loads(self.out)

    def error(self, code: int = 2) -> str:
        """The one sentence of a failed command."""
        assert self.code == code, (self.code, self.err)
        lines = [line for line in self.err.splitlines() if line]
        assert lines[-1].startswith("symlight: ") and "Traceback" not in self.err, self.err
        return lines[-1].removeprefix("symlight: ")


@pytest.fixture
def symlight(capsys, cache):
    """Runs a command line in this process."""

    def call(*arguments) -> Result:
        words = [str(argument) for argument in arguments]
        if words[0] in ("generate", "chat", "selftest"):
            words += ["--cache", str(cache)]
        code = run(words)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


@pytest.fixture
def generate(symlight, package_path):
    """`symlight generate` with the test package on the reference device, or on the one that is named."""

    def call(*arguments, device: str = "reference"):
        return symlight("generate", "--model", package_path, "--device", device, *arguments)

    return call


@pytest.fixture
def on_card(generate, fake_pyxrt, xclbin):
    """The same on the fake card."""
    return lambda *arguments: generate("--xclbin", xclbin, *arguments, device="xrt:0")
