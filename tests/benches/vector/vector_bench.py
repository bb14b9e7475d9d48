"""What the benches of the vector unit's pipelines share: components side by side, and an agent for one.

A pipeline takes a word in every cycle with `i_valid` and gives the result `LATENCY` cycles later; `Pipe`
drives words with gaps and junk in between, and compares every cycle of the outputs.
"""

import numpy as np
from amaranth.hdl import Module, Shape
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Flow, Out

from symlight.hw.config import Engine
from symlight.hw.vector.reduce import DrainReduce
from tests.benches.bench import Agent, fields, stalls

IDLE = ["never", "random", "bursts", "slow"]
LIMIT = {"timeout_time": 10_000_000, "timeout_unit": "ns"}
SUMMED_LANES = 4  # of the words that the benches reduce


def reduction(channels: int) -> DrainReduce:
    """A reduction of so many channels, as a kernel has it."""
    return DrainReduce(channels, SUMMED_LANES, joined=Engine(channels=channels).joined)


class SideBySide(wiring.Component):
    """Components as one design, each with its ports under its name: one build for all of them."""

    def __init__(self, **components):
        self._components = components
        super().__init__({name: Out(component.signature) for name, component in components.items()})

    def elaborate(self, platform):
        m = Module()
        for name, component in self._components.items():
            m.submodules[name] = component
            wiring.connect(m, wiring.flipped(getattr(self, name)), component)
        return m


def pack(shape, value) -> int:
    """Bits of an integer, or of a sequence of integers for an array."""
    if isinstance(shape, data.ArrayLayout):
        width = Shape.cast(shape.elem_shape).width
        return sum((int(element) & ((1 << width) - 1)) << (width * i) for i, element in enumerate(value))
    return int(value) & ((1 << Shape.cast(shape).width) - 1)


class Pipe(Agent):
    """Drives one pipeline and checks its results.

    Parameters
    ----------
    name : str
        Its name in the design.
    component : wiring.Component
        An equal component, for its ports and latency.
    idle : str
        Pattern of cycles without a word.
    static : dict
        Values of ports that do not change.
    latency : dict
        Latency of outputs that are not at `LATENCY`, by the name of their valid bit.
    hold : bool
        Results stay until the next.

    `send` takes an input dict and the dict of expected outputs, or None for a word without a result.
    """

    def __init__(self, bench, name, component, idle="never", static=None, latency=None, hold=False):
        super().__init__(bench)
        self.name, self.pattern, self.hold = name, stalls(bench.rng, idle), hold
        self.static = static or {}
        self.latency = {"o_valid": component.LATENCY} | (latency or {})
        self.inputs, self.outputs = {}, {}
        for path, member, _ in component.signature.flatten(component):
            port = "__".join(map(str, path))
            (self.inputs if member.flow is Flow.In else self.outputs)[port] = member.shape
        self.queue, self.history, self.last, self.lost = [], [], None, 0

    def __str__(self):
        return f"{self.name}: {len(self.queue)} words left"

    def port(self, name):
        return getattr(self.dut, f"{self.name}__{name}")

    def send(self, inputs: dict, expected: dict | None):
        assert {"i_valid", *inputs, *self.static} == set(self.inputs), (inputs.keys(), self.inputs.keys())
        words = {port: pack(self.inputs[port], value) for port, value in inputs.items()}
        self.queue.append((words, expected, inputs))

    def send_all(self, inputs: dict, expected: dict):
        """Words from arrays whose first axis counts them."""
        for i in range(len(next(iter(inputs.values())))):
            self.send({k: v[i] for k, v in inputs.items()}, {k: v[i] for k, v in expected.items()})

    def idle(self):
        self.port("i_valid").value = 0
        for port, value in self.static.items():
            self.port(port).value = pack(self.inputs[port], value)

    def drive(self):
        item = self.queue.pop(0) if self.queue and not next(self.pattern) else None
        self.history.append(item)
        self.port("i_valid").value = int(item is not None)
        for port, shape in self.inputs.items():
            if port != "i_valid" and port not in self.static:
                junk = self.bench.rng.getrandbits(Shape.cast(shape).width) if item is None else item[0][port]
                self.port(port).value = junk

    def sample(self):
        for valid, latency in self.latency.items():
            item = self.history[-1 - latency] if len(self.history) > latency else None
            due = item is not None and item[1] is not None
            seen = int(self.port(valid).value)
            assert seen == due, f"{self.name}: {valid} is {seen} in cycle {self.bench.cycle}, expected {due}"
            if due:
                self.check(valid, item[1], item[2])
                if valid == "o_valid":
                    self.count += 1
                    self.last = item[1:]
        if self.hold and self.last:
            self.check("o_valid", *self.last)
        self.history = self.history[-1 - max(self.latency.values()) :]

    def forget(self):
        """The design is reset: what is under way does not come out."""
        under_way = self.history[-self.latency["o_valid"] :]
        self.lost += sum(item is not None and item[1] is not None for item in under_way)
        self.history, self.last = [], None

    def check(self, valid, expected, inputs):
        """Compare the outputs that come with `valid`.

        A key of `expected` is an output, or "valid.output" if it does not come with o_valid.
        """
        for key, wanted in expected.items():
            group, _, port = key.rpartition(".")
            if (group or "o_valid") == valid:
                got = fields(self.outputs[port], int(self.port(port).value))
                wanted = [int(x) for x in wanted] if isinstance(wanted, np.ndarray) else int(wanted)
                assert got == wanted, f"{self.name}: {port} is {got}, expected {wanted} for {inputs}"

    def check_empty(self):
        assert not self.queue, f"{self.name}: {len(self.queue)} words were not taken"
        assert self.count > 0, f"{self.name}: no result was checked"


async def run(bench, *pipes, restart: bool = True):
    """Reset and send everything that is queued, with a second reset on the way (`restart`)."""
    counts = [sum(item[1] is not None for item in pipe.queue) for pipe in pipes]
    limit = 20 * max(len(pipe.queue) for pipe in pipes) + 100
    await bench.reset()
    if restart:
        half = len(pipes[0].queue) // 2
        await bench.until(lambda: len(pipes[0].queue) <= half, limit=limit)
        await bench.reset()
        for pipe in pipes:
            pipe.forget()
    await bench.until(lambda: all(not pipe.queue for pipe in pipes), limit=limit)
    await bench.step(64)
    await bench.finish()
    assert [pipe.count + pipe.lost for pipe in pipes] == counts


def numbers(rng, bits: int, size, signed: bool = True):
    """Integers of `bits` bits: uniform, of every magnitude, and the extremes."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    uniform = rng.integers(low, high + 1, size)
    magnitude = uniform >> rng.integers(0, bits, size)
    special = rng.choice(
        [low, low + 1, high, high - 1, 0, 1, min(2, high), -1 if signed else high >> 1], size
    )
    kind = rng.integers(0, 8, size)
    return np.where(kind == 0, special, np.where(kind < 5, magnitude, uniform))


def ties(rng, size, bits: int = 31):
    """(acc, multiplier, shift) whose product is halfway between two results, of both signs."""
    power = rng.integers(0, 15, size)
    shift = rng.integers(np.maximum(power + 1, 1), np.minimum(power + bits - 3, 47) + 1)
    odd = 2 * rng.integers(-(1 << 20), 1 << 20, size) + 1
    room = bits - (shift - 1 - power)  # bits left for the odd number
    odd = np.sign(odd) * (np.abs(odd) >> np.maximum(0, 22 - np.maximum(room - 1, 1)) | 1)
    return odd << (shift - 1 - power), np.int64(1) << power, shift
