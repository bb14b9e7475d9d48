"""Traces passes of the simulated card: one run per pass, and the kernel's counters as a check."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.sim.model import ALL_LEVELS

from ..device.machine import Machine, RunResult
from .events import PassTrace, passes, read_beats, signals
from .waveform import WaveSignals

LEVELS = 4  # of modules, from the kernel to its phase counters


@dataclass(frozen=True)
class Range:
    """Which passes of a session: the first one has the number 0."""

    first: int
    count: int


def advance(machine: Machine, prompt: Sequence[int], done: int, count: int) -> RunResult:
    """Run passes `done` .. `done + count` - 1 of a session that ingests `prompt` and then generates.

    The first token of a session is pending without a pass, so pass i ingests token i and knows token i + 1.
    """
    position = done + 1 if done else 0  # tokens given so far
    fed = list(prompt[position : done + count + 1])
    new = count - len(fed) + (0 if position else 1)
    return machine.run(fed, new, None)


def trace_passes(
    machine: Machine, prompt: Sequence[int], wanted: Range, wave: Path, *, everything: bool
) -> list[PassTrace]:
    """Trace passes of a fresh session into the waveform file `wave`.

    `everything`: all signals of the kernel; else those that the trace needs.

    Raises
    ------
    UserError
        The session ends before, or the signals and the kernel's counters disagree.
    """
    from symlight.sim import card

    model = present(present(card.card_at(0)).model)
    if wanted.first:
        advance(machine, prompt, 0, wanted.first)
    before = [model.counter("read_beats", channel) for channel in range(model.channels)]
    model.trace(wave, ALL_LEVELS if everything else LEVELS)
    results = []
    for number in range(wanted.first, wanted.first + wanted.count):
        result = advance(machine, prompt, number, 1)
        if result.passes != 1:
            raise UserError(f"the session ends before pass {number}; give a longer prompt or fewer passes")
        results.append(result)
    model.end_trace()
    changes = list(WaveSignals(wave, signals(model.channels)).settled())
    seen = passes(changes, model.channels, model.cycles)
    counted_phases = [present(result.cycles).phases for result in results]
    if [one.cycles() for one in seen] != counted_phases:
        raise UserError(
            f"the traced signals disagree with the kernel's counters: {[one.cycles() for one in seen]} "
            f"instead of {counted_phases}"
        )
    shown = read_beats(changes, model.channels, model.cycles)
    counted = [model.counter("read_beats", k) - beats for k, beats in enumerate(before)]
    if shown != counted:
        raise UserError(f"the traced read beats {shown} disagree with those of the memory model, {counted}")
    return seen
