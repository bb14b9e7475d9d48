"""Load on a server: many clients with mixed requests, what came of them, and how long it took.

Every client sends one request after the other until the time is over. A share of the clients' requests is
left in the middle of a stream, a share is malformed; every other answer is compared with the text that the
reference gives alone.
"""

import asyncio
import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import httpx
import numpy as np

from symlight.base.errors import UserError
from symlight.model.sampling import SamplingOptions

from ..library.model import Model

PROMPTS = (
    "In the beginning",
    "And the king said unto",
    "The people of the land",
    "Now it came to pass in those days that",
    "He answered and said unto them, Go ye into the city, and",
    "Then",
)
MALFORMED = (
    b"{",
    b'{"prompt": "\xff"}',
    b'{"prompt": "a", "max_tokens": -1}',
    b'{"prompt": []}',
    b'{"prompt": "a", "nonsense": 1}',
    b'{"prompt": "a", "temperature": "hot"}',
)
TIMEOUT_SECONDS = 120.0
MEMORY, PROCESSOR = "process_resident_memory_bytes", "process_cpu_seconds_total"  # metrics of the server
SAMPLES = 40  # of these in a load
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Ask:
    """A request with its answer. `text` is None where nobody worked it out."""

    prompt: str
    max_tokens: int
    temperature: float
    seed: int
    text: str | None = None

    def body(self, stream: bool) -> dict:
        return {
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "stream": stream,
        }


def mixed_asks(count: int, seed: int, longest: int, model: Model | None) -> list[Ask]:
    """Different requests of mixed lengths, with the texts that `model` gives alone."""
    rng = random.Random(seed)
    asks = []
    for number in range(count):
        prompt = " ".join(rng.choice(PROMPTS) for _ in range(rng.choice((1, 1, 2, 5))))
        temperature = rng.choice((0.0, 0.7, 1.0))
        asked = Ask(prompt, rng.randint(1, longest), temperature, number)
        text = None
        if model is not None:
            sampling = SamplingOptions(temperature=temperature, seed=number)
            text = model.complete(prompt, max_new_tokens=asked.max_tokens, sampling=sampling).text
        asks.append(Ask(prompt, asked.max_tokens, temperature, number, text))
    return asks


@dataclass
class Tally:
    """What came of the requests. Times in seconds."""

    answered: int = 0
    compared: int = 0  # of these, with the text that the reference gives
    left: int = 0  # streams that the client ended
    refused: int = 0  # malformed requests with their error answer
    wrong: list[str] = field(default_factory=list)  # answers that are not the expected text
    failed: list[str] = field(default_factory=list)  # requests without a proper answer
    busy: int = 0  # answers 429, which were sent again
    tokens: int = 0
    first: list[float] = field(default_factory=list)
    between: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # bytes that the server holds, over the time
    server: list[float] = field(default_factory=list)  # processor time of the server so far, over the time
    processor: float = 0.0  # processor time of the clients
    ended_by: int | None = None  # signal that ended the load before its time


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """Milliseconds: p50, p90, p99, max."""
    if not values:
        return None
    found = 1000 * np.percentile(values, [50, 90, 99, 100])
    return {
        name: round(float(value), 2) for name, value in zip(("p50", "p90", "p99", "max"), found, strict=True)
    }


@dataclass(frozen=True, kw_only=True)
class Load:
    """How a server is loaded. `leave`, `malformed`: shares of the requests."""

    url: str
    clients: int
    seconds: float
    leave: float = 0.0
    malformed: float = 0.0
    seed: int = 1
    key: str | None = None


async def run_load(load: Load, asks: Sequence[Ask]) -> tuple[Tally, float]:
    """(what came of it, seconds it took). A signal that asks the process to end ends the load only."""
    tally = Tally()
    headers = {"Authorization": f"Bearer {load.key}"} if load.key else {}
    limits = httpx.Limits(max_connections=load.clients + 1, max_keepalive_connections=load.clients + 1)
    async with httpx.AsyncClient(
        base_url=load.url, headers=headers, timeout=TIMEOUT_SECONDS, limits=limits
    ) as client:
        try:
            (await client.get("/health")).raise_for_status()
        except httpx.HTTPError as error:
            raise UserError(
                f"no server answers at {load.url} ({error}); start one: symlight serve"
            ) from error
        await _read_metrics(client, tally)
        began, processor = time.monotonic(), time.process_time()
        until = began + load.seconds
        watched = asyncio.ensure_future(_watch_metrics(client, load.seconds / SAMPLES, tally))
        clients = asyncio.gather(
            *(_client(client, load, asks, tally, random.Random(f"{load.seed} {n}"), until)
              for n in range(load.clients))
        )  # fmt: skip

        def end(number: int) -> None:
            tally.ended_by = number
            clients.cancel()

        with _signals(end):
            try:
                await clients
            except asyncio.CancelledError:
                if tally.ended_by is None:
                    raise
            finally:
                watched.cancel()
        took, tally.processor = time.monotonic() - began, time.process_time() - processor
        await _read_metrics(client, tally)
    return tally, took


