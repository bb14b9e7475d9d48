"""The application: paths, authorisation, errors as JSON (docs/serving.md)."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .answers import DONE, Answer, error_json, event
from .guard import Guard, bearer_key
from .job import Finish, Piece, Wish
from .requests import (
    BadRequest,
    ChatBody,
    CompletionBody,
    DetokenizeBody,
    TokenizeBody,
    chat_wishes,
    completion_wishes,
    without_neutral,
)
from .scheduler import Draining, QueueFull
from .service import Service, Sink
from .settings import client_name
from .streams import EventStream, Watch

CHAT_TOKENS = 256  # of an answer, unless the request says how many
RETRY_AFTER_SECONDS = 1
_log = logging.getLogger("symlight.serve")
_Body = TypeVar("_Body", bound=BaseModel)
_Events = AsyncIterator[list[tuple[int, Piece | Finish]]]  # as Sink.events gives them


def create_app(service: Service) -> Starlette:
    """The ASGI application of a service."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    routes = _Routes(service)
    paths = (
        ("GET", "/", routes.page),
        ("GET", "/health", routes.health),
        ("GET", "/ready", routes.ready),
        ("GET", "/metrics", routes.metrics),
        ("GET", "/v1/models", routes.models),
        ("GET", "/v1/status", routes.status),
        ("GET", "/tokenizer_info", routes.tokenizer_info),
        ("POST", "/tokenize", routes.tokenize),
        ("POST", "/detokenize", routes.detokenize),
        ("POST", "/v1/completions", routes.completions),
        ("POST", "/v1/chat/completions", routes.chat),
    )
    return Starlette(
        routes=[Route(path, handler, methods=[method]) for method, path, handler in paths],
        middleware=[Middleware(Guard, service=service, paths=frozenset(path for _, path, _ in paths))],
        exception_handlers={
            BadRequest: _bad_request,
            HTTPException: _http_error,
            Exception: _internal_error,
        },
        lifespan=lifespan,
    )


