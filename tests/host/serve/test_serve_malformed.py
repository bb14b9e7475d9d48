"""At least 200 malformed and hostile requests: each has its clear answer, and the server is right after
it."""

import json
import re
import socket

import pytest

import symlight
from tests.benches.host.hostile_requests import COMPLETIONS, GOOD, hostile_requests, post

from .test_serve_hostile import connect

pytestmark = pytest.mark.timeout(240)
LEAST = 200
SECRETS = ("Traceback", "site-packages", "/serve/", ".py", "root:")  # of the machine or of the program


@pytest.fixture(scope="module")
def expected():
    with symlight.open_model("demo", device="reference") as model:
        return model.complete("In the beginning", max_new_tokens=5).text


def exchange(server, data: bytes) -> bytes:
    """What the server answers to `data`, the first answer whole; nothing if it only ends the connection."""
    answer = b""
    with connect(server) as line:
        line.settimeout(30)
        try:
            line.sendall(data)
        except (ConnectionResetError, BrokenPipeError):
            pass  # it has heard enough: the answer is there
        try:
            while not complete(answer) and (part := line.recv(65536)):
                answer += part
        except ConnectionResetError:
            pass
    return answer


def complete(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = length_of(head)
    return bool(end) and length is not None and len(body) >= length


def length_of(head: bytes) -> int | None:
    """Bytes of a body, as the answer's head says."""
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return None if length is None else int(length[1])


def check(server, expected: str, answer: bytes, statuses, what: str) -> None:
    """The answer is clear and tells nothing; the next request of somebody else is answered rightly."""
    found = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
    assert found and int(found[1]) in statuses, (what, statuses, answer[:300])
    head, _, body = answer.partition(b"\r\n\r\n")
    body = body[: length_of(head)].decode()  # what follows answers the rest of the data
    assert body.strip() and not any(secret in body for secret in SECRETS), (what, body)
    if body.startswith("{"):
        assert json.loads(body)["error"]["message"], (what, body)
    good = server.post(COMPLETIONS, prompt="In the beginning", max_tokens=5, temperature=0)
    assert good.status_code == 200 and good.json()["choices"][0]["text"] == expected, what


def test_each_has_its_answer_and_the_server_stays_right(server, expected, capsys):
    cases = hostile_requests()
    assert len({data for _, data, _ in cases}) == len(cases) >= LEAST
    for what, data, statuses in cases:
        check(server, expected, exchange(server, data), statuses, what)
    with capsys.disabled():
        print(f"\n{len(cases)} distinct malformed or hostile requests, each answered; ", end="")
        print(f"{len(cases)} completions after them equal to the reference's")


CHUNKED = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
SLOW = {
    "nothing at all": b"",
    "half a method": b"PO",
    "half a line": b"POST /v1/compl",
    "a line without headers": b"POST /v1/completions HTTP/1.1\r\n",
    "half a header": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Le",
    "headers without an end": b"GET /health HTTP/1.1\r\nHost: x\r\n",
    "no body": post(COMPLETIONS, b"", length=100),
    "half a body": post(COMPLETIONS, GOOD[:10], length=100),
    "a body that lacks a byte": post(COMPLETIONS, GOOD, length=len(GOOD) + 1),
    "half a chunk": CHUNKED + b"5\r\nab",
    "a chunk without its line end": CHUNKED + b"5\r\nabcdef",
    "a chunk as large as a disk": CHUNKED + b"ffffffffffffffff\r\na",
    "no last chunk": CHUNKED + b"1\r\n{\r\n",
    "a body for tokens": post("/tokenize", b"{", length=10),
    "a body for a chat": post("/v1/chat/completions", b'{"messages": [', length=500),
}


def test_slow_clients_are_ended_one_by_one(serve, expected):
    with serve("cpu:1", header_timeout=1.0, body_timeout=1.0) as server:
        for what, data in SLOW.items():
            with connect(server) as line:
                line.settimeout(9)  # the limits unless settings change them are 10 s and 30 s
                line.sendall(data)
                answer = b""
                while not complete(answer) and (part := line.recv(65536)):
                    answer += part
            if b"\r\n\r\n" in data:  # the headers are there: an answer is possible
                check(server, expected, answer, (400, 408), what)
            else:
                assert answer == b"", (what, answer)
                check(server, expected, exchange(server, b"GET / X\r\n\r\n"), (400,), what)


def test_a_flood_of_broken_connections(server, expected):
    lines = []
    for number in range(100):
        line = socket.create_connection(connect_address(server), timeout=10)
        line.sendall(post(COMPLETIONS, GOOD)[: 1 + number])
        lines.append(line)
    for line in lines:
        line.close()
    good = server.post(COMPLETIONS, prompt="In the beginning", max_tokens=5, temperature=0)
    assert good.json()["choices"][0]["text"] == expected


def connect_address(server) -> tuple[str, int]:
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    return host, int(port)
