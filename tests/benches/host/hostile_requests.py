"""Malformed and hostile requests: (what it is, bytes on the wire, statuses that are a clear answer)."""

import json
from collections.abc import Iterator

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
GOOD = b'{"prompt": "In the", "max_tokens": 1, "temperature": 0}'
HUGE = 1 << 22  # bytes of the largest body

Case = tuple[str, bytes, tuple[int, ...]]


def post(path: str, body: bytes, headers: bytes = b"", length: int | None = None) -> bytes:
    """A request with a body."""
    count = len(body) if length is None else length
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % (path.encode(), count)
    return head + headers + b"\r\n" + body


def get(path: bytes, method: bytes = b"GET", headers: bytes = b"Host: x\r\n", version: bytes = b"HTTP/1.1"):
    return method + b" " + path + b" " + version + b"\r\n" + headers + b"\r\n"


def as_json(value: object) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def hostile_requests() -> list[Case]:
    """All of them, each different."""
    return [*_bodies(), *_texts(), *_fields(), *_huge(), *_headers(), *_lines(), *_paths()]


def _bodies() -> Iterator[Case]:
    bodies = (
        b"", b" ", b"{", b"}", b"[", b"[]", b"{}", b"7", b'"a"', b"null", b"true", b"NaN", b"'a'", b"{a: 1}",
        b'{"prompt"}', b'{"prompt": }', b'{"prompt": "a",}', b'{"prompt": "a"}}', b'{"prompt": "a"} {"x": 1}',
        b'{"prompt": "a" "n": 1}', b"prompt=a&max_tokens=2", b"<xml/>", b"{\"prompt\": \"a\"\x00}", b"\x00",
        b'{"prompt": "a", "max_tokens": 1.}', b'{"prompt": "a", "max_tokens": +1}',
        b'{"prompt": "a", "max_tokens": 0x1}', b'{"prompt": "a", "max_tokens": 01}',
        b'{"prompt": "a", "temperature": Infinity}', b'{"prompt": "a", "temperature": -Infinity}',
        b'{"prompt": "a", "temperature": NaN}', b'{"prompt": "a", "temperature": 1e999}',
        b'{"prompt": "\n"}', b'{"prompt": "\\x41"}', b'{"prompt": "\\u12"}', b"// comment\n{}",
        b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}",
    )  # fmt: skip
    for body in bodies:
        yield f"body {body[:40]!r}", post(COMPLETIONS, body), (400,)
    for path in (CHAT, "/tokenize", "/detokenize"):
        for body in (b"", b"{", b"[]", b"{}", b"null"):
            yield f"{path} {body!r}", post(path, body), (400,)


