"""Measurements with the probe (hw.probe): what the memory ports of a card do, in the simulator's terms."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from symlight.base.errors import DeviceFault, UserError
from symlight.hw.axi import MAX_BURST, PAGE_BYTES
from symlight.hw.config import Engine
from symlight.hw.interface import SAMPLER_ARGUMENTS, Command, Io
from symlight.hw.probe.layout import ARGUMENTS, MOST_FLYING, PORT_COUNTERS, Pattern, PortResult

from ..device.card import SCALAR_LIMIT, KernelCard
from ..device.mailbox import BYTES as MAILBOX_BYTES
from ..device.mailbox import Mailbox

REGION_BYTES = 64 << 20  # that a port reads, over and over
POLL_MS, TIME_LIMIT_MS = 20, 60_000
LATE_CYCLES = 8  # later than this is behind a refresh, of which 260 ns are 45 cycles at 175 MHz
STREAM_BURSTS = 20_000
FLYING = (1, 2, 4, 6, 8, 12, 16, 32, 64)


@dataclass(frozen=True)
class Question:
    """One run of the probe.

    Members
    -------
    ports : int
        Ports 0 .. ports - 1 read.
    bursts, beats : int
        Bursts of every port, and beats of each.
    flying : int
        Bursts of a port that may be on their way.
    stride : int or None
        Beats from burst to burst; None: one behind the other.
    gap : int
        Cycles without a beat that count as a gap.
    """

    ports: int
    bursts: int
    beats: int = MAX_BURST
    flying: int = MOST_FLYING
    stride: int | None = None
    gap: int = LATE_CYCLES

    def scalars(self, engine: Engine) -> dict[str, int]:
        """Values of the kernel's arguments; a `UserError` for what the probe cannot do."""
        stride = self.stride or self.beats
        if not 1 <= self.ports <= engine.channels:
            raise UserError(f"a probe of {engine.channels} ports cannot read from {self.ports}")
        if not 1 <= self.flying <= MOST_FLYING or not 1 <= self.bursts < SCALAR_LIMIT:
            raise UserError(
                f"the probe: {self.bursts} bursts, {self.flying} on their way; 1 to {MOST_FLYING}"
            )
        if (
            not 1 <= self.beats <= MAX_BURST
            or stride % self.beats
            or PAGE_BYTES % (self.beats * engine.beat_bytes)
        ):
            raise UserError(
                f"the probe: bursts of {self.beats} beats every {stride} would cross 4 KB; "
                f"give a power of two up to {MAX_BURST}, and a multiple of it"
            )
        pattern = Pattern.const({"ports": self.ports, "beats": self.beats, "stride": stride}).as_value().value
        wanted = {
            "bursts": self.bursts,
            "flying": self.flying,
            "span": max(1, REGION_BYTES // (stride * engine.beat_bytes)),
            "pattern": pattern,
            "gap": self.gap,
        }
        return {ARGUMENTS[name]: value for name, value in wanted.items()}


@dataclass(frozen=True)
class Figures:
    """What one port measured; `hw.probe.layout.PortResult` with figures that follow from it."""

    clock_mhz: float
    beat_bytes: int
    bursts: int
    cycles: int
    beats: int
    latency_least: int
    latency_most: int
    latency_sum: int
    gaps: int
    gap_cycles: int
    gap_longest: int

    @property
    def gigabytes_per_second(self) -> float:
        return self.beats * self.beat_bytes * self.clock_mhz / (1000 * max(1, self.cycles))

    @property
    def cycle_ns(self) -> float:
        return 1000 / self.clock_mhz


class ProbeRunner:
    """Runs questions on an opened card whose kernel is a probe.

    Parameters
    ----------
    card : KernelCard
    engine : Engine
        Of the probe.
    build_id : int
        That the probe must report.
    """

    def __init__(self, card: KernelCard, engine: Engine, build_id: int, clock_mhz: float | None = None):
        self._card, self._engine, self._build_id = card, engine, build_id
        self._clock_mhz = clock_mhz or engine.clock_mhz
        self._run_id = random.SystemRandom().randrange(1, SCALAR_LIMIT // 2)
        sizes = {f"hbm{k:02d}": REGION_BYTES for k in range(engine.channels)}
        card.allocate({"io": Io.SIZE} | sizes)

    def ask(self, question: Question) -> list[Figures]:
        """Figures of every port that read, in order; a `DeviceFault` names the port that failed."""
        self._run_id += 1
        self._card.write("io", Io.MAILBOX, np.zeros(MAILBOX_BYTES, np.uint8))
        unused = dict.fromkeys(SAMPLER_ARGUMENTS, 0)
        scalars = unused | question.scalars(self._engine)
        self._card.start(command=Command.GENERATE, run_id=self._run_id, **scalars)
        for _ in range(TIME_LIMIT_MS // POLL_MS):
            if self._card.wait(POLL_MS):
                break
        else:
            raise DeviceFault(f"the probe did not end within a minute; {self._card.reset}")
        raw = bytes(self._card.read("io", Io.MAILBOX, MAILBOX_BYTES))
        mailbox = Mailbox.decode(raw, self._run_id, self._card.reset)
        if mailbox.build_id != self._build_id:
            raise UserError(
                f"the kernel on the card is build {mailbox.build_id:032x}, the manifest says "
                f"{self._build_id:032x}; use the manifest that belongs to the xclbin"
            )
        if not mailbox.ok:
            raise DeviceFault(mailbox.fault(0, self._card.reset))
        return [self._figures(mailbox.counters, k, question) for k in range(question.ports)]

    def _figures(self, counters: np.ndarray, port: int, question: Question) -> Figures:
        words = counters[PORT_COUNTERS * port : PORT_COUNTERS * (port + 1)]
        raw = sum(int(word) << 64 * k for k, word in enumerate(words))
        result = PortResult.from_bits(raw)
        values = {name: int(getattr(result, name)) for name in PortResult.as_shape().members}
        return Figures(self._clock_mhz, self._engine.beat_bytes, question.bursts, **values)


@dataclass(frozen=True)
class Summary:
    """What the measurements say of the parameters of the memory model (sim/harness/hbm.h).

    Ranges are least and most over the ports.

    Members
    -------
    idle_latency_ns : (float, float)
        From an address taken to its beat, one beat at a time, when no refresh is in the way.
    refresh_interval_ns, refresh_ns : (float, float) or None
        Time between refreshes, and how long one delays a beat at most; None: none was seen.
    bandwidth : dict of int -> (float, float)
        Bursts on their way -> GB/s of a port, all ports reading.
    stream_gap_ns : (float, float)
        Longest time without a beat with the most bursts on their way: what of a refresh shows.
    """

    idle_latency_ns: tuple[float, float]
    refresh_interval_ns: tuple[float, float] | None
    refresh_ns: tuple[float, float] | None
    bandwidth: dict[int, tuple[float, float]]
    stream_gap_ns: tuple[float, float]

    @property
    def saturated_at(self) -> int:
        """Least bursts on their way with which the slowest port is within 2 % of its best."""
        best = max(least for least, _ in self.bandwidth.values())
        return min(flying for flying, (least, _) in self.bandwidth.items() if least >= 0.98 * best)


def _range(values) -> tuple[float, float]:
    found = list(values)
    return min(found), max(found)


def measure(
    runner: ProbeRunner,
    ports: int,
    *,
    bursts: int = STREAM_BURSTS,
    flying: Sequence[int] = FLYING,
    say: Callable[[str], None] = lambda line: None,
) -> Summary:
    """The measurements of a probe, in the order in which they are worth having."""
    idle = runner.ask(Question(ports, 500, beats=1, flying=1, stride=MAX_BURST))
    latency = _range(one.latency_least * one.cycle_ns for one in idle)
    say(f"latency of a beat by itself: {latency[0]:.0f} to {latency[1]:.0f} ns")
    # A beat that comes late by this was behind a refresh.
    late = max(one.latency_least for one in idle) + LATE_CYCLES
    # Accesses of one length may keep in step with the refreshes and never meet the begin of one.
    lone = [
        runner.ask(
            Question(ports, max(bursts, 500), beats=beats, flying=1, stride=MAX_BURST, gap=late + beats)
        )
        for beats in (1, 2, 4, 8)
    ]
    interval = refresh = None
    if any(one.gaps for one in lone[0]):
        interval = _range(one.cycles / max(1, one.gaps) * one.cycle_ns for one in lone[0])
        longest = [max(one.latency_most for one in port) for port in zip(*lone, strict=True)]
        refresh = _range((m - o.latency_least) * o.cycle_ns for m, o in zip(longest, idle, strict=True))
        say(f"refresh every {interval[0]:.0f} to {interval[1]:.0f} ns, up to {refresh[1]:.0f} ns long")
    bandwidth, last = {}, idle
    for limit in flying:
        last = runner.ask(Question(ports, bursts, flying=limit))
        bandwidth[limit] = _range(one.gigabytes_per_second for one in last)
        least, most = bandwidth[limit]
        say(f"{limit} bursts on their way: {least:.2f} to {most:.2f} GB/s a port")
    gap = _range(one.gap_longest * one.cycle_ns for one in last)
    say(f"longest time without a beat in the last: {gap[0]:.0f} to {gap[1]:.0f} ns")
    return Summary(latency, interval, refresh, bandwidth, gap)
