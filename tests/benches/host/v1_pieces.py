"""A tiny SentencePiece model with the special ids of the public V1 tokenizers."""

import io

import sentencepiece

TEXT = "in the beginning was the word and the word was with symbols of light all day long".split()


def pieces(size):
    """The model's bytes."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(TEXT[i:] + TEXT[:i]) for i in range(len(TEXT))] * 3),
        model_writer=content,
        vocab_size=size,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        minloglevel=2,
    )
    return content.getvalue()