def _texts() -> Iterator[Case]:
    """What is no UTF-8, or no character."""
    broken = (
        b"\xff", b"\xfe\xff", b"\x80", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2(\xa1", b"\xf0\x9f\x98",
        b"\xf8\x88\x80\x80\x80", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xed\xbf\xbf",
        b"\xf4\x90\x80\x80", b"\xf0\x80\x80\xaf",
    )  # fmt: skip
    for text in broken:
        yield f"text {text!r}", post(COMPLETIONS, b'{"prompt": "a' + text + b'", "max_tokens": 1}'), (400,)
    for escape in (rb"\ud800", rb"\udfff", rb"\udc00\ud800", rb"a\ud83d"):
        yield f"surrogate {escape!r}", post(COMPLETIONS, b'{"prompt": "' + escape + b'"}'), (400,)
        body = b'{"messages": [{"role": "user", "content": "' + escape + b'"}]}'
        yield f"chat surrogate {escape!r}", post(CHAT, body), (400,)
    for name in ("utf-16", "utf-32", "utf-16-le"):
        yield f"body in {name}", post(COMPLETIONS, GOOD.decode().encode(name)), (400,)
    yield "a stop that is no character", post(COMPLETIONS, b'{"prompt": "a", "stop": "\\ud800"}'), (400,)


_WRONG = {
    "prompt": [None, 5, "", [], [[]], [1.5], [-1], [1024], [10**30], ["a", 5], [[1], "a"], {"a": 1}, [True],
               [None]],
    "max_tokens": [-1, 0, 10**9, 10**30, 1.5, "7", True, [], {}],
    "temperature": [-0.1, 1e9, "hot", [1], {}],
    "top_p": [0, -1, 1.5, "x"],
    "top_k": [-2, 65, 1.5, "x"],
    "min_p": [-1, 2, "x"],
    "n": [0, -1, 17, 10**9, "2", 1.5],
    "seed": [1.5, "x", []],
    "logprobs": [-1, 65, 10**9, True, "x"],
    "stop": ["", ["x"] * 17, "y" * 257, 5, [5], {}],
    "stream": ["yes", 1, []],
    "echo": ["yes", 1],
    "best_of": [3, -1],
    "suffix": ["x"],
    "frequency_penalty": [1e9, "x"],
    "presence_penalty": [-1e9, {}],
    "repetition_penalty": [0, -1, "x"],
    "logit_bias": [{"x": 1}, {"-1": 1}, {"99999": 1}, {"5": "much"}, [5], {"5": 1e9}, {"\u0665": 1}],
    "stream_options": [{"include_usage": True}, {"x": 1}, 5],
    "user": [5, []],
    "tools": [[{"type": "function"}], "x"],
    "response_format": [{"type": "json_object"}],
    "guided_json": [{}],
    "__proto__": [{}],
    "model\u0000": ["demo"],
}  # fmt: skip
_WRONG_MESSAGES = (
    None, [], {}, "a", [5], [{}], [{"role": "user"}], [{"content": "a"}], [{"role": "king", "content": "a"}],
    [{"role": "user", "content": 5}], [{"role": "user", "content": [{"type": "image_url"}]}],
    [{"role": "user", "content": "a", "x": 1}], [{"role": "tool", "content": "a"}],
)  # fmt: skip


def _fields() -> Iterator[Case]:
    for field, values in _WRONG.items():
        for value in values:
            body = {"prompt": "a", "max_tokens": 1} | {field: value}
            yield f"{field} {value!r:.40}", post(COMPLETIONS, as_json(body)), (400,)
    for messages in _WRONG_MESSAGES:
        yield f"messages {messages!r:.60}", post(CHAT, as_json({"messages": messages})), (400,)
    yield "another model", post(COMPLETIONS, as_json({"prompt": "a", "model": "../../etc/passwd"})), (404,)
    for tokens in ([-1], [1024], ["a"], "a", [1.5], [10**30], None):
        yield f"tokens {tokens!r}", post("/detokenize", as_json({"tokens": tokens})), (400,)
    for prompt in (5, None, ["a"], {"a": 1}):
        yield f"tokenize {prompt!r}", post("/tokenize", as_json({"prompt": prompt})), (400,)


def _huge() -> Iterator[Case]:
    yield "a body beyond the limit", post(COMPLETIONS, b"x" * (HUGE + 1)), (413,)
    yield "a declared body beyond the limit", post(COMPLETIONS, b"", length=10**15), (413,)
    yield "a deep list", post(COMPLETIONS, b"[" * 200_000), (400,)
    yield "a deep object", post(COMPLETIONS, b'{"a":' * 50_000), (400,)
    yield "a deep prompt", post(COMPLETIONS, b'{"prompt":' + b"[" * 500 + b"]" * 500 + b"}"), (400,)
    yield "many ids", post(COMPLETIONS, as_json({"prompt": [1] * 70_000})), (400,)
    yield "many prompts", post(COMPLETIONS, as_json({"prompt": ["a"] * 1000})), (400,)
    yield "many choices", post(COMPLETIONS, as_json({"prompt": ["a"] * 16, "n": 16})), (400,)
    yield (
        "many biases",
        post(COMPLETIONS, as_json({"prompt": "a", "logit_bias": {str(i): 1 for i in range(9999)}})),
        (400,),
    )
    yield "many fields", post(COMPLETIONS, as_json({f"field{i}": i for i in range(5000)})), (400,)
    yield "a long field", post(COMPLETIONS, as_json({"prompt": "a", "x" * 100_000: 1})), (400,)
    yield (
        "a long user",
        post(COMPLETIONS, as_json({"prompt": "a", "max_tokens": -1, "user": "x" * 100_000})),
        (400,),
    )
    yield "a long model", post(COMPLETIONS, as_json({"prompt": "a", "model": "x" * 100_000})), (404,)
    yield (
        "many messages",
        post(CHAT, as_json({"messages": [{"role": "user", "content": "a" * 30}] * 4000})),
        (400,),
    )


def _headers() -> Iterator[Case]:
    def with_head(text: bytes) -> bytes:
        return b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + text + b"\r\n\r\n" + GOOD

    lengths = (b"-5", b"abc", b"1e3", b"0x10", b" ", b"5, 6", b"99999999999999999999999", b"+5", b"5;5")
    for length in lengths:
        yield f"length {length!r}", with_head(b"Content-Length: " + length), (400, 413)
    yield "two lengths", with_head(b"Content-Length: 5\r\nContent-Length: 6"), (400,)
    for coding in (b"gzip", b"identity, chunked", b"chunked, chunked", b"xchunked", b"\x0bchunked"):
        yield f"coding {coding!r}", with_head(b"Transfer-Encoding: " + coding), (400, 501)
    for chunks in (
        b"zz\r\n",
        b"-1\r\n",
        b"1\r\nab\r\n0\r\n\r\n",
    ):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        yield f"chunks {chunks!r}", head + chunks + b"\r\n\r\n", (400,)
    yield "a huge header", get(b"/", headers=b"Host: x\r\nX: " + b"a" * 200_000 + b"\r\n"), (400, 431)
    yield "many headers", get(b"/", headers=b"Host: x\r\n" + b"X: y\r\n" * 9_000), (431,)
    for line in (
        b"Host x",
        b": x",
        b"X : y",
        b"X\x00: y",
        b"X: a\x00b",
        b"X: a\rb",
        b"\xff: y",
        b"X(: y",
    ):
        yield f"header {line!r}", get(b"/health", headers=b"Host: x\r\n" + line + b"\r\n"), (400,)
    yield "no host", get(b"/health", headers=b""), (400,)
    yield "two hosts", get(b"/health", headers=b"Host: x\r\nHost: y\r\n"), (400,)
    for kind in (b"gzip", b"br"):
        yield (
            f"a body in {kind!r}",
            post(COMPLETIONS, b"\x1f\x8b\x08\x00", b"Content-Encoding: " + kind + b"\r\n"),
            (400,),
        )


def _lines() -> Iterator[Case]:
    lines = (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", bytes(range(256)) * 8 + b"\r\n\r\n",
        b"GET /\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTPS/1.1\r\n\r\n",
        b"GET  /a HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"/ GET HTTP/1.1\r\n\r\n",
        b"\x05\x01\x00\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"GET\t/\tHTTP/1.1\r\nHost: x\r\n\r\n",
        b"EHLO x\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", b"{}\r\n\r\n",
    )  # fmt: skip
    for line in lines:
        yield f"line {line[:30]!r}", line, (400, 404, 505)
    yield "another version", get(b"/", version=b"HTTP/9.9"), (400, 505)
    for method in (b"DELETE", b"PUT", b"PATCH", b"GET", b"OPTIONS", b"TRACE", b"BREW", b"post"):
        yield f"{method!r} of completions", get(COMPLETIONS.encode(), method), (400, 405)
    for path in (b"/health", b"/metrics", b"/v1/models", b"/"):
        yield f"POST of {path!r}", post(path.decode(), b"{}"), (405,)
    yield "a tunnel", get(b"example.org:443", b"CONNECT", b"Host: example.org\r\n"), (400, 404, 405)
    yield "a proxy's request", get(b"http://example.org/a"), (400, 404, 405)
    upgrade = (
        b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n"
    )
    yield "a web socket", get(b"/v1/completions", headers=upgrade), (400, 403, 404, 405, 426)


def _paths() -> Iterator[Case]:
    paths = (
        b"/../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"/..%2f..%2fetc/passwd",
        b"/%2e%2e%5c%2e%2e%5cwindows", b"/static/../../x", b"//etc/passwd", b"/etc/passwd",
        b"/v1/../../etc/passwd",
        b"/v1/completions/../../x",
        b"/v1/completions%00", b"/%00", b"/v1//completions", b"/V1/COMPLETIONS", b"/v1/nothing",
        b"/.git/config",
        b"/.env", b"/docs", b"/openapi.json", b"/redoc", b"/admin", b"/v1/models/../../../x", b"/;/x",
        b"/%ff%fe",
        b"/\\..\\..\\x", b"/page.html", b"/static/page.html",
        b"/" + b"a" * 5000, b"/" + b"../" * 1000 + b"etc/passwd",
        b"/%252e%252e/x", b"/v1/files", b"/v1/engines/x/completions", b"/~root", b"/proc/self/environ", b"*",
    )  # fmt: skip
    for path in paths:
        yield f"path {path[:40]!r}", get(path), (400, 404)
    yield "a long path", get(b"/" + b"a" * 100_000), (400, 404, 414, 431)
