"""What the benches of the sequencer share: typed ports, agents for strobes that come with values, and a tiny
model.

A `Strobes` drives an input that is a valid bit with values beside it, with gaps and junk; a `Watch` records
an output of that kind. Both know the component's signature, so benches use fields and not bits.
"""

import functools
from dataclasses import replace

from symlight.hw.compiler.layout import Layout
from symlight.hw.compiler.operation_table import header, operation_table
from symlight.hw.config import Engine, card
from symlight.hw.sequencer.argmax import Argmax
from symlight.hw.sequencer.dispatch import Dispatcher
from symlight.hw.sequencer.load import LoadUnit
from symlight.hw.sequencer.session import Session
from symlight.hw.sequencer.state_transfer import StateUnit
from symlight.hw.sequencer.store import Barrier, OperationTable
from symlight.hw.sequencer.tasks import TaskRunner
from symlight.hw.sequencer.tokens import TokenLoop
from symlight.model.config import preset
from symlight.model.synthetic import random_model
from tests.benches.bench import Agent, bits, fields, stalls
from tests.benches.bench_build import ports_only, to_verilog
from tests.benches.vector.vector_bench import SideBySide, pack

LIMIT = {"timeout_time": 10_000_000, "timeout_unit": "ns"}
IDLE = ["never", "random", "bursts", "slow"]


class SmallEngine(Engine):
    """An engine with fewer lanes than a kernel may have, for parts that work lane by lane."""

    def __post_init__(self):
        pass


@functools.cache
def tiny(engine: Engine, name: str = "tiny", seed: int = 1):
    """(layout, model, header, table) of a random model on `engine`; header and table as constants."""
    model = random_model(preset(name), seed)
    layout = Layout(engine, model.shape)
    return layout, model, header(layout, model), operation_table(layout, model)


def plain(const) -> dict:
    """Field values of a constant of a layout."""
    return fields(const.shape(), const.as_bits())


class Ports:
    """The ports of `component` as instance `name` in the design, by name and with plain values."""

    def __init__(self, dut, component, name: str = ""):
        prefix = f"{name}__" if name else ""
        self.shapes, self._handles, self._last = {}, {}, {}
        for path, member, _ in component.signature.flatten(component):
            port = "__".join(map(str, path))
            self.shapes[port] = member.shape
            self._handles[port] = getattr(dut, prefix + port)
        # Plain numbers are by far the most, and need no layout.
        self._numbers = {port for port, shape in self.shapes.items() if isinstance(shape, int)}

    def handle(self, port: str):
        return self._handles[port]

    def set(self, **values):
        for port, value in values.items():
            self._write(port, int(value) if port in self._numbers else self.bits(port, value))

    def junk(self, rng, *ports):
        for port in ports:
            self._write(port, rng.getrandbits(len(self._handles[port])))

    def _write(self, port: str, value: int):
        if self._last.get(port) != value:
            self._handles[port].value = self._last[port] = value

    def get(self, port: str):
        value = int(self._handles[port].value)
        return value if port in self._numbers else fields(self.shapes[port], value)

    def bits(self, port: str, value) -> int:
        """Bit pattern of a constant, of fields (or a list of them), of a sequence or of an integer."""
        if hasattr(value, "as_bits"):
            return value.as_bits()
        if isinstance(value, dict) or (isinstance(value, list) and isinstance(value[0], dict)):
            return bits(self.shapes[port], value)
        return pack(self.shapes[port], value)


class Strobes(Agent):
    """Drives `valid` with the values of the next item; between items the values are junk."""

    def __init__(self, bench, ports: Ports, valid: str, values: tuple = (), idle: str = "never"):
        super().__init__(bench)
        self.ports, self.valid, self.values = ports, valid, values
        self.pattern, self.queue = stalls(bench.rng, idle), []
        self.driven = None  # item of this cycle

    def __str__(self):
        return f"{self.valid}: {len(self.queue)} left"

    def send(self, items, wait: int = 0):
        """Append items (dicts of values); the first comes no sooner than `wait` cycles from now."""
        for i, item in enumerate(items):
            self.queue.append((self.bench.cycle + wait if i == 0 else 0, item))

    def idle(self):
        self.ports.set(**{self.valid: 0})

    def drive(self):
        due = bool(self.queue) and self.queue[0][0] <= self.bench.cycle
        self.driven = self.queue.pop(0)[1] if due and not next(self.pattern) else None
        self.ports.junk(self.bench.rng, *self.values)
        self.ports.set(**{self.valid: self.driven is not None})
        if self.driven is not None:
            self.put(self.driven)

    def put(self, item: dict):
        """Set the values of `item`; for subclasses whose items are no port values."""
        self.ports.set(**item)

    def sample(self):
        self.count += self.driven is not None

    def check_empty(self):
        assert not self.queue, str(self)


class Watch(Agent):
    """Records the cycles with `valid` and the values of `values` in them, as dicts."""

    def __init__(self, bench, ports: Ports, valid: str, values: tuple = (), call=None):
        super().__init__(bench)
        self.ports, self.valid, self.values, self.call = ports, valid, values, call
        self.seen, self.cycles = [], []

    def __str__(self):
        return f"{self.valid}: {self.count} seen"

    def sample(self):
        if int(self.ports.handle(self.valid).value):
            item = {name: self.ports.get(name) for name in self.values}
            self.seen.append(item)
            self.cycles.append(self.bench.cycle)
            self.count += 1
            if self.call:
                self.call(item)


class Delayed(Agent):
    """A memory beside the design: `answer(value of port `ask`)` on port `reply` `latency` cycles later, junk
    before the first."""

    def __init__(self, bench, ports: Ports, ask: str, reply: str, answer, latency: int):
        super().__init__(bench)
        self.ports, self.ask, self.reply, self.answer = ports, ask, reply, answer
        self.pipe = [None] * (latency - 1)

    def drive(self):
        value = self.pipe[0] if self.pipe else None
        if value is None:
            self.ports.junk(self.bench.rng, self.reply)
        else:
            self.ports.set(**{self.reply: self.answer(value)})

    def sample(self):
        self.pipe = [*self.pipe[1:], self.ports.get(self.ask)]


ENGINE = card("sim4")
MANY = replace(ENGINE, channels=16)  # channels that are asked column by column
RECIPROCAL = 14  # reciprocal_latency of the task runner in the benches


def parts() -> dict:
    """Constructor of every part of the sequencer, by its name in the benches' design."""
    return {
        "argmax": lambda: Argmax(ENGINE),
        "table": lambda: OperationTable(ENGINE),
        "barrier": lambda: Barrier(ENGINE.channels),
        "dispatch": lambda: Dispatcher(ENGINE),
        "resident": lambda: Dispatcher(replace(ENGINE, kv_resident=True)),
        "tokens": lambda: TokenLoop(ENGINE),
        "session": lambda: Session(MANY),
        "load": lambda: LoadUnit(ENGINE),
        "state": lambda: StateUnit(ENGINE),
        "tasks": lambda: TaskRunner(ENGINE, reciprocal_latency=RECIPROCAL),
    }


@functools.cache
def sequencer() -> str:
    """Verilog of all parts side by side: one build for all benches of the sequencer."""
    return ports_only(to_verilog(SideBySide(**{name: make() for name, make in parts().items()})))
