"""`symlight chat`: a conversation on one session; nothing the device already holds is ingested again."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from symlight.base.errors import UserError
from symlight.model.tokenizer import Tokenizer

from ..device.opening import OpenedDevice
from ..device.packages import open_package
from ..device.session import Session, Turn
from ..device.verify import VerificationError, Verifier
from ..terminal.console import ProgressView, TextOutput, stderr
from ..terminal.options import device_option, device_options, model_option, take_device
from ..terminal.turn_report import print_stats, print_summary

HELP = """\
[bold]/reset[/bold] new session   [bold]/save FILE[/bold], [bold]/load FILE[/bold] session state   \
[bold]/stats[/bold] of the last turn   [bold]/quit[/bold]
An empty line goes on from where the text ended; Ctrl-C ends a turn."""


@click.command()
@model_option
@device_option("cpu")
@device_options
@click.option(
    "--max-new-tokens", type=click.IntRange(min=0), default=48, show_default=True, metavar="N", help="A turn."
)
@click.option("--stop", multiple=True, metavar="TEXT", help="End a turn at this text.")
@click.option("--verify", is_flag=True, help="Compare every turn with the integer reference.")
def chat(**values):
    """Talk with the model, turn by turn."""
    console = stderr()
    package = open_package(values.pop("model"))
    options = take_device(values)
    tokenizer = package.tokenizer  # text is all there is: refuse before anything is built
    with ProgressView(console) as progress:
        device = OpenedDevice(options, package.model, progress)
    with device as machine:
        verifier = Verifier(package.model) if values["verify"] else None
        session = Session(machine, eos=package.meta.eos, verifier=verifier)
        Chat(session, tokenizer, console, values["max_new_tokens"], values["stop"]).loop()


@contextmanager
def _deferred_interrupt() -> Iterator[list]:
    """Inside, the first Ctrl-C only fills the list; the second one interrupts as always."""
    pressed: list[int] = []

    def on_interrupt(number, frame) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


class Chat:
    """The loop over lines of standard input."""

    def __init__(
        self, session: Session, tokenizer: Tokenizer, console: Console, n_new: int, stop: tuple[str, ...]
    ):
        self._session, self._console, self._n_new, self._stop = session, console, n_new, stop
        self._tokenizer = tokenizer
        self._last: Turn | None = None

    def loop(self) -> None:
        if sys.stdin.isatty():
            self._console.print(HELP, highlight=False)
        while (line := self._line()) is not None:
            try:
                if line.startswith("/"):
                    if not self._command(*line[1:].partition(" ")[::2]):
                        return
                else:
                    self._turn(line)
            except VerificationError:
                raise
            except UserError as error:  # a wrong line does not end the conversation
                self._console.print(f"symlight: {error}", highlight=False, markup=False)

    def _line(self) -> str | None:
        try:
            return input("> " if sys.stdin.isatty() else "")
        except EOFError:
            return None

    def _command(self, name: str, argument: str) -> bool:
        """Do a slash command; False ends the chat."""
        if name in ("quit", "exit"):
            return False
        if name == "reset":
            self._session.reset()
            self._last = None
        elif name in ("save", "load"):
            if not argument.strip():
                raise UserError(f"/{name} needs the name of a file")
            getattr(self._session, name)(Path(argument.strip()).expanduser())
        elif name == "stats":
            if self._last is not None:
                print_stats(self._console, self._last, self._session.machine)
        else:
            self._console.print(HELP, highlight=False)
        return True

    def _turn(self, line: str) -> None:
        machine = self._session.machine
        started = machine.position > 0 or machine.pending is not None
        # A line of the user is a line of the text: it starts behind what the model wrote.
        prompt = self._tokenizer.encode(("\n" if started and line else "") + line)
        output = TextOutput(self._tokenizer, prompt, show=True, stop=self._stop)
        # One token a run, so that a turn can end at any token: a started run cannot be stopped on a card.
        try:
            with _deferred_interrupt() as pressed:
                self._last = self._session.turn(
                    prompt,
                    self._n_new,
                    interactive=True,
                    on_token=output.push,
                    should_stop=lambda: bool(pressed) or output.stopped(),
                )
        finally:
            output.finish()
        print_summary(self._console, self._last, machine)
