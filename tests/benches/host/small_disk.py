"""A disk of a few pages: commands run in a mount namespace of their own that has one."""

import functools
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SHELL = """
mount -t tmpfs -o size="$1" tmpfs "$2" || exit 99
disk=$2; shift 2
"$@"; status=$?
cd "$disk" && find . -mindepth 1 -printf '%P %s\\n' >&3
exit $status
"""


@functools.cache
def possible() -> str | None:
    """Why this machine lets nobody mount a disk in a namespace, or None."""
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    tried = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True
    )
    return f"no disk can be mounted in a user namespace: {tried.stderr.strip()}" if tried.returncode else None


@dataclass(frozen=True)
class OnDisk:
    """How commands ended, and the files that they left on the disk, with their sizes."""

    code: int
    out: str
    err: str
    left: dict[str, int]

    def sentence(self) -> str:
        """The one sentence of a command that failed as it should."""
        assert self.code == 2 and "Traceback" not in self.err, (self.code, self.err)
        last = self.err.splitlines()[-1]
        assert last.startswith("symlight: "), self.err
        return last.removeprefix("symlight: ")


def on_small_disk(disk: Path, size: str, *commands: tuple) -> OnDisk:
    """Run symlight commands one after the other with a disk of `size` (as of mount) at `disk`; the last one's
    result. Skips the test where no disk can be made."""
    if (reason := possible()) is not None:
        pytest.skip(reason)
    disk.mkdir(exist_ok=True)
    line = "; ".join(
        " ".join(f"'{word}'" for word in (sys.executable, "-m", "symlight.host.cli", *map(str, command)))
        for command in commands
    )
    listing = disk.with_name("listing")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'exec 3>"$0"; {SHELL}', listing, size, disk, "sh", "-c", line],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode != 99, done.stderr
    left = dict(entry.rsplit(" ", 1) for entry in listing.read_text().splitlines())
    return OnDisk(
        done.returncode, done.stdout, done.stderr, {name: int(bytes_) for name, bytes_ in left.items()}
    )
