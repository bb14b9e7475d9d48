"""Bodies of requests: what is understood, what is refused by name, and the wishes that come of them."""

import secrets
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from symlight.base.errors import UserError
from symlight.model.penalties import NO_PENALTIES, Penalties
from symlight.model.sampling import SEED_BITS, SamplingOptions

from ..library.completion import MAX_ALTERNATIVES
from .job import Wish
from .settings import ServerSettings

_PENALTY_FIELDS = {
    "presence": "presence_penalty",
    "frequency": "frequency_penalty",
    "repetition": "repetition_penalty",
}
_Values = TypeVar("_Values")
Number = Annotated[float, Field(strict=False, allow_inf_nan=False)]
# Fields of the protocol that this server takes with their neutral value only.
NEUTRAL: dict[str, tuple] = {
    "best_of": (None, 1),
    "suffix": (None, ""),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "modalities": (None, ["text"]),
    "parallel_tool_calls": (None, True, False),
    "audio": (None,),
    "prediction": (None,),
    "reasoning_effort": (None,),
    "service_tier": (None, "auto", "default"),
    "store": (None, False),
    "metadata": (None, {}),
    "verbosity": (None,),
    "web_search_options": (None,),
}


class BadRequest(Exception):
    """A request that is refused: status, sentence, and the field at fault."""

    def __init__(self, sentence: str, field: str | None = None, status: int = 400, code: str | None = None):
        super().__init__(sentence)
        self.sentence, self.field, self.status, self.code = sentence, field, status, code


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class StreamOptions(_Body):
    include_usage: bool = False


class _Common(_Body):
    """Fields of both kinds of completion."""

    model: StrictStr | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: StrictInt | None = None
    min_p: Number | None = None
    seed: StrictInt | None = None
    stop: StrictStr | list[StrictStr] | None = None
    n: StrictInt | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    repetition_penalty: Number | None = None
    logit_bias: dict[StrictStr, Number] | None = None
    user: StrictStr | None = None  # only a name; nothing depends on it


class CompletionBody(_Common):
    """POST /v1/completions."""

    prompt: StrictStr | list[StrictInt] | list[StrictStr] | list[list[StrictInt]]
    max_tokens: StrictInt | None = None
    logprobs: StrictInt | None = None
    echo: bool | None = None


class TextPart(_Body):
    type: Literal["text"]
    text: StrictStr


