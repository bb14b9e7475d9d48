"""The tokenizer: bad models, text in, text out in pieces, ids beyond its pieces."""

import functools

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.model.tokenizer import Tokenizer
from tests.benches.model.trained_tokenizers import KINDS, trained


@functools.cache
def tokenizer_of(kind: str) -> Tokenizer:
    return Tokenizer(trained(kind))


kinds = st.sampled_from(sorted(KINDS))
byte_kinds = [kind for kind, options in KINDS.items() if options.get("byte_fallback")]


def byte_tokens(tokenizer: Tokenizer, data: bytes) -> list[int]:
    by_byte = {tokenizer.spelled(token): token for token in range(tokenizer.size)}
    return [by_byte[bytes([byte])] for byte in data]


@st.composite
def streams(draw):
    """(kind, tokens): mostly bytes of characters, blanks and control tokens, where decoding has rules."""
    kind = draw(kinds)
    tokenizer = tokenizer_of(kind)
    rare = [tokenizer.encode(" ", continues=True)[-1], 0, 1, 2]
    choices = [st.sampled_from(rare).map(lambda token: [token])]
    choices.append(st.integers(0, tokenizer.size + 3).map(lambda token: [token]))
    if kind in byte_kinds:
        characters = st.text(st.sampled_from("é☃😀日a"), max_size=2).map(str.encode)
        choices.append(st.one_of(characters, st.binary(max_size=4)).map(lambda b: byte_tokens(tokenizer, b)))
        choices.append(
            characters.map(lambda b: byte_tokens(tokenizer, b[1:]) + byte_tokens(tokenizer, b[:-1]))
        )
    parts = draw(st.lists(st.one_of(choices), max_size=8))
    return kind, [token for part in parts for token in part]


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x0a" * 200])
def test_bad_tokenizer(data):
    with pytest.raises(UserError, match="my.model"):
        Tokenizer(data, "my.model")


@given(streams())
def test_decoding_is_sentencepieces(stream):
    kind, tokens = stream
    tokenizer, theirs = tokenizer_of(kind), sentencepiece.SentencePieceProcessor(model_proto=trained(kind))
    assert tokenizer.decode(tokens) == theirs.decode([token for token in tokens if token < tokenizer.size])


@given(streams(), st.data())
def test_pieces_joined_are_the_whole_text(stream, data):
    kind, tokens = stream
    tokenizer = tokenizer_of(kind)
    whole = tokenizer.stream()
    pieces = [whole.push(token) for token in tokens]
    split = data.draw(st.integers(0, len(tokens)))
    rest = tokenizer.stream(tokens[:split])
    assert [rest.push(token) for token in tokens[split:]] == pieces[split:]
    # a context that is cut off in front, as of a session whose beginning nobody remembers
    begun = bool("".join(pieces[:split]))
    if begun:
        tail = tokenizer.stream(tokens[max(0, split - 4) : split], begun=True)
        assert [tail.push(token) for token in tokens[split:]] == pieces[split:]
    assert rest.flush() == whole.flush() and whole.flush() == ""


def test_a_character_after_a_stray_byte_is_whole():
    tokenizer = tokenizer_of("dummy prefix")
    stream = tokenizer.stream()
    pieces = [stream.push(token) for token in byte_tokens(tokenizer, b"\xac\xf0\x9f\x98\x80")]
    assert pieces == ["�", "", "", "", "😀"]


def test_incomplete_characters_wait_and_are_flushed():
    tokenizer = tokenizer_of("byte fallback")
    stream = tokenizer.stream()
    assert [stream.push(token) for token in byte_tokens(tokenizer, "☃".encode()[:-1])] == ["", ""]
    assert stream.flush() == "��" and stream.flush() == ""


@given(
    st.sampled_from(["byte fallback, as it is", "dummy prefix"]),
    st.lists(st.text(st.sampled_from("the cat é☃\n,."), max_size=8), max_size=4),
)
@example("dummy prefix", ["the", " cat", "s"])
def test_texts_that_continue_are_joined_as_they_are(kind, texts):
    tokenizer = tokenizer_of(kind)
    tokens = [
        token for index, text in enumerate(texts) for token in tokenizer.encode(text, continues=index > 0)
    ]
    text = "".join(texts)
    if kind == "dummy prefix" and not texts[:1] == [""]:
        assert tokenizer.decode(tokens) == text
    elif kind != "dummy prefix":
        assert tokenizer.decode(tokens) == text


def test_blanks_at_a_continuation_stay():
    tokenizer = tokenizer_of("byte fallback")  # its normaliser drops leading blanks
    assert tokenizer.decode(tokenizer.encode("the") + tokenizer.encode(" cat", continues=True)) == "the cat"
    assert tokenizer.decode(tokenizer.encode("the") + tokenizer.encode("n", continues=True)) == "then"


def test_a_byte_order_mark_is_dropped():
    for kind in KINDS:
        tokenizer = tokenizer_of(kind)
        assert tokenizer.encode("\ufeffthe cat") == tokenizer.encode("the cat")


def test_unknown_characters_are_named():
    tokenizer = tokenizer_of("symbols")
    assert tokenizer.unknown("the 日本 cat, 語") == "日本語"
    assert tokenizer.unknown("the cat") == tokenizer.unknown("") == ""
    assert tokenizer_of("byte fallback").unknown("日本") == ""


def test_lone_surrogates_are_refused_and_bytes_of_the_command_line_recovered():
    tokenizer = tokenizer_of("byte fallback")
    with pytest.raises(UserError, match=r"0xe6 at offset 3"):
        tokenizer.encode("abc\udce6")
    with pytest.raises(UserError, match=r"lone surrogate '\\ud800' at character 1"):
        tokenizer.encode("a\ud800")
    assert tokenizer.encode("\udcc3\udca9") == tokenizer.encode("é")


def test_padding_ids_decode_to_nothing(tokenizer_bytes):
    tokenizer = Tokenizer(tokenizer_bytes)
    tokens = tokenizer.encode("the cat")
    assert tokenizer.decode([*tokens, tokenizer.size, 60000]) == "the cat"
    assert tokenizer.eos == 2
