"""Raw bytes on the port: slow clients and broken requests have their answers; others notice nothing."""

import contextlib
import json
import socket
import time
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.timeout(120)
BODY = b'{"prompt": "In the", "max_tokens": 2, "temperature": 0}'


def connect(server) -> socket.socket:
    address = urlsplit(server.address)
    return socket.create_connection((address.hostname, address.port), timeout=10)


def talk(server, data: bytes) -> bytes:
    """What the server answers to `data` before it closes, or before it has nothing more to say."""
    with connect(server) as line:
        parts = []
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # closed with bytes unread
            line.sendall(data)
            with contextlib.suppress(OSError):  # ENOTCONN: the server has already reset the connection
                line.shutdown(socket.SHUT_WR)
            while part := line.recv(65536):
                parts.append(part)
        return b"".join(parts)


def request(
    headers: bytes = b"", body: bytes = BODY, start: bytes = b"POST /v1/completions HTTP/1.1"
) -> bytes:
    return start + b"\r\nHost: x\r\nContent-Length: %d\r\n" % len(body) + headers + b"\r\n" + body


def alive(server) -> None:
    assert server.client.get("/health").status_code == 200
    assert server.post("/v1/completions", prompt="In the", max_tokens=2).status_code == 200


BROKEN = {
    "no request": b"\r\n\r\n",
    "noise": bytes(range(256)) * 8,
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no version": b"GET /\r\n\r\n",
    "a bad length": request(start=b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5"),
    "two lengths": request(b"Content-Length: 3\r\n"),
    "a header without colon": b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
    "a huge header": b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    "smuggling": request(b"Transfer-Encoding: chunked\r\n"),
    "bad chunks": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a null in the path": b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_requests_get_an_error_and_an_end(server, what):
    answer = talk(server, BROKEN[what])
    assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505 ")), answer[:200]
    assert b"Traceback" not in answer and b"site-packages" not in answer
    alive(server)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    ),
    st.sampled_from(
        [
            "prompt",
            "max_tokens",
            "temperature",
            "stop",
            "n",
            "logprobs",
            "logit_bias",
            "stream",
            "seed",
            "echo",
        ]
    ),
    st.sampled_from(["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"]),
)
def test_any_value_in_any_field_has_its_answer(server, value, field, path):
    start = {"prompt": "In the"} if path != "/v1/chat/completions" else {
        "messages": [{"role": "user", "content": "a"}]
    }  # fmt: skip
    text = json.dumps(start | {"max_tokens": 2} | {field: value})
    answer = server.client.post(path, content=text.encode("utf-8", "surrogatepass"))
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 400:
        assert answer.json()["error"]["message"]


def test_slow_clients_are_cut_off_and_disturb_nobody(serve):
    with serve("cpu:1", header_timeout=1.0, body_timeout=1.0) as server:
        silent, slow = connect(server), connect(server)
        slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        alive(server)
        silent.settimeout(9)  # the limit unless settings change it is 10 s
        assert silent.recv(100) == b""
        answer = slow.recv(1000)
        assert b" 408 " in answer.split(b"\r\n")[0]
        for line in (silent, slow):
            line.close()


def test_connections_are_limited(serve):
    with serve("cpu:1", max_connections=8) as server:
        alive(server)
        lines = [connect(server) for _ in range(12)]
        for line in lines:
            line.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert any(b" 503 " in line.recv(200) for line in lines)
        for line in lines:
            line.close()
        until = time.monotonic() + 20  # until the server has seen the ends
        while server.client.get("/health").status_code == 503:
            assert time.monotonic() < until, "connections that have ended still count"
            time.sleep(0.05)
        alive(server)


def test_a_stream_left_while_it_waits_leaves_the_queue(serve):
    """The client goes before the first event: nobody has to find out by writing to it."""
    body = b'{"prompt": "In the", "max_tokens": 60000, "stream": true, "logprobs": 0}'
    with serve("cpu:1", max_running=1) as server:
        scheduler = server.service.scheduler

        def reached(waiting: int) -> None:
            until = time.monotonic() + 20
            while (scheduler.running, scheduler.waiting) != (1, waiting):
                assert time.monotonic() < until, (scheduler.running, scheduler.waiting)
                time.sleep(0.01)

        with connect(server) as running:
            running.sendall(request(body=body))
            reached(0)
            with connect(server) as waiting:
                waiting.sendall(request(body=body))
                reached(1)
            reached(0)
