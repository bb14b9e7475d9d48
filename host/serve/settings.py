"""How the server is set up, with the limits that protect it."""

import hmac
import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from symlight.base.errors import UserError
from symlight.base.files import read_bounded

MEGABYTE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Of `symlight serve`. Sizes in bytes, times in seconds."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = ()
    max_queue: int = 64  # requests that wait
    max_running: int = 64  # choices in progress at a time
    request_timeout: float = 600.0
    cache_bytes: int = 256 * MEGABYTE  # states of texts that were ingested before
    max_body: int = 4 * MEGABYTE
    max_prompt: int = 65_536  # tokens
    max_tokens: int = 65_536
    max_choices: int = 128  # of one request: prompts x n
    max_n: int = 16
    max_stops: int = 16
    max_stop_length: int = 256  # characters
    max_connections: int = 1024
    header_timeout: float = 10.0  # until a request's headers are there
    body_timeout: float = 30.0  # until its body is there
    grace: float = 30.0  # for what is running when the server is asked to end
    log_prompts: bool = False

    def check(self) -> None:
        """A `UserError` where the settings would expose a device to everybody."""
        if not is_loopback(self.host) and not self.keys:
            raise UserError(
                f"--host {self.host} can be reached from other machines, so the server needs keys: "
                "give --api-key-file FILE, or --host 127.0.0.1"
            )

    def admits(self, key: str | None) -> bool:
        """Whether a request with this key is served; takes the same time for every wrong key."""
        if not self.keys:
            return True
        given = (key or "").encode()
        return any([hmac.compare_digest(given, known.encode()) for known in self.keys])


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_keys(file: Path) -> tuple[str, ...]:
    """Keys of a file, one per line; blank lines and lines that begin with # are skipped."""
    try:
        lines = read_bounded(file, MEGABYTE).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the key file {file} cannot be read ({error}); give a text file") from error
    keys = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    weak = [number for number, key in enumerate(keys, 1) if len(key) < 16 or not key.isascii()]
    if not keys or weak:
        raise UserError(
            f"the key file {file} needs keys of at least 16 ASCII characters, one per line "
            f"(for instance {secrets.token_urlsafe(24)})"
        )
    return keys


def client_name(key: str | None, address: str, keys: Sequence[str]) -> str:
    """Who a request belongs to, for fair turns: its key, or its address where there are no keys."""
    return f"key {list(keys).index(key)}" if key is not None and key in keys else address
