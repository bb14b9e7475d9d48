"""`symlight serve` as a process: its end by a signal, by kill -9, and what is refused before it serves."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from symlight.host.device.packages import open_package

pytestmark = pytest.mark.timeout(120)
# A stream that no machine finishes at once: the token that ends a text is never chosen, and the events of
# so many tokens do not fit in the buffers between server and client.
ENDLESS = {
    "prompt": "a", "max_tokens": 60_000, "temperature": 0, "stream": True,
    "logit_bias": {str(open_package("demo").meta.eos): -100},
}  # fmt: skip
DONE = "data: [DONE]"


class Process:
    """The command in a process of its own."""

    def __init__(self, *arguments: str):
        command = [sys.executable, "-m", "symlight.host.cli", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.match(r"(http://\S+) serves", line)
        assert found, line + self.process.stderr.read()
        self.client = httpx.Client(base_url=found[1], timeout=30)

    def complete(self, **values) -> httpx.Response:
        return self.client.post("/v1/completions", json={"prompt": "In the", "max_tokens": 4} | values)


@pytest.fixture
def process():
    made = []

    def make(*arguments: str) -> Process:
        for _ in range(50):
            try:
                made.append(Process("--device", "cpu:1", *arguments))
                return made[-1]
            except httpx.ConnectError:
                time.sleep(0.1)
        raise AssertionError("the server does not start")

    yield make
    for one in made:
        one.process.kill()
        one.process.wait()


def test_term_finishes_what_runs(process):
    server = process()
    with server.client.stream(
        "POST", "/v1/completions", json={"prompt": "In the", "max_tokens": 500, "stream": True}
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        assert list(lines)[-2:] == [DONE, ""]
    assert server.process.wait(20) in (0, -signal.SIGTERM)
    assert "Traceback" not in server.process.stderr.read()


def test_kill_leaves_nothing_that_hinders(process):
    first = process()
    expected = first.complete(temperature=0).json()["choices"][0]["text"]
    seen = []
    # Whether the client sees an error depends on how the connection was reset; it never sees a proper end.
    with contextlib.suppress(httpx.HTTPError):
        with first.client.stream("POST", "/v1/completions", json=ENDLESS) as answer:
            for line in answer.iter_lines():
                if not seen:
                    os.kill(first.process.pid, signal.SIGKILL)
                    first.process.wait(10)
                seen.append(line)
    assert first.process.returncode == -signal.SIGKILL
    assert seen and DONE not in seen
    began = time.monotonic()
    second = process()
    assert second.complete(temperature=0).json()["choices"][0]["text"] == expected
    assert time.monotonic() - began < 30


def refused(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "symlight.host.cli", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr and not done.stdout
    return done.stderr


def test_what_is_refused_at_once(tmp_path):
    assert "api-key-file" in refused("--host", "0.0.0.0")
    assert "cannot be read" in refused("--api-key-file", str(tmp_path / "none"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "cannot listen" in refused("--port", port)
    assert "no device" in refused("--device", "toaster", "--port", "0")
