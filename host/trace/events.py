"""From signals of the kernel to the operations of a pass: when each streamed and when it turned around."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from amaranth.lib import data

from symlight.hw.interface import Phase
from symlight.hw.types import OpEntry

SCOPE = "phase_counters"  # module of hw.sequencer.phase_counters in the kernel
CONTROL = Phase.CONTROL.name.lower()
PHASE = data.Layout.cast(OpEntry)["phase"]  # where an entry of the operation table says its phase
STREAM, TURNAROUND = "stream", "turnaround"


@dataclass(frozen=True)
class Segment:
    """Cycles `begin` .. `end` - 1 of one operation, all of one kind."""

    operation: str
    layer: int | None
    kind: str
    begin: int
    end: int

    @property
    def cycles(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class PassTrace:
    """One pass.

    Members
    -------
    segments : list of Segment
        In order, without a gap from the pass's first cycle to its last.
    beats : array [channels, cycles / WINDOW]
        Read beats that each memory port accepted per window of WINDOW cycles.
    """

    segments: list[Segment]
    beats: np.ndarray

    @property
    def begin(self) -> int:
        return self.segments[0].begin

    @property
    def end(self) -> int:
        return self.segments[-1].end

    def cycles(self) -> dict[str, tuple[int, int]]:
        """Operation -> (stream, turnaround) cycles, as the kernel's counters have them."""
        sums = {phase.name.lower(): [0, 0] for phase in Phase}
        for segment in self.segments:
            sums[segment.operation][segment.kind == TURNAROUND] += segment.cycles
        return {name: (stream, turnaround) for name, (stream, turnaround) in sums.items()}


WINDOW = 32  # cycles


def signals(channels: int) -> list[str]:
    """Names of the signals that `passes` reads."""
    own = [f"{SCOPE}.{name}" for name in ("running", "waiting", "ending", "closing", "entry")]
    return own + [name for k in range(channels) for name in _handshake(k)]


def _handshake(channel: int) -> tuple[str, str]:
    """Valid and ready of a channel's read data (the channel is a model of its own: sim/harness/design.h)."""
    return f"channel_{channel:02}.bus__rvalid", f"channel_{channel:02}.bus__rready"


Changes = Sequence[tuple[int, dict[str, int]]]  # cycle, values from this cycle on


def passes(changes: Changes, channels: int, cycles: int) -> list[PassTrace]:
    """The passes that the changes show; `cycles` is the end of the trace."""
    recorder = _Recorder(channels)
    for begin, values, end in _held(changes, cycles):
        recorder.hold(begin, values, end)
    return recorder.finished


def read_beats(changes: Changes, channels: int, cycles: int) -> list[int]:
    """Read beats that each memory port accepted in the whole trace."""
    beats = [0] * channels
    for begin, values, end in _held(changes, cycles):
        for channel in range(channels):
            if all(values[name] for name in _handshake(channel)):
                beats[channel] += end - begin
    return beats


def _held(changes: Changes, cycles: int) -> Iterator[tuple[int, dict[str, int], int]]:
    """(begin, values, end): the values of cycles begin .. end - 1."""
    ends = [cycle for cycle, _ in changes[1:]] + [cycles]
    for (begin, values), end in zip(changes, ends, strict=True):
        yield begin, values, end


class _Recorder:
    def __init__(self, channels: int):
        self.finished: list[PassTrace] = []
        self._channels = channels
        self._spans: list[list] = []  # kind, begin, end: of the operation that runs
        self._segments: list[Segment] = []
        self._layer = -1
        self._transfers: list[tuple[int, int, int]] = []  # channel, begin, end

    def hold(self, begin: int, values: dict[str, int], end: int) -> None:
        """`values` hold from cycle `begin` to `end` - 1."""
        for channel in range(self._channels):
            if all(values[name] for name in _handshake(channel)):
                self._transfers.append((channel, begin, end))
        if values[f"{SCOPE}.ending"]:  # this cycle is the next operation's first
            self._end_operation(values[f"{SCOPE}.entry"])
        if values[f"{SCOPE}.running"]:
            kind = STREAM if values[f"{SCOPE}.waiting"] else TURNAROUND
            if self._spans and self._spans[-1][0] == kind and self._spans[-1][2] == begin:
                self._spans[-1][2] = end
            else:
                self._spans.append([kind, begin, end])
        if values[f"{SCOPE}.closing"]:
            self._end_pass()

    def _end_operation(self, entry: int) -> None:
        phase = Phase(entry >> PHASE.offset & (1 << PHASE.width) - 1)
        self._layer += phase == Phase.QKV
        inside = Phase.QKV <= phase <= Phase.DOWN
        self._name(phase.name.lower(), self._layer if inside else None)

    def _end_pass(self) -> None:
        self._name(CONTROL, None)
        if self._segments:
            first, last = self._segments[0].begin, self._segments[-1].end
            self.finished.append(PassTrace(self._segments, self._beats(first, last)))
        self._segments, self._layer, self._transfers = [], -1, []

    def _name(self, operation: str, layer: int | None) -> None:
        # What belongs to no operation is control, and the kernel counts all of it as turnaround.
        self._segments += [
            Segment(operation, layer, TURNAROUND if operation == CONTROL else kind, begin, end)
            for kind, begin, end in self._spans
        ]
        self._spans = []

    def _beats(self, first: int, last: int) -> np.ndarray:
        busy = np.zeros((self._channels, -(-(last - first) // WINDOW) * WINDOW), np.int64)
        for channel, begin, end in self._transfers:
            if end > first and begin < last:
                busy[channel, max(begin, first) - first : min(end, last) - first] = 1
        beats: np.ndarray = busy.reshape(self._channels, -1, WINDOW).sum(axis=2)
        return beats
