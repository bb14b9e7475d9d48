"""The server as a Ray Serve application: one replica per device behind a front that retries.

    build(model="demo", device="cpu", replicas=2)   ->   an application for `serve.run`

The replicas run the same application object as `symlight serve`. The front keeps a conversation on its
replica, whose device holds its state. When a replica is lost, the front sends the request to another one.
A seed gives one text on every replica, so a stream goes on where it was broken off.
"""

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from typing import cast

from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from ..device.opening import DeviceOptions
from ..device.packages import open_package
from .answers import error_json
from .app import create_app
from .asgi import Start, call_app
from .service import Service
from .settings import ServerSettings

TRIES = 6
PAUSE_SECONDS = 0.5
SEED_BITS = 53  # a drawn seed that every JSON reader keeps exact
CONVERSATIONS = 256  # that a replica is asked for by name
EVENT_END = b"\n\n"  # of a stream
CONVERSATION = "x-conversation"  # header that names a conversation


@serve.deployment
class DeviceReplica:
    """One device with its scheduler.

    Parameters
    ----------
    model : str
        Package, as on the command line.
    device : str
    options, settings : dict
        Further fields of `DeviceOptions` and of `ServerSettings`.
    """

    def __init__(self, model: str, device: str, options: dict, settings: dict):
        self._service = Service(
            open_package(model), DeviceOptions(device=device, **options), ServerSettings(**settings)
        )
        self._app = create_app(self._service)

    @serve.multiplexed(max_num_models_per_replica=CONVERSATIONS)
    async def conversation(self, name: str) -> str:
        """Makes the name known, so that its requests come here."""
        return name

    async def handle(
        self, method: str, path: str, headers: list, body: bytes
    ) -> AsyncIterator[Start | bytes]:
        """The application's answer: its start, then its body as it comes."""
        if name := serve.get_multiplexed_model_id():
            await self.conversation(name)
        async for part in call_app(self._app, method, path, headers, body):
            yield part

    def check_health(self) -> None:
        """Ray replaces a replica whose scheduler has died."""
        if not self._service.scheduler.alive:
            raise RuntimeError("the scheduler has ended")


@serve.deployment
class Front:
    """Takes requests and sends each to a replica; retries on another one when a replica is lost."""

    def __init__(self, replicas):
        self._replicas = replicas

    async def __call__(self, request: Request) -> Response:
        body = await request.body()
        ask = _Ask(request, body)
        parts = ask.answer(self._replicas)
        try:
            start = await anext(parts)
        except (RayError, RayServeException) as error:
            sentence = f"no replica answers ({type(error).__name__}); try again later"
            return JSONResponse(error_json(sentence, kind="server_error"), 503, {"Retry-After": "1"})
        assert isinstance(start, Start), "an answer begins with its status"
        headers = {name.decode(): value.decode() for name, value in start.headers}
        headers.pop("content-length", None)
        content = cast(AsyncIterator[bytes], parts)  # all that follows the start
        return StreamingResponse(content, start.status, headers)


class _Ask:
    """One request, which can be sent more than once."""

    def __init__(self, request: Request, body: bytes):
        self._method, self._path = request.method, request.url.path
        self._headers, self._body = request.headers.raw, body
        self._stream, self._single, name = False, True, ""
        try:
            data = json.loads(body)
        except ValueError:
            data = None
        if isinstance(data, dict) and self._path.startswith("/v1/"):
            self._stream, self._single = data.get("stream") is True, data.get("n") in (None, 1)
            if data.get("seed") is None:
                self._body = json.dumps(data | {"seed": secrets.randbits(SEED_BITS)}).encode()
            name = _conversation(request, data)
        self._name = name

    async def answer(self, replicas) -> AsyncIterator[Start | bytes]:
        handle = replicas.options(stream=True, multiplexed_model_id=self._name)
        started, given = False, 0
        for attempt in range(TRIES):
            seen = 0
            try:
                async for part in handle.handle.remote(self._method, self._path, self._headers, self._body):
                    if isinstance(part, Start):
                        if not started:
                            started = True
                            yield part
                        continue
                    pieces = _events(part) if self._stream else [part]
                    fresh = pieces[max(0, given - seen) :]  # the others have gone out before
                    seen += len(pieces)
                    given = max(given, seen)
                    if fresh:
                        yield b"".join(fresh)
                return
            except (RayError, RayServeException):
                if attempt == TRIES - 1 or (started and not self._repeatable):
                    raise
                await asyncio.sleep(PAUSE_SECONDS * (attempt + 1))

    @property
    def _repeatable(self) -> bool:
        """A second answer has the same events: one per token of one text."""
        return self._stream and self._single


def _events(part: bytes) -> list[bytes]:
    """The events in a part of a stream; what is no event (the body of a refusal) is one piece."""
    *whole, rest = part.split(EVENT_END)
    return [one + EVENT_END for one in whole] + ([rest] if rest else [])


def _conversation(request: Request, data: dict) -> str:
    """What keeps requests of one conversation together: the header, or the beginning of the text."""
    named: str | None = request.headers.get(CONVERSATION)
    if named:
        return named[:128]
    first = data.get("messages") or data.get("prompt") or ""
    first = first[0] if isinstance(first, list) and first else first
    return hashlib.sha256(json.dumps(first, sort_keys=True)[:64].encode()).hexdigest()[:16]


def build(
    *, model: str = "demo", device: str = "cpu:1", replicas: int = 1, most_replicas: int | None = None,
    resource: str | None = None, cpus: float = 1.0, options: dict | None = None, settings: dict | None = None,
) -> serve.Application:  # fmt: skip
    """The application.

    Parameters
    ----------
    model, device : str
        As on the command line; every replica opens its own device.
    replicas, most_replicas : int
        Replicas; with `most_replicas` Ray starts and ends them as requests come and go.
    resource : str | None
        Name of a custom resource of which every replica takes one: the number of devices of a machine.
    cpus : float
        Processors that a replica takes.
    options, settings : dict
        Further fields of `DeviceOptions` and of `ServerSettings`.
    """
    settings = dict(settings or {})
    running = settings.setdefault("max_running", 32)
    actor = {"num_cpus": cpus} | ({"resources": {resource: 1}} if resource else {})
    scale: dict = {"num_replicas": replicas}
    if most_replicas is not None:
        scale = {"autoscaling_config": {
            "min_replicas": replicas, "max_replicas": most_replicas, "target_ongoing_requests": running / 2,
        }}  # fmt: skip
    device_replica = DeviceReplica.options(  # type: ignore[attr-defined]  # Ray's Deployment
        ray_actor_options=actor, max_ongoing_requests=running, health_check_period_s=2, **scale
    )
    front = Front.options(  # type: ignore[attr-defined]  # Ray's Deployment
        max_ongoing_requests=1024, ray_actor_options={"num_cpus": 0}
    )
    return front.bind(device_replica.bind(model, device, options or {}, settings))
