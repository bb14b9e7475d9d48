"""The JSON of answers, whole and streamed, in the shape that OpenAI's clients read."""

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .job import Piece, Scored, Wish

_encode = json.JSONEncoder(ensure_ascii=False).encode


@dataclass
class Choice:
    """What has come of one job."""

    wish: Wish
    text: str = ""
    tokens: int = 0  # an echoed prompt included
    scored: list[Scored] = field(default_factory=list)  # where log-probabilities are asked for
    finished: bool = False
    reason: str | None = None  # None: an error ended it

    def add(self, piece: Piece) -> None:
        self.text += piece.text
        self.tokens += piece.tokens
        self.scored += piece.scored

    def finish(self, reason: str | None) -> None:
        self.finished, self.reason = True, reason


class Answer:
    """One answer: its id, its kind, and the JSON of its choices.

    Parameters
    ----------
    chat : bool
        A chat completion, else a text completion.
    model : str
        Name of the model.
    spell : callable(token id) -> str
        Text of an alternative.
    """

    def __init__(self, chat: bool, model: str, wishes: Sequence[Wish], spell):
        self.id = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        self.chat, self._model, self._spell = chat, model, spell
        self.created = int(time.time())
        self.choices = [Choice(wish) for wish in wishes]
        self._offsets = [0] * len(wishes)

    @property
    def complete(self) -> bool:
        """Every choice has its finish."""
        return all(choice.finished for choice in self.choices)

    # ---- whole ----

    def whole(self) -> dict:
        """The answer when every choice is finished."""
        kind = "chat.completion" if self.chat else "text_completion"
        choices = [self._choice(index, choice) for index, choice in enumerate(self.choices)]
        return self._head(kind) | {"choices": choices, "usage": self.usage()}

    def _choice(self, index: int, choice: Choice) -> dict:
        result: dict[str, object] = {"index": index, "finish_reason": choice.reason, "logprobs": None}
        if choice.wish.logprobs is not None:
            result["logprobs"] = self._logprobs(index, choice.scored)
        if self.chat:
            return result | {"message": {"role": "assistant", "content": choice.text, "refusal": None}}
        return result | {"text": choice.text}

    def usage(self) -> dict:
        prompts = {id(choice.wish.prompt): len(choice.wish.prompt) for choice in self.choices}
        generated = 0
        for choice in self.choices:
            echoed = len(choice.wish.prompt) if choice.wish.echo else 0
            generated += max(0, choice.tokens - echoed)
        prompt = sum(prompts.values())
        return {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}

    def _head(self, kind: str) -> dict:
        seed = self.choices[0].wish.sampling.seed if self.choices else None
        return {"id": self.id, "object": kind, "created": self.created, "model": self._model, "seed": seed}

    # ---- streamed ----

    def first_events(self) -> list[str]:
        """Events before the first text: a chat names the role."""
        if not self.chat:
            return []
        begun = '"delta": {"role": "assistant", "content": ""}'
        return [self._choice_event(index, begun) for index in range(len(self.choices))]

    def piece_event(self, index: int, piece: Piece) -> str:
        """The event of a piece, which `Choice.add` has taken."""
        choice = self.choices[index]
        logprobs = self._logprobs(index, piece.scored) if choice.wish.logprobs is not None else None
        text = _encode(piece.text)
        shown = f'"delta": {{"content": {text}}}' if self.chat else f'"text": {text}'
        return self._choice_event(index, shown, logprobs)

    def finish_event(self, index: int) -> str:
        shown = '"delta": {}' if self.chat else '"text": ""'
        return self._choice_event(index, shown, reason=self.choices[index].reason)

    def usage_event(self) -> str:
        return f'{self._begin}, "choices": [], "usage": {_encode(self.usage())}}}\n\n'

    def _choice_event(
        self, index: int, shown: str, logprobs: dict | None = None, reason: str | None = None
    ) -> str:
        """An event, put together from JSON texts: there is one for every token."""
        scored = "null" if logprobs is None else _encode(logprobs)
        ended = "null" if reason is None else f'"{reason}"'
        choice = f'{{"index": {index}, {shown}, "logprobs": {scored}, "finish_reason": {ended}}}'
        return f'{self._begin}, "choices": [{choice}]}}\n\n'

    @cached_property
    def _begin(self) -> str:
        """What the events of this answer begin with."""
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return f"data: {_encode(self._head(kind))[:-1]}"

    # ---- log-probabilities ----

    def _logprobs(self, index: int, tokens: Sequence[Scored]) -> dict:
        if self.chat:
            return {"content": [self._scored(token) for token in tokens], "refusal": None}
        offsets = []
        for token in tokens:
            offsets.append(self._offsets[index])
            self._offsets[index] += len(token.text)
        tops = [
            None if token.alternatives is None else self._tops(token) for token in tokens
        ]  # fmt: skip
        return {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": tops,
            "text_offset": offsets,
        }

    def _tops(self, token: Scored) -> dict[str, float]:
        """Alternatives by text; where two are spelled alike, the likelier one."""
        tops: dict[str, float] = {}
        for other, logprob in token.alternatives or ():
            tops.setdefault(self._spell(other), logprob)
        return tops

    def _scored(self, token: Scored) -> dict:
        tops = [self._entry(self._spell(other), logprob) for other, logprob in token.alternatives or ()]
        return self._entry(token.text, token.logprob) | {"top_logprobs": tops}

    @staticmethod
    def _entry(text: str, logprob: float | None) -> dict:
        return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}


def event(data: dict) -> str:
    """A server-sent event."""
    return f"data: {_encode(data)}\n\n"


DONE = "data: [DONE]\n\n"


def error_json(sentence: str, *, kind: str, field: str | None = None, code: str | None = None) -> dict:
    """The body of an error answer."""
    return {"error": {"message": sentence, "type": kind, "param": field, "code": code}}
