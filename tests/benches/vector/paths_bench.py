"""What the benches of the vector unit's paths share: a small engine, the paths side by side, and a timeline
of port values."""

import functools

from symlight.hw.vector.attention import FusionPath
from symlight.hw.vector.residual import ResidualPath
from symlight.hw.vector.session_state import DecayPath, EncoderPath
from symlight.hw.vector.unit import VectorUnit
from tests.benches.bench import Agent
from tests.benches.bench_build import ports_only, to_verilog
from tests.benches.sequencer.sequencer_bench import Ports, SmallEngine
from tests.benches.vector.vector_bench import SideBySide

LANES = 4
ENGINE = SmallEngine(channels=2, lanes=LANES, width_words=8, state_words=16, heads=4)

UNIT_ENGINE = SmallEngine(channels=2, lanes=8, width_words=4, state_words=8, parameter_words=64, heads=4)


@functools.cache
def paths(residual=ResidualPath, decay=DecayPath, encoder=EncoderPath, fusion=FusionPath) -> str:
    """Verilog of the four paths side by side; a bench of mistakes gives other classes."""
    return ports_only(
        to_verilog(
            SideBySide(
                residual=residual(ENGINE),
                decay=decay(ENGINE),
                encoder=encoder(ENGINE),
                fusion=fusion(ENGINE),
            )
        )
    )


@functools.cache
def unit(cls=VectorUnit, drain: int = 5) -> str:
    """Verilog of the vector unit, its ports under `unit`."""
    return ports_only(to_verilog(SideBySide(unit=cls(UNIT_ENGINE, drain_latency=drain))))


class Timeline(Agent):
    """Drives ports and checks outputs at planned cycles.

    Parameters
    ----------
    strobes : tuple
        Valid bits: 0 unless planned. Every other planned port is junk in the cycles between.
    outputs : dict
        Valid output -> outputs that come with it; it must be high in exactly the planned cycles.
    """

    def __init__(self, bench, ports: Ports, strobes: tuple, outputs: dict):
        super().__init__(bench)
        self.ports, self.strobes, self.outputs = ports, strobes, outputs
        self.inputs, self.due, self.touched, self.end = {}, {name: {} for name in outputs}, set(), 0

    def __str__(self):
        return f"{self.count} outputs, due { {name: len(due) for name, due in self.due.items()} }"

    def put(self, cycle: int, **values):
        """Port values of `cycle`."""
        assert cycle >= self.bench.cycle
        self.inputs.setdefault(cycle, {}).update(values)
        self.touched |= set(values) - set(self.strobes)
        self.end = max(self.end, cycle)

    def expect(self, cycle: int, valid: str, **values):
        """`valid` is high in `cycle`, with these values of its outputs."""
        assert cycle not in self.due[valid] and set(values) <= set(self.outputs[valid])
        self.due[valid][cycle] = values
        self.end = max(self.end, cycle)

    def idle(self):
        self.ports.set(**dict.fromkeys(self.strobes, 0))

    def drive(self):
        now = self.inputs.pop(self.bench.cycle, {})
        self.ports.set(**{name: now.get(name, 0) for name in self.strobes})
        self.ports.junk(self.bench.rng, *(self.touched - set(now)))
        self.ports.set(**{name: value for name, value in now.items() if name not in self.strobes})

    def sample(self):
        cycle = self.bench.cycle
        for valid, due in self.due.items():
            wanted, seen = due.pop(cycle, None), self.ports.get(valid)
            assert seen == (wanted is not None), (
                f"{valid} is {seen} in cycle {cycle}, next due {sorted(due)[:3]}"
            )
            for name, value in (wanted or {}).items():
                got = self.ports.get(name)
                assert got == value, f"{name} is {got}, expected {value} in cycle {cycle}"
            self.count += wanted is not None

    async def play(self, margin: int = 3):
        """To the end of what is planned."""
        await self.bench.step(max(0, self.end - self.bench.cycle) + margin)

    def check_empty(self):
        assert not self.inputs and not any(self.due.values()), str(self)


def times(bench, pattern, count: int, least: int = 1):
    """`count` increasing cycles from now on, with the gaps of a pattern and at least `least` apart."""
    cycle, out = bench.cycle + 1, []
    while len(out) < count:
        if not next(pattern):
            out.append(cycle)
            cycle += least - 1
        cycle += 1
    return out


def integers(array) -> list[int]:
    return [int(value) for value in array]