@contextmanager
def _signals(end: Callable[[int], None]) -> Iterator[None]:
    """Inside, the first signal that asks the process to end calls `end`; a second one does what it did."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in ENDING}

    def restore() -> None:
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):
                with suppress(ValueError, RuntimeError):
                    loop.remove_signal_handler(number)
                    signal.signal(number, handler)

    def on_signal(number: int) -> None:
        restore()
        end(number)

    for number, handler in before.items():
        if handler not in (signal.SIG_IGN, None):  # ignored signals (nohup) stay ignored
            with suppress(ValueError, RuntimeError):  # not the main thread: signals are somebody else's
                loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        restore()


async def _watch_metrics(client, pause: float, tally: Tally) -> None:
    while True:
        await asyncio.sleep(pause)
        await _read_metrics(client, tally)


async def _read_metrics(client, tally: Tally) -> None:
    """Ask the server for its memory and time; one that does not say has none in the result."""
    with suppress(httpx.HTTPError, ValueError):
        lines = (await client.get("/metrics")).text.splitlines()
        for name, samples in ((MEMORY, tally.memory), (PROCESSOR, tally.server)):
            samples += [float(line.split()[1]) for line in lines if line.startswith(f"{name} ")]


async def _client(client, load: Load, asks, tally: Tally, rng: random.Random, until: float) -> None:
    while time.monotonic() < until:
        draw = rng.random()
        try:
            if draw < load.malformed:
                await _malformed(client, rng.choice(MALFORMED), tally)
            elif draw < load.malformed + load.leave:
                await _left(client, rng.choice(asks), rng.randint(1, 4), tally)
            else:
                await _asked(client, rng.choice(asks), rng.random() < 0.5, tally)
        except (httpx.HTTPError, ValueError, KeyError) as error:
            tally.failed.append(f"{type(error).__name__}: {error}")


async def _malformed(client, body: bytes, tally: Tally) -> None:
    answer = await client.post("/v1/completions", content=body)
    if answer.status_code == 400 and answer.json()["error"]["message"]:
        tally.refused += 1
    else:
        tally.failed.append(f"a malformed request was answered with {answer.status_code}")


async def _left(client, ask: Ask, events: int, tally: Tally) -> None:
    async with client.stream("POST", "/v1/completions", json=ask.body(True)) as answer:
        if answer.status_code == 429:
            tally.busy += 1
            return
        async for _ in answer.aiter_lines():
            events -= 1
            if not events:
                break
    tally.left += 1


async def _asked(client, ask: Ask, stream: bool, tally: Tally) -> None:
    began = time.monotonic()
    text = ""
    async with client.stream("POST", "/v1/completions", json=ask.body(stream)) as answer:
        if answer.status_code == 429:
            tally.busy += 1
            await asyncio.sleep(float(answer.headers["Retry-After"]))
            return
        if answer.status_code != 200:
            tally.failed.append(f"status {answer.status_code}: {(await answer.aread())[:200]!r}")
            return
        if stream:
            text = await _streamed(answer, began, tally)
        else:
            text = json.loads(await answer.aread())["choices"][0]["text"]
    tally.whole.append(time.monotonic() - began)
    tally.answered += 1
    tally.tokens += ask.max_tokens
    tally.compared += ask.text is not None
    if ask.text is not None and text != ask.text:
        tally.wrong.append(f"{ask.prompt!r}, seed {ask.seed}: {text!r} instead of {ask.text!r}")


async def _streamed(answer, began: float, tally: Tally) -> str:
    text, first, count = "", None, 0
    async for line in answer.aiter_lines():
        if line.startswith("data: {"):
            text += json.loads(line[6:])["choices"][0]["text"]
            first = first or time.monotonic()
            count += 1
    if first is not None:
        tally.first.append(first - began)
        if count > 1:
            tally.between.append((time.monotonic() - first) / (count - 1))
    return text


def load_json(load: Load, tally: Tally, seconds: float) -> dict:
    """The result of one load."""
    return {
        "clients": load.clients,
        "seconds": round(seconds, 2),
        "requests_per_second": round(tally.answered / seconds, 2),
        "tokens_per_second_at_most": round(tally.tokens / seconds, 1),
        "ended_by": None if tally.ended_by is None else signal.Signals(tally.ended_by).name,
        "answered": tally.answered,
        "compared": tally.compared,
        "left": tally.left,
        "refused": tally.refused,
        "busy": tally.busy,
        "wrong": len(tally.wrong),
        "failed": len(tally.failed),
        "time_to_first_token_ms": percentiles(tally.first),
        "time_between_events_ms": percentiles(tally.between),
        "request_ms": percentiles(tally.whole),
        "server_memory_mb": _memory(tally.memory),
        "processors_used": _processors(tally, seconds),
    }


def _processors(tally: Tally, seconds: float) -> dict[str, float] | None:
    """How many processors the server and the clients had at work: processor time over time."""
    if len(tally.server) < 2:
        return None
    server = (tally.server[-1] - tally.server[0]) / seconds
    return {"server": round(server, 3), "clients": round(tally.processor / seconds, 3)}


def _memory(samples: Sequence[float]) -> dict[str, float] | None:
    """Megabytes: means of the four quarters of the time, the largest, and the last sample."""
    if len(samples) < 4:
        return None
    megabytes = np.array(samples) / 1e6
    quarters = [round(float(part.mean()), 1) for part in np.array_split(megabytes, 4)]
    return {"quarters": quarters, "max": round(megabytes.max(), 1), "last": round(megabytes[-1], 1)}
