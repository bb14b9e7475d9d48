"""`symlight selftest`: identity, golden tokens, sessions and counters of a device, check by check."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import zip_longest

import click
import numpy as np
from rich.table import Table
from rich.text import Text

from symlight.base.errors import UserError

from ..device.golden import golden_machine
from ..device.machine import Machine, RunResult
from ..device.opening import OpenedDevice
from ..device.packages import GoldenRun, golden_runs, open_package
from ..device.verify import VerificationError, state_difference
from ..terminal.console import ProgressView, stderr, stdout, waiting
from ..terminal.options import device_option, device_options, model_option, take_device

PROMPT_TOKENS = 24
NEW_TOKENS = 12


@click.command()
@model_option
@device_option("sim")
@device_options
def selftest(**values):
    """Check a device against golden tokens and the golden model: the first thing to run on a new card."""
    console = stderr()
    package = open_package(values.pop("model"))
    golden = golden_runs(package)
    options = take_device(values)
    table = Table("check", "result", "")
    failed = 0
    with ExitStack() as stack:
        with ProgressView(console) as progress:
            machine = stack.enter_context(OpenedDevice(options, package, progress))
            other = stack.enter_context(closing(golden_machine(package, options, progress)))
        table.add_row("identity and upload", "ok", f"{machine.name}, model {package.meta.name}")
        table.add_row("golden model", "", other.name)
        for name, check in Checks(machine, other, golden).all():
            with waiting(console, name):
                error, note = _outcome(check)
            failed += error
            table.add_row(name, Text("FAILED", style="red") if error else "ok", note)
    stdout().print(table)
    if failed:
        raise VerificationError(f"{failed} checks of {options.device} failed")
    click.echo("selftest passed")


def _outcome(check: Callable[[], str]) -> tuple[bool, str]:
    try:
        return False, check()
    except UserError as error:
        return True, str(error)


def _expect(condition: bool, sentence: str) -> None:
    if not condition:
        raise VerificationError(sentence)


class Checks:
    """The checks; each gives a note, or raises a `UserError`."""

    def __init__(self, machine: Machine, reference: Machine, golden: list[GoldenRun]):
        self._machine, self._reference, self._golden = machine, reference, golden
        # Any tokens do; a fixed stride visits the whole vocabulary and every channel's embedding rows.
        self._prompt = [(17 + 101 * i) % machine.shape.vocab for i in range(PROMPT_TOKENS)]

    def all(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "golden tokens", self.golden_tokens
        yield "one run", self.one_run
        yield "session state", self.state
        yield "resume, one token a run", self.resume
        yield "end of sequence", self.end_of_sequence
        yield "restore", self.restore
        yield "reset", self.fresh_session
        yield "counters", self.counters

    def _both(self, prompt: list[int], n_new: int, eos: int | None = None) -> RunResult:
        ours, theirs = self._machine.run(prompt, n_new, eos), self._reference.run(prompt, n_new, eos)
        _expect(
            (ours.tokens, ours.stop_reason) == (theirs.tokens, theirs.stop_reason),
            f"the tokens are {ours.tokens} ({ours.stop_reason}) "
            f"instead of {theirs.tokens} ({theirs.stop_reason})",
        )
        return ours

    def _reset(self) -> None:
        self._machine.reset()
        self._reference.reset()

    def golden_tokens(self) -> str:
        """Tokens out of a file: the only check whose other side is not computed here."""
        for run in self._golden:
            self._machine.reset()
            tokens = self._machine.run(run.prompt_tokens, len(run.tokens), None).tokens
            for index, (ours, golden) in enumerate(zip_longest(tokens, run.tokens)):
                _expect(ours == golden, f"token {index} is {ours} instead of {golden}")
        if not self._golden:
            return "none are beside this package"
        return f"{sum(len(run.tokens) for run in self._golden)} tokens of {len(self._golden)} runs"

    def one_run(self) -> str:
        self._reset()
        result = self._both(self._prompt, NEW_TOKENS)
        return f"{len(result.tokens)} tokens equal the golden model's"

    def state(self) -> str:
        difference = state_difference(self._machine.read_state(), self._reference.read_state())
        _expect(difference is None, f"the state differs: {difference}")
        return f"equal at position {self._machine.position}"

    def resume(self) -> str:
        for _ in range(3):
            self._both([], 1)
        return "3 tokens equal the golden model's"

    def end_of_sequence(self) -> str:
        snapshot = self._reference.read_state()
        token = self._reference.run([], 1, None).tokens[0]  # what comes next: ending there must stop the run
        self._reference.write_state(snapshot)
        result = self._both([], NEW_TOKENS, token)
        _expect(result.stop_reason == "eos" and len(result.tokens) == 1, f"the run went on: {result.tokens}")
        return "the run ended in the same pass"

    def restore(self) -> str:
        state = self._reference.read_state()
        self._machine.reset()
        self._machine.write_state(state)
        difference = state_difference(self._machine.read_state(), state)
        _expect(difference is None, f"the state came back differently: {difference}")
        self._both(self._prompt[:2], 2)
        return "the session went on where it was"

    def fresh_session(self) -> str:
        self._reset()
        self._both(self._prompt[:1], 2)
        return "nothing of the old session shows"

    def counters(self) -> str:
        self._reset()
        ours, theirs = self._machine.run(self._prompt, 4, None), self._reference.run(self._prompt, 4, None)
        _expect(ours.passes == theirs.passes, f"{ours.passes} passes are counted instead of {theirs.passes}")
        _expect(
            np.array_equal(ours.active, theirs.active),
            "the nonzero inputs of the event sites are counted wrongly",
        )
        if ours.cycles is None:
            return "passes and events; the device has no clock"
        counted = sum(sum(pair) for pair in ours.cycles.phases.values())
        _expect(
            0 < counted <= ours.cycles.total and ours.cycles.prompt + ours.cycles.decode <= ours.cycles.total,
            f"phases of {counted} cycles do not fit the run's {ours.cycles.total}",
        )
        _expect(ours.bytes_read is not None and ours.bytes_read["head"] > 0, "no byte of the head was read")
        return f"{ours.cycles.total / ours.passes:,.0f} cycles per pass"
