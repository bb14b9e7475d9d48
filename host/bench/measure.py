"""One benchmark on the simulated card: every pass of a prompt and of its continuation, measured by itself.

A run of the kernel counts cycles, bytes and nonzero inputs of all its passes together. So the prompt goes in
one token a run and the continuation comes one token a run: then a run is one pass, and the counters are that
pass's. A pass is the same one in a longer run (nothing of a pass begins before the one before it has ended);
`autonomous` measures the continuation once more in a single run, for comparison.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.model.state import State
from symlight.model.weights import IntegerModel

from ..device.machine import Machine, Progress, RunResult, silent
from ..device.opening import DeviceOptions, OpenedDevice
from ..device.reference_machine import ReferenceMachine
from ..device.verify import pass_difference

PROMPT, FIRST, DECODE = "prompt", "first", "decode"  # kinds of a pass, see `Pass`
PORT_COUNTERS = ("read_beats", "read_waits", "read_stalls", "address_stalls")  # of sim/harness/axi_slave.h


@dataclass(frozen=True)
class Pass:
    """One pass.

    Members
    -------
    kind : str
        "prompt": a prompt token without the head; "first": the last prompt token, which yields the first new
        one;
        "decode": a generated token.
    cycles : int
    phases : dict
        Operation -> (stream, turnaround) cycles; they add up to `cycles`.
    bytes_read : dict
        Operation -> bytes of all channels.
    active : array [layers, 4]
        Nonzero inputs by SITES.
    ports : dict
        What the memory ports saw, summed over them: `PORT_COUNTERS`.
    """

    kind: str
    cycles: int
    phases: dict[str, tuple[int, int]]
    bytes_read: dict[str, int]
    active: np.ndarray
    ports: dict[str, int]


@dataclass
class Measurement:
    """All passes of a benchmark at one clock.

    `difference` names the first difference from the reference, None if everything is equal; `autonomous` is
    the mean of the decode cycles
    in a single run, None if not measured; `simulated_cycles` and `wall_seconds` are those of the passes.
    """

    clock_mhz: int
    passes: list[Pass] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    difference: str | None = None
    autonomous: float | None = None
    simulated_cycles: int = 0
    wall_seconds: float = 0.0

    def of(self, kind: str) -> list[Pass]:
        return [one for one in self.passes if one.kind == kind]


class ReferenceRun:
    """What the reference says about a prompt and its continuation: computed once, compared with many runs.

    Members
    -------
    start : State
        From where the passes are measured: a new session, or with `ingest` False the state with two prompt
        tokens to go.
    inputs : list of int
        Prompt tokens that go in from there, one a run.
    last : State
        The state before the last prompt token's pass, that token pending.
    results : list of RunResult
        Of every run, as `measure` makes them.
    final : State
    compared_with : str
        What worked it out: the reference, or `golden` (host.device.golden).
    """

    def __init__(
        self,
        model: IntegerModel,
        prompt: Sequence[int],
        n_new: int,
        *,
        ingest: bool,
        golden: Machine | None = None,
        progress: Progress = silent,
    ):
        if len(prompt) < 2 or n_new < 2:
            raise UserError(
                f"a benchmark needs two prompt tokens and two new ones, not {len(prompt)} and {n_new}"
            )
        machine = ReferenceMachine(model) if golden is None else golden
        self.compared_with = machine.name
        before = 0 if ingest else len(prompt) - 1
        total = len(prompt) + n_new
        for i in range(before):
            machine.run(prompt[i : i + 1], 0, None)
            progress("reference", i + 1, total)
        self.start, self.inputs, self.n_new = machine.read_state(), list(prompt[before:]), n_new
        self.results = []
        for token in self.inputs:
            self.results.append(machine.run([token], 0, None))
            progress("reference", before + len(self.results), total)
        self.last = machine.read_state()
        for _ in range(n_new):
            self.results.append(machine.run([], 1, None))
            progress("reference", before + len(self.results), total)
        self.final = machine.read_state()

    @property
    def tokens(self) -> list[int]:
        return [token for result in self.results for token in result.tokens]


def measure(
    model: IntegerModel,
    expected: ReferenceRun,
    options: DeviceOptions,
    *,
    clock_mhz: int,
    autonomous: bool = False,
    progress: Progress = silent,
) -> Measurement:
    """Open the simulated card, do every run of `expected`, and compare each with the reference."""
    with OpenedDevice(options, model, progress) as machine:
        measured = Measurement(clock_mhz)
        if expected.start.position or expected.start.pending is not None:
            machine.write_state(expected.start)
        started = time.monotonic()
        _passes(machine, expected, measured, progress)
        measured.wall_seconds = time.monotonic() - started
        measured.difference = measured.difference or _state_difference(machine.read_state(), expected.final)
        if autonomous and measured.difference is None:
            _autonomous(machine, expected, measured, progress)
    return measured


def _passes(machine: Machine, expected: ReferenceRun, measured: Measurement, progress: Progress) -> None:
    runs = [([token], 0) for token in expected.inputs] + [([], 1)] * expected.n_new
    ports = _Ports()
    for i, ((prompt, n_new), theirs) in enumerate(zip(runs, expected.results, strict=True)):
        before = ports.read()
        ours = machine.run(prompt, n_new, None)
        after = ports.read()
        measured.tokens += ours.tokens
        measured.simulated_cycles += after["cycles"] - before["cycles"]
        if ours.passes:  # the first token of a session is pending only: a run without a pass
            kind = PROMPT if not n_new else FIRST if not measured.of(FIRST) else DECODE
            seen = {name: after[name] - before[name] for name in PORT_COUNTERS}
            measured.passes.append(_pass(kind, ours, seen))
        progress("simulate", i + 1, len(runs))
        if (ours.tokens, ours.passes) != (theirs.tokens, theirs.passes) or not np.array_equal(
            ours.active, theirs.active
        ):
            state = machine.read_state()
            measured.difference = f"run {i}: tokens {ours.tokens} instead of {theirs.tokens}; " + (
                pass_difference(ours.active, theirs.active, state, state) or "the event counts agree"
            )
            return


def _pass(kind: str, result: RunResult, ports: dict[str, int]) -> Pass:
    cycles, bytes_read = present(result.cycles), present(result.bytes_read)
    return Pass(kind, cycles.prompt + cycles.decode, cycles.phases, bytes_read, result.active, ports)


def _state_difference(state: State, expected: State) -> str | None:
    found = state.first_difference(expected)
    return None if found is None else f"the final session state differs: {found}"


def _autonomous(machine: Machine, expected: ReferenceRun, measured: Measurement, progress: Progress) -> None:
    """The continuation again from the last prompt token, in one run."""
    machine.write_state(expected.last)
    progress("simulate in one run", 0, 0)
    result = machine.run([], expected.n_new, None)
    progress("simulate in one run", 1, 1)
    if result.tokens != expected.tokens:
        measured.difference = f"in one run the tokens are {result.tokens} instead of {expected.tokens}"
    elif (found := _state_difference(machine.read_state(), expected.final)) is not None:
        measured.difference = f"in one run {found}"
    measured.autonomous = present(result.cycles).decode / result.decode_passes


class _Ports:
    """The simulated card's own counters; a card made of silicon has none, and no cycle count between runs."""

    def __init__(self):
        from symlight.sim import card

        self._model = present(present(card.card_at(0)).model)

    def read(self) -> dict[str, int]:
        return {"cycles": self._model.cycles} | {name: self._model.total(name) for name in PORT_COUNTERS}