class Message(_Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: StrictStr | list[TextPart]
    name: StrictStr | None = None
    refusal: None = None  # answers have it, and clients send answers back

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class ChatBody(_Common):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: StrictInt | None = None
    max_completion_tokens: StrictInt | None = None
    logprobs: bool | None = None
    top_logprobs: StrictInt | None = None


class TokenizeBody(_Body):
    model: StrictStr | None = None
    prompt: StrictStr
    add_special_tokens: bool = True


class DetokenizeBody(_Body):
    model: StrictStr | None = None
    tokens: list[StrictInt]


def without_neutral(data: Any) -> Any:
    """`data` without fields that ask for nothing; a `BadRequest` names one that asks for something."""
    if not isinstance(data, dict):
        raise BadRequest("the body must be a JSON object")
    for name, allowed in NEUTRAL.items():
        if name in data:
            value = data[name]
            if not any(type(value) is type(one) and value == one for one in allowed):
                raise BadRequest(f"{name} is not supported by this server", name, code="unsupported_field")
            data = {key: other for key, other in data.items() if key != name}
    return data


def checked_text(text: str, field: str) -> str:
    """`text`; a `BadRequest` names `field` where it is no text that can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(f"{field} holds a lone surrogate, which is no character", field) from error
    return text


def _within(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise BadRequest(f"{name} is {value}; it must be in {low}..{high}", name)
    return value


def choice_count(body: _Common, settings: ServerSettings) -> int:
    return _within("n", 1 if body.n is None else body.n, 1, settings.max_n)


def stop_texts(body: _Common, settings: ServerSettings) -> tuple[str, ...]:
    """Of the request; an empty one is refused, because it would end every text at once."""
    stops = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    _within("stop", len(stops), 0, settings.max_stops)
    for stop in stops:
        if not checked_text(stop, "stop") or len(stop) > settings.max_stop_length:
            raise BadRequest(f"a stop text has 1 to {settings.max_stop_length} characters", "stop")
    return stops


def sampling_options(body: _Common) -> SamplingOptions:
    """How tokens are chosen; without a seed one is drawn."""
    seed = secrets.randbits(SEED_BITS) if body.seed is None else body.seed & ((1 << SEED_BITS) - 1)
    values: dict[str, Any] = {"temperature": 1.0, "seed": seed}
    for name in ("temperature", "top_p", "top_k", "min_p"):
        if (value := getattr(body, name)) is not None:
            values[name] = 0 if name == "top_k" and value == -1 else value
    return _checked(SamplingOptions, values, {})


def penalties(body: _Common, vocab: int) -> Penalties:
    """Penalties and bias of the request."""
    bias = {}
    for token, value in (body.logit_bias or {}).items():
        if not (token.isascii() and token.isdecimal()) or int(token) >= vocab:
            raise BadRequest(f"logit_bias: {token!r} is no token id of this model", "logit_bias")
        bias[int(token)] = value
    values: dict[str, Any] = {"bias": bias} if bias else {}
    for name, field in _PENALTY_FIELDS.items():
        if (value := getattr(body, field)) is not None:
            values[name] = value
    return _checked(Penalties, values, _PENALTY_FIELDS | {"bias": "logit_bias"}) if values else NO_PENALTIES


def _checked(kind: type[_Values], values: dict[str, Any], fields: dict[str, str]) -> _Values:
    """`kind(**values)`; a `BadRequest` names the field of the request that is at fault."""
    try:
        return kind(**values)
    except UserError:
        for name, value in values.items():
            try:
                kind(**{name: value})
            except UserError as error:
                raise BadRequest(str(error), fields.get(name, name)) from error
        raise


def completion_wishes(
    body: CompletionBody, encode: Callable[[str], list[int]], vocab: int, settings: ServerSettings
) -> list[Wish]:
    """One wish per choice: every prompt `n` times, with the seeds that follow the request's."""
    prompts = _prompts(body, encode)
    logprobs = body.logprobs
    if logprobs is not None:
        _within("logprobs", logprobs, 0, MAX_ALTERNATIVES)
    count = _within("max_tokens", 16 if body.max_tokens is None else body.max_tokens, 0, settings.max_tokens)
    if count == 0 and not body.echo:
        raise BadRequest("max_tokens is 0 and echo is off, so there is nothing to answer", "max_tokens")
    return _wishes(body, prompts, "prompt", count, logprobs, bool(body.echo), vocab, settings)


def chat_wishes(
    body: ChatBody, prompt: list[int], vocab: int, default_tokens: int, settings: ServerSettings
) -> list[Wish]:
    """One wish per choice of a chat whose messages are already the tokens `prompt`."""
    field = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    given = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    count = _within(field, default_tokens if given is None else given, 1, settings.max_tokens)
    logprobs = None
    if body.logprobs:
        logprobs = _within("top_logprobs", body.top_logprobs or 0, 0, MAX_ALTERNATIVES)
    elif body.top_logprobs is not None:
        raise BadRequest("top_logprobs needs logprobs: true", "top_logprobs")
    return _wishes(body, [prompt], "messages", count, logprobs, False, vocab, settings)


def _prompts(body: CompletionBody, encode: Callable[[str], list[int]]) -> list[list[int]]:
    prompt = body.prompt
    if isinstance(prompt, str):
        return [encode(prompt)]
    if not prompt:
        raise BadRequest("prompt is an empty list", "prompt")
    if isinstance(prompt[0], int):
        return [list(prompt)]
    return [encode(one) if isinstance(one, str) else list(one) for one in prompt]


def _wishes(body, prompts, field, count, logprobs, echo, vocab, settings) -> list[Wish]:
    n = choice_count(body, settings)
    _within(field, len(prompts) * n, 1, settings.max_choices)
    for prompt in prompts:
        if not prompt:
            raise BadRequest(f"{field} is empty; give at least one character, or one token id", field)
        if len(prompt) > settings.max_prompt:
            raise BadRequest(
                f"{field} has {len(prompt)} tokens; this server takes at most {settings.max_prompt}", field
            )
        for token in (min(prompt), max(prompt)):
            if not 0 <= token < vocab:
                raise BadRequest(f"{field}: token {token} is outside the vocabulary 0..{vocab - 1}", field)
    sampling, changes, stops = sampling_options(body), penalties(body, vocab), stop_texts(body, settings)
    return [
        Wish(
            prompt=tuple(prompt),
            max_tokens=count,
            sampling=sampling.with_seed((sampling.seed + index) % (1 << SEED_BITS)),
            penalties=changes,
            stop=stops,
            logprobs=logprobs,
            echo=echo,
        )
        for prompt in prompts
        for index in range(n)
    ]
