"""Uvicorn with the server's limits."""

import asyncio
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from symlight.base.errors import UserError

from .app import create_app
from .guard import MOST_HEADER_BYTES
from .service import Service
from .settings import ServerSettings

KEEP_ALIVE_SECONDS = 30
BACKLOG = 256


def _patient_protocol(seconds: float) -> type[H11Protocol]:
    """A protocol that closes connections whose first request does not arrive."""

    class PatientProtocol(H11Protocol):
        def connection_made(self, transport) -> None:
            super().connection_made(transport)
            self._first = self.loop.call_later(seconds, self._give_up)

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
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        lifespan="on",
    )
    return uvicorn.Server(config)


def run(made: uvicorn.Server, listening: socket.socket) -> None:
    """Serve until the process is asked to end; what runs is finished first."""
    asyncio.run(made.serve(sockets=[listening]))
