"""Uvicorn with the server's limits."""

import socket

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from symlight.base.errors import UserError

from .app import create_app
from .guard import MOST_HEADER_BYTES
from .service import Service
from .settings import ServerSettings

KEEP_ALIVE_SECONDS = 30
BACKLOG = 256


def _patient_protocol(seconds: float) -> type[HttpToolsProtocol]:
    """A protocol that ends connections whose first request does not arrive, or whose headers are endless."""

    class PatientProtocol(HttpToolsProtocol):
        def connection_made(self, transport) -> None:
            super().connection_made(transport)
            self._heading, self._head_bytes = True, 0  # the parser has no limit of its own
            self._first = self.loop.call_later(seconds, self._give_up)

        def data_received(self, data: bytes) -> None:
            self._head_bytes += len(data) if self._heading else 0
            super().data_received(data)  # starts the count again where a request ends
            if self._heading and self._head_bytes > MOST_HEADER_BYTES and not self.transport.is_closing():
                self.send_400_response(f"The headers have more than {MOST_HEADER_BYTES} bytes.")

        def on_headers_complete(self) -> None:
            self._heading = False
            hosts = sum(name == b"host" for name, _ in self.headers)
            if self.parser.get_http_version() == "1.1" and hosts != 1:  # RFC 9112, section 3.2
                raise ValueError(f"{hosts} Host headers")  # which the parser turns into status 400
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._heading, self._head_bytes = True, 0
            super().on_message_complete()

        def _give_up(self) -> None:
            if self.cycle is None and not self.transport.is_closing():
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._first.cancel()
            super().connection_lost(exc)

    return PatientProtocol


def bound_socket(settings: ServerSettings) -> socket.socket:
    """A listening socket; a `UserError` when the address cannot be used. Port 0 takes a free one."""
    try:
        listening = socket.create_server(
            (settings.host, settings.port),
            family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET,
            backlog=BACKLOG,
        )
        # Connections inherit it. asyncio sets it only where a socket names its protocol, which this one does
        # not; without it every answer waits some 40 ms for the client's acknowledgement of its headers.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise UserError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; "
            "give another --host or --port"
        ) from error


def server(service: Service) -> uvicorn.Server:
    """The server of a service, not yet started."""
    settings = service.settings
    config = uvicorn.Config(
        create_app(service),
        http=_patient_protocol(settings.header_timeout),
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(settings.grace),
        lifespan="on",
    )
    return uvicorn.Server(config)


def run(made: uvicorn.Server, listening: socket.socket) -> None:
    """Serve until the process is asked to end; what runs is finished first."""
    made.run(sockets=[listening])
