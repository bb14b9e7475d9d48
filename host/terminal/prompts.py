"""Text that a person gives: the prompt of a command line, and the lines of a chat."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from symlight.base.errors import UserError
from symlight.model.package import Package
from symlight.model.text import checked, from_bytes
from symlight.model.v1.package import V1Package

from .options import PATH

_SHOWN = 20  # unknown characters in a sentence
_MOST_BYTES = 1 << 24  # of a prompt: many times what one turn takes

_OPTIONS = (
    click.option("--prompt", metavar="TEXT", help="Text to continue."),
    click.option(
        "--prompt-file",
        type=PATH,
        metavar="FILE",
        help="The same out of a file (UTF-8); - is standard input.",
    ),
    click.option(
        "--prompt-ids", metavar='"1 2 3"', help="The same as token ids; they are taken as they are."
    ),
)


@dataclass(frozen=True)
class Prompt:
    """What a session is to continue. `unknown`: the characters of the text that the tokenizer lacks."""

    ids: list[int]
    unknown: str = ""


def prompt_options(command: Callable) -> Callable:
    """The options that `take_prompt` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def take_prompt(values: dict, package: Package | V1Package) -> Prompt:
    """The one prompt that was given."""
    text, file, ids = (values.pop(name) for name in ("prompt", "prompt_file", "prompt_ids"))
    if sum(value is not None for value in (text, file, ids)) != 1:
        raise UserError('give one prompt: --prompt TEXT, --prompt-file FILE or --prompt-ids "1 2 3"')
    continues = bool(values.get("load_state"))
    if ids is not None:
        prompt = Prompt(_numbers(ids))
    else:
        text = checked(text, "the prompt") if text is not None else _read(file)
        prompt = Prompt(package.encode(text, continues=continues), package.tokenizer.unknown(text))
    if not prompt.ids and not continues:  # a saved session goes on from its pending token
        raise UserError("the prompt is empty; give at least one character of text, or one token id")
    return prompt


def _numbers(ids: str) -> list[int]:
    try:
        return [int(word) for word in ids.replace(",", " ").split()]
    except ValueError:
        raise UserError(f"--prompt-ids {ids!r} is not a list of numbers") from None


def _read(file: Path) -> str:
    if str(file) == "-":
        return _text(sys.stdin.buffer, "standard input")
    try:
        with file.open("rb") as stream:
            return _text(stream, f"the prompt file {file}")
    except OSError as error:
        raise UserError(f"the prompt file {file} cannot be read: {error.strerror}") from error


def _text(stream: BinaryIO, what: str) -> str:
    data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UserError(f"{what} has more than {_MOST_BYTES:,} bytes, which is no prompt; give a shorter one")
    return from_bytes(data, what)


def read_line(question: str) -> str | None:
    """A line of standard input, asked for on a terminal; None at the end. A `UserError`: it is no text."""
    if sys.stdin.isatty():
        try:
            return checked(input(question), "the line")
        except EOFError:
            return None
        except UnicodeDecodeError as error:
            raise UserError(f"the line is not text in {error.encoding}; write it again") from error
    line = getattr(sys.stdin, "buffer", sys.stdin).readline()
    if not line:
        return None
    text = from_bytes(line, "the line") if isinstance(line, bytes) else line
    return text.removesuffix("\n").removesuffix("\r")


def unknown_sentence(unknown: str) -> str | None:
    """What to say about characters that the tokenizer lacks; None when there are none."""
    if not unknown:
        return None
    shown = unknown if len(unknown) <= _SHOWN else unknown[:_SHOWN] + "..."
    count = f"{len(unknown)} characters of the text are" if len(unknown) > 1 else "1 character of the text is"
    return f"{count} unknown to the model's tokenizer, which reads <unk> in its place: {shown}"
