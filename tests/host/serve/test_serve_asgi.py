"""host.serve.asgi: the application called without a network, as a Ray replica calls it."""

import asyncio
import json
import time

import pytest

from symlight.host.serve.app import create_app
from symlight.host.serve.asgi import Start, call_app

pytestmark = pytest.mark.timeout(60)
BODY = {"prompt": "In the beginning", "max_tokens": 12, "seed": 6}


def call(app, **body) -> tuple[Start, list[bytes]]:
    async def all_parts():
        content = json.dumps(BODY | body).encode()
        return [part async for part in call_app(app, "POST", "/v1/completions", [], content)]

    start, *parts = asyncio.run(all_parts())
    return start, parts


def test_answers_are_those_over_http(server):
    app = create_app(server.service)
    start, parts = call(app)
    expected = server.post("/v1/completions", **BODY).json()["choices"]
    assert start.status == 200 and json.loads(b"".join(parts))["choices"] == expected
    start, parts = call(app, stream=True)
    events = b"".join(parts).decode().split("\n\n")
    texts = [json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events[:-2]]
    assert "".join(texts) == expected[0]["text"] and len(texts) >= 12
    start, parts = call(app, max_tokens=-1)
    assert start.status == 400


def test_leaving_early_frees_the_device(server):
    async def leave():
        content = json.dumps(BODY | {"max_tokens": 50_000, "stream": True, "temperature": 0}).encode()
        parts = call_app(create_app(server.service), "POST", "/v1/completions", [], content)
        await anext(parts)
        await anext(parts)
        await parts.aclose()

    asyncio.run(leave())
    until = time.monotonic() + 10
    while server.service.scheduler.running:
        assert time.monotonic() < until, "the job goes on"
        time.sleep(0.01)
