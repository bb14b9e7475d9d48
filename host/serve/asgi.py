"""Calling an ASGI application from Python, part by part."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.types import ASGIApp, Message


@dataclass(frozen=True)
class Start:
    """Status and headers of an answer."""

    status: int
    headers: list[tuple[bytes, bytes]]


async def call_app(
    app: ASGIApp, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes
) -> AsyncIterator[Start | bytes]:
    """The answer of `app`: its `Start`, then the parts of its body. Leaving the iterator ends the request."""
    parts: asyncio.Queue = asyncio.Queue()
    gone = asyncio.Event()
    given = False

    async def receive() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            parts.put_nowait(Start(message["status"], list(message["headers"])))
        elif message.get("body"):
            parts.put_nowait(message["body"])

    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "method": method, "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "headers": headers, "client": ("127.0.0.1", 0), "server": ("127.0.0.1", 0),
    }  # fmt: skip
    task = asyncio.ensure_future(app(scope, receive, send))
    task.add_done_callback(lambda _: parts.put_nowait(None))
    try:
        while (part := await parts.get()) is not None:
            yield part
        task.result()
    finally:
        gone.set()
        if not task.done():
            task.cancel()
