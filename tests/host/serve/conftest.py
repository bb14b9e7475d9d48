"""Services of the demo model, and a server in this process that clients can talk to."""

import contextlib
import threading
import time

import pytest

pytest.importorskip("starlette", reason="the server (extra `serve`) is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the server (extra `serve`) is not installed")

import httpx  # noqa: E402

from symlight.host.device.opening import DeviceOptions  # noqa: E402
from symlight.host.device.packages import open_package  # noqa: E402
from symlight.host.serve import run  # noqa: E402
from symlight.host.serve.service import Service  # noqa: E402
from symlight.host.serve.settings import ServerSettings  # noqa: E402


class Running:
    """A server that serves in a thread."""

    def __init__(self, service: Service):
        self.service = service
        self._socket = run.bound_socket(service.settings)
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = run.server(service)
        self._thread = threading.Thread(target=run.run, args=(self._server, self._socket), daemon=True)
        self._thread.start()
        until = time.monotonic() + 20
        while not self._server.started:
            assert time.monotonic() < until and self._thread.is_alive(), "the server does not start"
            time.sleep(0.01)
        self.client = httpx.Client(base_url=self.address, timeout=60)

    def post(self, path: str, **body) -> httpx.Response:
        return self.client.post(path, json=body)

    def stop(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()
        assert not self._thread.is_alive(), "the server does not end"


@contextlib.contextmanager
def served(device: str, package=None, **settings):
    """A running server of `package`, or of the demo model, on `device`."""
    service = Service(
        package or open_package("demo"),
        DeviceOptions(device=device),
        ServerSettings(port=0, **{"grace": 5.0} | settings),
    )
    running = Running(service)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def server():
    """The demo model on the CPU engine."""
    with served("cpu:1") as running:
        yield running


@pytest.fixture
def serve():
    """`served`, for tests with settings of their own."""
    return served
