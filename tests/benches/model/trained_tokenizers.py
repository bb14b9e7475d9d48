"""SentencePiece models of every kind that decodes in its own way, trained in a moment."""

import functools
import io

import sentencepiece

TEXT = "the cat sat on the mat and the dog sat on the cat, said the bird to the dog.\nIn the beginning.\n"
AS_IT_IS = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
KINDS = {
    "byte fallback": {"byte_fallback": True, "vocab_size": 290},
    "byte fallback, as it is": {
        "byte_fallback": True,
        "vocab_size": 290,
        "add_dummy_prefix": False,
        **AS_IT_IS,
    },
    "dummy prefix": {"byte_fallback": True, "vocab_size": 290, **AS_IT_IS},
    "one blank dropped": {"vocab_size": 60, "remove_extra_whitespaces": False},
    "blank as suffix": {"vocab_size": 60, "treat_whitespace_as_suffix": True},
    "symbols": {
        "vocab_size": 60,
        "user_defined_symbols": ["\n"],
        "control_symbols": ["<turn>"],
        "add_dummy_prefix": False,
        **AS_IT_IS,
    },
}


@functools.cache
def trained(kind: str) -> bytes:
    """The model of one of `KINDS`."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.splitlines() * 3),
        model_writer=written,
        model_type="bpe",
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **KINDS[kind],
    )
    return written.getvalue()
