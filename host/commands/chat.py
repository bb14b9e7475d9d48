"""`symlight chat`: a conversation on one session; nothing the device already holds is ingested again."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.text import Text

from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.model.sampling import GREEDY, SamplingOptions

from ..device.machine import Standing, check_counts
from ..device.packages import open_any
from ..device.verify import VerificationError
from ..library.chat_template import ChatTemplate, Conversation
from ..library.completion import Completion
from ..library.model import Model
from ..terminal.console import ProgressView, TextOutput, stderr
from ..terminal.options import NonEmpty, device_option, device_options, model_option, take_device
from ..terminal.plain import PlainConsole
from ..terminal.prompts import read_line, unknown_sentence
from ..terminal.sampling_options import CHAT, describe, resolve_sampling, sampling_options, take_sampling
from ..terminal.turn_report import print_stats, print_summary

HELP = Text.from_markup("""\
[bold]/reset[/bold] new session   [bold]/save FILE[/bold], [bold]/load FILE[/bold] session state   \
[bold]/stats[/bold] of the last turn   [bold]/quit[/bold]
An empty line goes on from where the text ended; Ctrl-C ends a turn.""")


@click.command()
@model_option
@device_option("cpu")
@device_options
@sampling_options(CHAT)
@click.option(
    "--max-new-tokens", type=click.IntRange(min=0), default=48, show_default=True, metavar="N", help="A turn."
)
@click.option("--stop", type=NonEmpty(), multiple=True, metavar="TEXT", help="End a turn at this text.")
@click.option("--verify", is_flag=True, help="Compare every turn with the integer reference.")
def chat(**values):
    """Talk with the model, turn by turn.

    With a package that has a chat template, a line is a message of the user. Otherwise the text goes on: a
    line of the user is a line of it.
    """
    console = stderr()
    given = take_sampling(values)
    sampling = resolve_sampling(given, None, CHAT)
    package = open_any(values.pop("model"), lazy=True)
    options = take_device(values)
    template = package.meta.chat_template
    conversation = None
    if template is not None:
        conversation = Conversation(ChatTemplate(template, f"the chat template of {package.meta.name}"))
    package.tokenizer  # text is all there is: refuse before anything is built  # noqa: B018
    check_counts(Standing(package.shape), 1, values["max_new_tokens"])
    with ProgressView(console) as progress:
        model = Model(package, options, verify=values["verify"], progress=progress)
    with model:
        sampling = _possible(model, sampling, given, console)
        console.print(describe(sampling), style="dim")
        Chat(model, sampling, given, console, values["max_new_tokens"], values["stop"], conversation).loop()


def _possible(model: Model, sampling: SamplingOptions, given: dict, console: PlainConsole) -> SamplingOptions:
    """Greedy where the default cannot be done; what was asked for is refused where it cannot."""
    try:
        model.check(sampling=sampling)
    except UserError as error:
        if given:
            raise
        console.say(f"greedy, because {error}")
        return GREEDY
    return sampling


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


def _path(name: str) -> Path:
    if "\0" in name:
        raise UserError("the name of a file holds the character NUL; give another name")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # ~ without a home
        raise UserError(f"{name}: {error}; give the whole path") from error


class Chat:
    """The loop over lines of standard input."""

    def __init__(
        self,
        model: Model,
        sampling: SamplingOptions,
        given: dict,
        console: PlainConsole,
        n_new: int,
        stop: tuple[str, ...],
        conversation: Conversation | None = None,
    ):
        self._model, self._session, self._console = model, model.session(), console
        self._sampling, self._given, self._n_new, self._stop = sampling, given, n_new, stop
        self._conversation = conversation
        self._last: Completion | None = None

    def loop(self) -> None:
        if sys.stdin.isatty():
            self._console.print(HELP)
        while True:
            try:
                line = read_line("> ")
                if line is None:
                    return
                if line.startswith("/"):
                    if not self._command(*line[1:].partition(" ")[::2]):
                        return
                else:
                    self._turn(line)
            except VerificationError:
                raise
            except UserError as error:  # a wrong line does not end the conversation
                self._console.say(str(error))

    def _command(self, name: str, argument: str) -> bool:
        """Do a slash command; False ends the chat."""
        if name in ("quit", "exit"):
            return False
        if name == "reset":
            self._reset()
            self._last = None
        elif name in ("save", "load"):
            if not argument.strip():
                raise UserError(f"/{name} needs the name of a file")
            self._file(name, _path(argument.strip()))
        elif name == "stats":
            if self._last is not None:
                print_stats(self._console, self._last.turn, self._model.machine)
        else:
            self._console.print(HELP)
        return True

    def _file(self, name: str, path: Path) -> None:
        """Save or load the session; what a file says about sampling holds unless an option was given."""
        if name == "save":
            self._session.save(path, None if self._sampling.greedy else self._sampling)
            return
        saved = self._session.load(path)
        if self._conversation is not None:
            self._conversation.reset()  # what follows is appended to the loaded text
        if saved is not None:
            self._sampling = resolve_sampling(self._given, saved, CHAT)
            self._console.print(describe(self._sampling), style="dim")

    def _reset(self) -> None:
        self._session.reset()
        if self._conversation is not None:
            self._conversation.reset()

    def _prompt(self, line: str) -> str:
        """What the session has to ingest for a line of the user."""
        if self._conversation is None:  # a line of the text: it starts after what the model wrote
            return ("\n" if self._session.started and line else "") + line
        prompt, again = self._conversation.ask(line)
        if again:
            self._session.reset()
        return prompt

    def _turn(self, line: str) -> None:
        session = self._session
        if sentence := unknown_sentence(present(self._model.tokenizer).unknown(line)):
            self._console.say(sentence)
        prompt = self._prompt(line)
        output = TextOutput(show=True)
        # One token a run, so that a turn can end at any token: a started run cannot be stopped on a card.
        try:
            with _deferred_interrupt() as pressed:
                self._last = session.complete(
                    prompt,
                    max_new_tokens=self._n_new,
                    sampling=self._sampling,
                    stop=self._stop,
                    on_token=output.push,
                    should_stop=lambda: bool(pressed),
                )
        except BaseException:
            if self._conversation is not None:
                self._conversation.failed()
            raise
        finally:
            output.finish()
        if self._conversation is not None:
            written = "".join(token.text or "" for token in self._last.tokens)
            self._conversation.answered(self._last.text or "", written)
        print_summary(self._console, self._last, self._model.machine)
