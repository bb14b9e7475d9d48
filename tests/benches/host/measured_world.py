"""A card, its power and the time, all made up, so that every figure of the protocol has a known answer."""

import bisect
from types import SimpleNamespace

import numpy as np

from symlight.host.bench.protocol import Campaign, ProtocolSettings
from symlight.host.bench.protocol_report import protocol_json
from symlight.host.bench.telemetry import Reading, Sample, Series
from symlight.host.device.machine import Cycles, RunResult

SHORT = ProtocolSettings(prefixes=(32, 128), new_tokens=128, rounds=3, seconds=60, idle_seconds=60)


class World:
    """Time that passes only when somebody works or sleeps, and a machine whose runs take and draw what the
    test says.

    Members
    -------
    idle, busy : float
        Watts of the card.
    prefill, decode : float
        Seconds of a run of a prompt, of a run that generates.
    overhead : float
        Seconds of a reset: part of no run.
    drift : callable(time) -> watts
        Added to both: a card that warms up.
    """

    def __init__(
        self, *, idle=23.0, busy=28.0, prefill=0.05, decode=0.2, overhead=0.001, drift=lambda t: 0.0
    ):
        self.idle, self.busy, self.prefill = idle, busy, prefill
        self.decode, self.overhead, self.drift = decode, overhead, drift
        self.now = 100.0
        self.edges, self.levels = [0.0], [idle]  # power as steps: from edge on, level
        self.runs: list[tuple[int, int]] = []

    # ---- host ----

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    # ---- power ----

    def _level(self, watts: float) -> None:
        self.edges.append(self.now)
        self.levels.append(watts)

    def power(self, time: float) -> float:
        return self.levels[bisect.bisect_right(self.edges, time) - 1] + self.drift(time)


class WorldMachine:
    """A `host.device.machine.Machine` in a world."""

    name, clock_mhz = "xrt:0", 100.0

    def __init__(self, world: World):
        self.world, self.pending, self.position, self.broken = world, None, 0, None

    def reset(self) -> None:
        self.world.now += self.world.overhead

    def run(self, prompt, n_new, eos, on_token=None) -> RunResult:
        world = self.world
        world.runs.append((len(prompt), n_new))
        world._level(world.busy)
        seconds = world.decode if n_new else world.prefill
        world.now += seconds
        world._level(world.idle)
        tokens = [7 * i % 5 for i in range(n_new)]
        if self.broken is not None and len(world.runs) >= self.broken:
            tokens[-1] = 99
        cycles = round(seconds * self.clock_mhz * 1e6 * 0.9)  # the host sees a tenth more
        return RunResult(
            tokens=tokens,
            prompt_passes=max(0, len(prompt) - 1) if not n_new else 1,
            decode_passes=max(0, n_new - 1),
            active=np.zeros((1, 4), np.int64),
            cycles=Cycles(cycles, 0 if n_new else cycles, cycles if n_new else 0, {}),
        )


class WorldSampler:
    """What `host.bench.telemetry.Sampler` is, without a thread: samples the world's past when asked.

    The sensor measures every `refresh` seconds with a phase and jitter, and is read every `period`; `silent`:
    (from, to) without answers.
    """

    def __init__(
        self, world: World, *, period=0.25, phase=0.3, jitter=0.0, seed=1, silent=(0.0, 0.0), mute=False
    ):
        self.world, self.period, self.phase = world, period, phase
        self.jitter, self.silent, self.mute = jitter, silent, mute
        self.sensor, self.failed, self._seed = SimpleNamespace(source="made up"), 0, seed
        self.entered = self.left = False

    def __enter__(self):
        self.entered, self.start = True, self.world.now - 5
        rng = np.random.default_rng(self._seed)
        ticks = np.arange(self.start - 2 + self.phase, self.start + 4000)
        self._ticks = ticks + rng.uniform(-self.jitter, self.jitter, len(ticks))
        self._polled, self._samples = self.start, []
        return self

    def __exit__(self, *_):
        self.left = True

    def snapshot(self) -> Series:
        while self._polled < self.world.now:
            tick = float(self._ticks[np.searchsorted(self._ticks, self._polled, "right") - 1])
            if not self.silent[0] <= self._polled < self.silent[1]:
                watts = None if self.mute else self.world.power(tick)
                warm = {"fpga0": 70 + (tick - self.start) / 100}
                self._samples.append(Sample(self._polled, Reading(watts, warm, f"{tick} {watts}")))
            self._polled += self.period
        return Series(list(self._samples))

    patience = 6.0

    def has_past(self, moment: float) -> bool:
        times, _ = self.snapshot().power()
        return bool(times) and times[-1] >= moment


def campaign(world: World, chosen=SHORT, *, sampler="made up", machine=None, **more) -> Campaign:
    sampler = WorldSampler(world) if sampler == "made up" else sampler
    prompts = {prefix: list(range(prefix)) for prefix in chosen.prefixes}
    return Campaign(
        machine or WorldMachine(world),
        chosen,
        prompts,
        sampler,
        "made up",
        clock=world.clock,
        sleep=world.sleep,
        **more,
    )


def measured(world: World, chosen=SHORT, **more) -> dict:
    return protocol_json(campaign(world, chosen, **more).run(), {"device": "xrt:0"})
