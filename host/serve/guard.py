"""What every request passes: the key, and the count of answers by path and status."""

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .answers import error_json
from .service import Service

MOST_HEADERS, MOST_HEADER_BYTES = 200, 64 * 1024  # of a request
VERSIONS = ("1.0", "1.1")
OPEN_PATHS = ("/health", "/ready", "/")  # answered without a key


def bearer_key(header: str | None) -> str | None:
    """The key of an Authorization header."""
    scheme, _, key = (header or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


class Guard:
    """ASGI middleware of the application, which answers `paths`."""

    def __init__(self, app: ASGIApp, service: Service, paths: frozenset[str]):
        self._app, self._service, self._paths = app, service, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status: int | str = "none"  # the client left before an answer began

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        app: ASGIApp = self._app
        if scope["http_version"] not in VERSIONS:
            app = _refusal(505, f"HTTP/{scope['http_version']} is not supported; use HTTP/1.1")
        elif (
            len(scope["headers"]) > MOST_HEADERS
            or sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADER_BYTES
        ):
            app = _refusal(431, f"more than {MOST_HEADERS} headers, or {MOST_HEADER_BYTES} bytes of them")
        elif scope["path"] not in OPEN_PATHS and not self._service.settings.admits(_key(scope)):
            app = _refusal(
                401,
                "a valid key is needed: Authorization: Bearer KEY",
                "authentication_error",
                {"WWW-Authenticate": "Bearer"},
            )
        try:
            await app(scope, receive, counted)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._service.metrics.requests.labels(path, str(status)).inc()


def _refusal(
    status: int, sentence: str, kind: str = "invalid_request_error", headers: dict[str, str] | None = None
) -> ASGIApp:
    return JSONResponse(error_json(sentence, kind=kind), status, headers)


def _key(scope: Scope) -> str | None:
    headers = dict(scope["headers"])
    return bearer_key(headers.get(b"authorization", b"").decode("latin-1"))
