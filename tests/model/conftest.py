"""Settings and fixtures of this folder's tests."""

import io
import shutil

import pytest
import sentencepiece
from hypothesis import settings

from symlight.model.config import Numerics, preset
from symlight.model.package import save_package
from symlight.model.synthetic import random_model
from tests.benches.model.package_damage import META

settings.register_profile("model", deadline=None, max_examples=150, print_blob=True)
settings.load_profile("model")

TEXT = "the cat sat on the mat and the dog sat on the cat, said the bird to the dog.\nIn the beginning.\n"


@pytest.fixture(scope="session")
def tokenizer_bytes():
    """Byte fallback makes every byte a token of its own, so characters can be split over tokens."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.splitlines() * 3),
        model_writer=written,
        vocab_size=290,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return written.getvalue()


@pytest.fixture(scope="session")
def odd_model():
    return random_model(preset("odd"), 11, numerics=Numerics(score_frac=5))


@pytest.fixture(scope="session")
def pristine(tmp_path_factory, odd_model):
    path = tmp_path_factory.mktemp("packages") / "pristine"
    save_package(path, odd_model, META)
    return path


@pytest.fixture
def copy(tmp_path, pristine):
    return shutil.copytree(pristine, tmp_path / "package")
