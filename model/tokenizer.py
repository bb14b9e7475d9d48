"""Text to token ids and back, over a SentencePiece model."""

from collections.abc import Sequence

import sentencepiece

from symlight.base.errors import UserError

_REPLACEMENT = "�"  # what an incomplete UTF-8 sequence decodes to
_BYTES_OF_A_CHARACTER = 4
_CONTEXT_TOKENS = 4  # decoded again with every new token


class Tokenizer:
    """A SentencePiece model held in memory. `source` names it in error messages."""

    def __init__(self, model: bytes, source: str = "tokenizer"):
        if not model:
            raise UserError(f"{source} is empty; build the package again")
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise UserError(
                f"{source} is not a SentencePiece model ({error}); build the package again"
            ) from error
        self.size = self._processor.get_piece_size()
        eos = self._processor.eos_id()
        self.eos: int | None = eos if eos >= 0 else None
        bos = self._processor.bos_id()
        self.bos: int | None = bos if bos >= 0 else None

    def special(self) -> dict[str, int | None]:
        """Ids of the special tokens pad, bos, eos and unk; None for one that the model does not have."""
        ids = {name: getattr(self._processor, f"{name}_id")() for name in ("pad", "bos", "eos", "unk")}
        return {name: token if token >= 0 else None for name, token in ids.items()}

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; nothing is added before or after it."""
        return self._processor.encode(text, out_type=int)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids; ids beyond the tokenizer (padding rows of a model) decode to nothing."""
        return self._processor.decode([token for token in tokens if 0 <= token < self.size])

    def stream(self, context: Sequence[int] = ()) -> "TextStream":
        """Incremental decoder of the tokens that follow `context`."""
        return TextStream(self, context)


class TextStream:
    """Text of a growing token list, piece by piece: the pieces joined are the decoded whole.

    A piece is held back while it ends inside a character that is spread over byte tokens.
    """

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = ()):
        self._tokenizer = tokenizer
        self._restart(list(context))

    def push(self, token: int) -> str:
        """Text that `token` completes, perhaps none."""
        self._tokens.append(token)
        text = self._tokenizer.decode(self._tokens)
        open_end = len(text) - len(text.rstrip(_REPLACEMENT))
        if 0 < open_end < _BYTES_OF_A_CHARACTER:
            return ""
        piece = text[self._done :]
        self._restart(self._tokens)
        return piece

    def flush(self) -> str:
        """Whatever is still held back."""
        piece = self._tokenizer.decode(self._tokens)[self._done :]
        self._restart(self._tokens)
        return piece

    def _restart(self, tokens: list[int]) -> None:
        """All is delivered; the last tokens stay, because the first of a text loses its leading blank."""
        self._tokens = tokens[-_CONTEXT_TOKENS:]
        self._done = len(self._tokenizer.decode(self._tokens))
