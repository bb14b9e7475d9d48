"""The one exception type whose message is written for the person at the terminal, and the operating system's
errors in the same words."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from .printable import printable


class UserError(Exception):
    """Bad input or surroundings: the message names the file or value and says what to do.

    The command line prints it as one sentence and exits with `exit_code`; everything else that escapes is a
    defect of symlight. Names out of files are in it as they are; as text it steers no terminal.
    """

    exit_code = 2

    def __str__(self) -> str:
        return printable(super().__str__(), keep="\n\t")


class DeviceFault(UserError):
    """A device failed at what it can do: after a restart, the same may succeed."""


_SPACE = "free some space there, or choose another place"
_ACCESS = "check its permissions, or choose another place"
_REMEDIES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: _SPACE,
    errno.EACCES: _ACCESS,
    errno.EPERM: _ACCESS,
    errno.EROFS: "choose another place",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "a part of the path is a file; choose another place",
    errno.EISDIR: "give the name of a file",
    errno.EEXIST: "choose another place, or remove it",
    errno.ENOENT: "check the path",
    errno.ELOOP: "check the links in the path",
    errno.EBUSY: "choose another place, or end what uses it",
    errno.ENOTEMPTY: "another process writes there; try again",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "end other programs",
    errno.ENOMEM: "end other programs, or take a smaller model",
    errno.EAGAIN: "end other programs, or allow more processes (ulimit -u)",
    errno.EBADF: "give it a file, a pipe or /dev/null",
    errno.EIO: "check the disk",
}


def sentence(error: OSError) -> str:
    """What the operating system refused, in one sentence: the file, the reason, the remedy."""
    names = [str(file) for file in (error.filename, error.filename2) if file is not None]
    reason = error.strerror or str(error) or type(error).__name__
    subject = " to ".join(names) or "the operating system"
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{subject}: {reason[:1].lower()}{reason[1:]}" + (f"; {remedy}" if remedy else "")


@contextmanager
def in_words() -> Iterator[None]:
    """Every `OSError` of the block, or of the function that this decorates, is a `UserError` in words."""
    try:
        yield
    except OSError as error:
        raise UserError(sentence(error)) from error