class _Routes:
    def __init__(self, service: Service):
        self._service = service
        self._settings = service.settings

    # ---- small paths ----

    async def page(self, _: Request) -> Response:
        return HTMLResponse(
            files("symlight.host.serve").joinpath("page.html").read_text(encoding="utf-8"),
            headers={"Content-Security-Policy": "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'"},
        )

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        ready = self._service.scheduler.alive
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def metrics(self, _: Request) -> Response:
        return PlainTextResponse(
            self._service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    async def status(self, _: Request) -> Response:
        """What the built-in page shows."""
        service = self._service
        return JSONResponse(
            {"model": service.name, "device": service.device, "metrics": service.metrics.summary()}
        )

    async def models(self, _: Request) -> Response:
        meta = self._service.package.meta
        one = {"id": self._service.name, "object": "model", "created": 0, "owned_by": "symlight"}
        about = {"digest": self._service.package.digest, "synthetic": meta.synthetic}
        return JSONResponse({"object": "list", "data": [one | about]})

    async def tokenizer_info(self, _: Request) -> Response:
        tokenizer = self._service.package.tokenizer
        names = {
            f"{name}_token": None if token is None else self._service.spell(token)
            for name, token in tokenizer.special().items()
        }
        package = self._service.package
        about = {"chat_template": package.meta.chat_template, "vocab_size": package.shape.vocab}
        return JSONResponse(names | about)

    async def tokenize(self, request: Request) -> Response:
        body = await self._body(request, TokenizeBody)
        tokens = self._service.encode(body.prompt, special=body.add_special_tokens)
        most = self._settings.max_prompt
        return JSONResponse({"tokens": tokens, "count": len(tokens), "max_model_len": most})

    async def detokenize(self, request: Request) -> Response:
        body = await self._body(request, DetokenizeBody)
        vocab = self._service.package.shape.vocab
        for token in body.tokens:
            if not 0 <= token < vocab:
                raise BadRequest(f"token {token} is outside the vocabulary 0..{vocab - 1}", "tokens")
        return JSONResponse({"prompt": self._service.package.tokenizer.decode(body.tokens)})

    # ---- completions ----

    async def completions(self, request: Request) -> Response:
        body = await self._body(request, CompletionBody)
        vocab = self._service.package.shape.vocab
        wishes = completion_wishes(body, self._service.encode, vocab, self._settings)
        return await self._answer(request, body, wishes, chat=False)

    async def chat(self, request: Request) -> Response:
        body = await self._body(request, ChatBody)
        prompt = self._service.encode(self._service.chat_text(body.messages), "messages")
        vocab = self._service.package.shape.vocab
        wishes = chat_wishes(body, prompt, vocab, CHAT_TOKENS, self._settings)
        return await self._answer(request, body, wishes, chat=True)

    async def _answer(self, request: Request, body, wishes: list[Wish], *, chat: bool) -> Response:
        if body.stream_options is not None and not body.stream:
            raise BadRequest("stream_options needs stream: true", "stream_options")
        if self._settings.log_prompts:
            _log.info("prompt %r", wishes[0].prompt)
        service, settings = self._service, self._settings
        sink = Sink(live=bool(body.stream))
        client = client_name(
            bearer_key(request.headers.get("authorization")),
            request.client.host if request.client else "",
            settings.keys,
        )
        deadline = time.monotonic() + settings.request_timeout
        jobs = service.jobs(wishes, sink, client, deadline)
        try:
            service.scheduler.submit(*jobs)
        except QueueFull:
            raise BadRequest(
                "too many requests wait; try again later", status=429, code="queue_full"
            ) from None
        except Draining:
            raise BadRequest("the server is shutting down", status=503) from None
        answer = Answer(chat, service.name, wishes, service.spell)
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            return await self._streamed(Watch(request.receive, jobs), sink.events(jobs), answer, usage)
        return await self._whole(Watch(request.receive, jobs), sink.events(jobs), answer)

    async def _whole(self, watch: Watch, sent: _Events, answer: Answer) -> Response:
        failed = None
        try:
            async for events in sent:
                for index, what in events:
                    if isinstance(what, Finish):
                        answer.choices[index].finish(what.reason)
                        failed = failed or (what if what.error else None)
                    else:
                        answer.choices[index].add(what)
        finally:
            watch.end()
        if failed is not None:
            raise BadRequest(failed.error or "the request failed", status=failed.status)
        return JSONResponse(answer.whole())

    async def _streamed(self, watch: Watch, sent: _Events, answer: Answer, usage: bool) -> Response:
        try:
            begun = await anext(sent)
            _, first = begun[0]
            if isinstance(first, Finish) and first.error:  # before any text: an error answer
                raise BadRequest(first.error, status=first.status)
        except BaseException:
            watch.end()
            raise

        async def lines() -> AsyncIterator[tuple[str, bool]]:
            yield "".join(answer.first_events()) + _lines(answer, begun) + rest(), not answer.complete
            async for more in sent:
                yield _lines(answer, more) + rest(), not answer.complete

        def rest() -> str:
            return (answer.usage_event() if usage else "") + DONE if answer.complete else ""

        return EventStream(lines(), watch)

    async def _body(self, request: Request, kind: type[_Body]) -> _Body:
        data = await _json(request, self._settings.max_body, self._settings.body_timeout)
        name = data.get("model") if isinstance(data, dict) else None
        try:
            body: _Body = kind.model_validate(without_neutral(data))
        except ValidationError as error:
            raise _named(error) from error
        if name not in (None, self._service.name):
            raise BadRequest(
                f"the model {name!r} does not exist; this server has {self._service.name!r}",
                "model",
                404,
                "model_not_found",
            )
        return body


def _lines(answer: Answer, events: list[tuple[int, Piece | Finish]]) -> str:
    """The server-sent events of what has come: an event for each."""
    lines = []
    for index, what in events:
        if isinstance(what, Piece):
            answer.choices[index].add(what)
            lines.append(answer.piece_event(index, what))
            continue
        answer.choices[index].finish(what.reason)
        if what.error:
            lines.append(event(error_json(what.error, kind="server_error")))
        else:
            lines.append(answer.finish_event(index))
    return "".join(lines)


async def _json(request: Request, most: int, seconds: float) -> Any:
    """The body as JSON; a `BadRequest` where it is too long, too slow, or not JSON."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise BadRequest(f"the body has {declared} bytes; at most {most} are taken", status=413)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise BadRequest(f"the body has more than {most} bytes", status=413)
    except TimeoutError:
        raise BadRequest("the body did not arrive in time", status=408) from None
    except ClientDisconnect:
        raise BadRequest("the client has gone", status=499) from None
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8 text (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _named(error: ValidationError) -> BadRequest:
    """The first fault of a body, with the field's name."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in fault["loc"]) or None
    top = str(fault["loc"][0]) if fault["loc"] else None
    if fault["type"] == "extra_forbidden":
        return BadRequest(f"{field} is not a field that this server knows", top, code="unknown_field")
    return BadRequest(f"{field}: {fault['msg']}", top)


async def _bad_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if error.status in (429, 503) else None
    body = error_json(error.sentence, kind=kind, field=error.field, code=error.code)
    return JSONResponse(body, 400 if error.status == 499 else error.status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse(error_json(str(error.detail), kind="invalid_request_error"), error.status_code)


async def _internal_error(request: Request, error: Exception) -> Response:
    return JSONResponse(error_json("an internal error; the server's log has it", kind="server_error"), 500)
