"""Text to token ids and back, over a SentencePiece model."""

import codecs
from collections.abc import Sequence
from functools import cached_property

import sentencepiece

from symlight.base.errors import UserError

from .text import checked

MOST_TOKENIZER_BYTES = 1 << 28  # of a model file: many times the largest
SPACE = "▁"  # SentencePiece's blank
_REPLACEMENT = "�"
_BYTES_OF_A_CHARACTER = 4
# A protobuf reader merges a second normalizer_spec (field 3 of the model) into the first one: here
# add_dummy_prefix (3) and remove_extra_whitespaces (4) are false.
_AS_IT_IS = b"\x1a\x04\x18\x00\x20\x00"


def _each_byte(error: UnicodeError) -> tuple[str, int]:
    """SentencePiece's rule: each byte outside a character is one replacement character."""
    assert isinstance(error, UnicodeDecodeError), "the rule is one of reading"
    return _REPLACEMENT * (error.end - error.start), error.end


codecs.register_error("symlight.each_byte", _each_byte)
_Utf8 = codecs.getincrementaldecoder("utf-8")


class Tokenizer:
    """A SentencePiece model held in memory.

    `source` names it in error messages.
    """

    def __init__(self, model: bytes, source: str = "tokenizer"):
        if not model:
            raise UserError(f"{source} is empty; build the package again")
        self._model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            self.size = self._processor.get_piece_size()
            ids = self.special()
            # the pieces and what stands for an unknown one must be text
            self._processor.id_to_piece(list(range(self.size)))
            self._processor.decode([] if ids["unk"] is None else [ids["unk"]])
        except (RuntimeError, UnicodeDecodeError) as error:
            raise UserError(
                f"{source} is not a SentencePiece model ({error}); build the package again"
            ) from error
        self.eos, self.bos, self._unknown = ids["eos"], ids["bos"], ids["unk"]
        self._spelled: dict[int, bytes | str] = {}

    def special(self) -> dict[str, int | None]:
        """Ids of the special tokens pad, bos, eos and unk; None for one that the model does not have."""
        ids = {name: getattr(self._processor, f"{name}_id")() for name in ("pad", "bos", "eos", "unk")}
        return {name: token if token >= 0 else None for name, token in ids.items()}

    def encode(self, text: str, *, continues: bool = False) -> list[int]:
        """Token ids of `text`, without special tokens.

        A byte order mark is dropped. A text that `continues` another keeps its leading blanks and gets none;
        SentencePiece models may do otherwise at the beginning of a text. A `UserError` names characters that
        are not Unicode text.
        """
        return self._encoder(continues).encode(checked(text, "the text"), out_type=int)

    def unknown(self, text: str) -> str:
        """The characters of `text` that the tokenizer lacks: it reads each run of them as one `<unk>`."""
        text = checked(text, "the text")
        processor = self._encoder(True)
        pairs = zip(processor.encode(text, out_type=int), processor.encode(text, out_type=str), strict=True)
        return "".join(piece for token, piece in pairs if token == self._unknown).replace(SPACE, "")

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids; ids beyond the tokenizer (padding rows of a model) decode to nothing."""
        stream = self.stream()
        return "".join(map(stream.push, tokens)) + stream.flush()

    def stream(self, context: Sequence[int] = (), *, begun: bool = False) -> "TextStream":
        """Incremental decoder of the tokens that follow `context`.

        `begun` says that text stands before `context`; otherwise `context` is all there is.
        """
        return TextStream(self, context, begun)

    def spelled(self, token: int) -> bytes | str:
        """What a token is in a text: the byte of a byte token, else characters, `SPACE` for each blank."""
        if token not in self._spelled:
            self._spelled[token] = self._spell(token)
        return self._spelled[token]

    def _spell(self, token: int) -> bytes | str:
        processor = self._processor
        if processor.is_byte(token):
            return bytes([int(processor.id_to_piece(token)[1:-1], 16)])  # <0x41>
        if processor.is_control(token):
            return ""
        return processor.decode([token]) if processor.is_unknown(token) else processor.id_to_piece(token)

    @cached_property
    def strips(self) -> int:
        """Blanks that are dropped at the beginning of a text: 0, 1, or 2 for all of them."""
        decode, blank = self._processor.decode, self._processor.piece_to_id(SPACE)
        if blank != self._unknown:
            return 2 - len(decode([blank, blank]))
        spaced = (token for token in range(self.size) if str(self.spelled(token)).startswith(SPACE))
        return int(any(not decode([token]).startswith(" ") for token in spaced))

    def _encoder(self, continues: bool) -> sentencepiece.SentencePieceProcessor:
        return self._continuing if continues else self._processor

    @cached_property
    def _continuing(self) -> sentencepiece.SentencePieceProcessor:
        try:
            return sentencepiece.SentencePieceProcessor(model_proto=self._model + _AS_IT_IS)
        except RuntimeError:  # a model may hold tests of itself, which the change fails
            return self._processor


class TextStream:
    """Text of a growing token list, piece by piece: the pieces joined are the decoded whole.

    A piece ends in front of a character of which bytes are still missing.
    """

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = (), begun: bool = False):
        self._tokenizer = tokenizer
        self._decoder, self._inside = _Utf8("symlight.each_byte"), False
        self._begun = begun
        known = [token for token in context if 0 <= token < tokenizer.size]
        start = 0
        while start < len(known) and not self._begun:
            self.push(known[start])
            start += 1
        # What is still missing of a character depends on the last bytes only.
        if start < len(known) - _BYTES_OF_A_CHARACTER:
            start = len(known) - _BYTES_OF_A_CHARACTER
            self._decoder.reset()
            self._inside = False
        for token in known[start:]:
            self.push(token)

    def push(self, token: int) -> str:
        """Text that `token` completes, perhaps none."""
        if not 0 <= token < self._tokenizer.size:
            return ""
        spelled = self._tokenizer.spelled(token)
        if isinstance(spelled, bytes):
            self._inside = True  # perhaps: bytes may wait for the rest of their character
            return self._given(self._decoder.decode(spelled))
        waiting = self.flush() if self._inside else ""
        return waiting + self._given(self._without_prefix(spelled).replace(SPACE, " "))

    def flush(self) -> str:
        """A replacement character for every byte that waits for the rest of its character."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        self._inside = False
        return self._given(text)

    def _without_prefix(self, spelled: str) -> str:
        if self._begun or not spelled.startswith(SPACE) or not self._tokenizer.strips:
            return spelled
        self._begun = self._tokenizer.strips == 1
        return spelled[1:]

    def _given(self, text: str) -> str:
        self._begun = self._begun or bool(text)
        return text
