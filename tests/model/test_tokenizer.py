"""The tokenizer: bad models, streaming, ids beyond its pieces."""

import pytest

from symlight.base.errors import UserError
from symlight.model.tokenizer import Tokenizer


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x0a" * 200])
def test_bad_tokenizer(data):
    with pytest.raises(UserError, match="my.model"):
        Tokenizer(data, "my.model")


def test_streamed_text_is_the_whole_text(tokenizer_bytes):
    tokenizer = Tokenizer(tokenizer_bytes)
    for text in ("the cat said: naïve ☃ 𝄞 the dog.", "☃", "mat, cat  the"):
        tokens = tokenizer.encode(text)
        for split in (0, 1, 3):
            stream = tokenizer.stream(tokens[:split])
            pieces = [stream.push(token) for token in tokens[split:]]
            assert "�" not in "".join(pieces) or split
            assert (
                "".join(pieces) + stream.flush()
                == tokenizer.decode(tokens)[len(tokenizer.decode(tokens[:split])) :]
            )
            assert stream.flush() == ""


def test_incomplete_characters_are_flushed(tokenizer_bytes):
    tokenizer = Tokenizer(tokenizer_bytes)
    tokens = tokenizer.encode("☃")
    stream = tokenizer.stream()
    assert "".join(stream.push(token) for token in tokens[:-1]).strip() == ""
    assert "�" in stream.flush()


def test_padding_ids_decode_to_nothing(tokenizer_bytes):
    tokenizer = Tokenizer(tokenizer_bytes)
    tokens = tokenizer.encode("the cat")
    assert tokenizer.decode([*tokens, tokenizer.size, 60000]) == "the cat"
    assert tokenizer.eos == 2
