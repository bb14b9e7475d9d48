"""Bench of hw.sequencer.tasks: every word operation and drain request of the tiny model's passes, and their
counters."""

import cocotb

from symlight.hw.interface import Counter, Phase
from symlight.hw.sequencer.store import OperationTable
from symlight.hw.sequencer.tasks import ISSUE_CYCLES, TaskRunner
from symlight.hw.types import BroadcastKind, Source, Task
from symlight.hw.vector.words import Route
from tests.benches.bench import Agent, Bench, stalls
from tests.benches.sequencer.sequencer_bench import (
    ENGINE,
    IDLE,
    LIMIT,
    RECIPROCAL,
    Delayed,
    Ports,
    plain,
    tiny,
)

LAYOUT, MODEL, HEADER, TABLE = tiny(ENGINE)
WIDTH, QUERY = LAYOUT.width_words, LAYOUT.query_words
RING = LAYOUT.ring
# Cycles from a word op to its result, about as in the vector unit.
LATENCY = {
    Route.SPIKES: 1,
    Route.REPLAY: 1,
    Route.NORMALISE: 21,
    Route.EVENT: 14,
    Route.DECAY: 16,
    Route.STEP: 6,
    Route.GELU: 17,
    Route.MIX: 18,
    Route.PROBE: 5,
    Route.WEIGHT: 5,
    Route.RESIDUAL: 16,
}
CASTS = (Route.SPIKES, Route.REPLAY, Route.NORMALISE, Route.STEP, Route.GELU, Route.MIX)
ENTRIES = [plain(const) for const in TABLE]


def drained(entry, route, used, **more):
    """Ops and requests of a drain: word i is in column i // slice."""
    out = []
    for i in range(entry["words"]):
        op = {
            "route": route,
            "index": i,
            "last": int(i == entry["words"] - 1),
            "parameter": entry["parameter"] + i,
            "first": int(i == 0),
            "state": entry["state"] + i,
        }
        op |= {name: value(i) for name, value in more.items()}
        column, offset = divmod(i, entry["slice"])
        request = {
            "source": Source.ACC,
            "address": entry["command"]["acc"] + offset,
            "column": column,
            "columns": entry["columns"],
        }
        if route is Route.MIX:
            request |= {"source": Source.WEIGHTED, "address": offset}
        out.append(({name: op[name] for name in ("route", "index", "last", *used, *more)}, request))
    return out


def from_memory(route, **more):
    return [
        ({"route": route, "index": i, "last": int(i == WIDTH - 1)} | {k: v(i) for k, v in more.items()}, None)
        for i in range(WIDTH)
    ]


def weights():
    out = []
    for head in range(RING.columns * RING.heads):
        column, lane = divmod(head, RING.heads)
        request = {"source": Source.WEIGHT, "column": column, "columns": RING.columns}
        op = {"route": Route.WEIGHT, "index": head, "sub": lane, "fresh": int(lane == 0), "last": 0}
        out.append((op, None if lane else request))
    return out


def argmax():
    channels = ENGINE.channels
    return [
        (
            {"route": Route.PROBE, "index": k, "first": int(k == 0), "last": int(k == channels - 1)},
            {"source": Source.BEST, "column": k, "columns": channels},
        )
        for k in range(channels)
    ]


def expected(entry) -> list:
    """What a task does, in order: names of waits, (op, request) pairs."""
    kinds = (BroadcastKind.QUERY, BroadcastKind.KEY, BroadcastKind.VALUE)
    normalise = ["statistics", *from_memory(Route.NORMALISE, parameter=lambda i: entry["norm"] + i)]
    return {
        Task.EMBED: lambda: ["embed"],
        Task.QKV: lambda: [
            *from_memory(Route.SPIKES),
            "op",
            *drained(
                entry, Route.EVENT, ("parameter",), kind=lambda i: kinds[i // QUERY], sub=lambda i: i % QUERY
            ),
        ],
        Task.DECAY: lambda: ["op", *drained(entry, Route.DECAY, ("parameter", "state"))],
        Task.MIX: lambda: [
            "attention",
            *weights(),
            *drained(entry, Route.MIX, ("state",), sub=lambda i: i // RING.head_words),
        ],
        Task.NORM_U: lambda: ["op", *drained(entry, Route.RESIDUAL, ("parameter", "first")), *normalise],
        Task.STEP: lambda: ["op", *drained(entry, Route.STEP, ("parameter",))],
        Task.NORM_C: lambda: ["op", *drained(entry, Route.RESIDUAL, ("parameter", "first")), *normalise],
        Task.PRIOR: lambda: [*from_memory(Route.REPLAY), "op", *drained(entry, Route.GELU, ("parameter",))],
        Task.HEAD: lambda: ["op", *argmax()],
    }[Task(entry["task"])]()


class Unit(Agent):
    """In place of the vector unit and the channels: ends steps, counts elements, lets operations end at any
    time.

    `log` holds (cycle, event): names of waits that ended, and (op, request) pairs as plain values.
    """

    def __init__(self, bench, ports, wait):
        super().__init__(bench)
        self.ports, self.wait, self.log, self.events = ports, stalls(bench.rng, wait), [], {}
        self.ready, self.pause = {"op": 0, "attention": 0}, {}
        self.statistics, self.active, self.adds = None, {}, {}
        self.finished = None
        self.embedding = 0  # cycles in which an embedding row is waited for

    def __str__(self):
        return f"log ends with {self.log[-1:]}"

    def idle(self):
        self.ports.set(done=0, statistics_done=0, active_valid=0, op_ready=0, attention_ready=0)
        self.events.clear()
        self.ready, self.pause = {"op": 0, "attention": 0}, {"op": 0, "attention": 0}

    def at(self, cycles, name, value=1):
        self.events.setdefault(self.bench.cycle + cycles, {})[name] = value

    def drive(self):
        now = self.events.pop(self.bench.cycle, {})
        for name in self.ready:
            self.pause[name] = max(0, self.pause[name] - 1)
            if not self.pause[name] and not self.ready[name]:
                self.ready[name] = not next(self.wait)
        self.ports.set(
            done="done" in now,
            statistics_done="statistics" in now,
            op_ready=self.ready["op"],
            attention_ready=self.ready["attention"],
            active_valid="active" in now,
        )
        if "active" in now:
            self.ports.set(active=now["active"])
        else:
            self.ports.junk(self.bench.rng, "active")
        if "statistics" in now:
            self.log.append((self.bench.cycle, "statistics"))

    def sample(self):
        get, cycle = self.ports.get, self.bench.cycle
        if get("embed_start"):
            self.log.append((cycle, "embed"))
            self.embed()
        request = get("request") if get("request_valid") else None
        if get("op_valid"):
            self.word(get("op"), request)
        else:
            assert request is None, "a drain request without a word op"
        # The op of this cycle was issued in the one before.
        for name in self.ready:
            if get(f"{name}_consume"):
                assert self.ready[name], f"{name} is consumed without being ready"
                self.ready[name], self.pause[name] = 0, 4
                self.log.append((cycle, name))
        if get("add_valid"):
            index = get("add_index")
            self.adds[index] = self.adds.get(index, 0) + get("add_amount")
        if get("finished"):
            assert self.finished is None
            self.finished = (cycle, get("pass_cycles"))

    def counted(self, cycles):
        """A broadcast word whose elements are counted `cycles` from now; which task's they are says
        `current`."""
        entry, amount = self.ports.get("current"), self.bench.rng.randrange(ENGINE.lanes + 1)
        self.at(cycles, "active", amount)
        if entry["counted"]:
            self.active[entry["statistic"]] = self.active.get(entry["statistic"], 0) + amount

    def embed(self):
        rng, cycles = self.bench.rng, 2
        for _ in range(WIDTH):
            cycles += rng.randrange(2, 20)
            self.counted(cycles + 3)
        self.at(cycles + 1, "done")
        self.embedding = cycles + 2  # both ends

    def word(self, op, request):
        self.count += 1
        route = Route(op["route"])
        self.log.append((self.bench.cycle, (op, request)))
        latency = LATENCY[route]
        if route in CASTS:
            self.counted(latency + 3)
        if op["last"] and route is Route.RESIDUAL:
            self.at(latency + self.bench.rng.randrange(5, 30), "statistics")
        elif op["last"]:
            self.at(latency + 1, "done")


def compare(log, wanted):
    assert len(log) == len(wanted), f"{len(log)} events, expected {len(wanted)}"
    for (cycle, got), want in zip(log, wanted, strict=True):
        if isinstance(want, str):
            assert got == want, f"cycle {cycle}: {got} instead of {want}"
            continue
        assert not isinstance(got, str), f"cycle {cycle}: {got} instead of {want}"
        for part, fields_ in zip(got, want, strict=True):
            fields_ = None if fields_ is None else {k: getattr(v, "value", v) for k, v in fields_.items()}
            part = None if part is None or fields_ is None else {k: part[k] for k in fields_}
            assert part == fields_ or (fields_ is None and got[1] is None), (
                f"cycle {cycle}: {got}, expected {want}"
            )


def check_times(log):
    """Drain requests `ISSUE_CYCLES` behind `ready`; reciprocals in time; a word op a cycle within a step."""
    reciprocal = {}
    for (before, first), (after, second) in zip(log, log[1:], strict=False):
        if first in ("op", "attention"):
            assert after - before == ISSUE_CYCLES, f"{after - before} cycles from the channels to a request"
        if isinstance(first, str) or isinstance(second, str):
            continue
        route = first[0]["route"]
        if route == second[0]["route"] != Route.WEIGHT.value and not first[0]["last"]:
            assert after - before == 1, f"{after - before} cycles between words of {Route(route)}"
    for cycle, event in log:
        if isinstance(event, str):
            continue
        if event[0]["route"] == Route.WEIGHT.value:
            reciprocal[event[0]["index"]] = cycle
        if event[0]["route"] == Route.MIX.value:
            assert cycle - reciprocal[event[0]["sub"]] >= RECIPROCAL, "numerators come before the reciprocal"


@cocotb.test(**LIMIT)
@cocotb.parametrize(wait=[*IDLE, "rare"])
async def passes(dut, wait):
    bench = Bench(dut)
    ports = Ports(dut, TaskRunner(ENGINE, reciprocal_latency=RECIPROCAL), "tasks")
    Delayed(bench, ports, "index", "entry", lambda index: TABLE[index % len(TABLE)], OperationTable.LATENCY)
    unit = Unit(bench, ports, wait)
    ports.set(go=0, header=HEADER)
    await bench.reset()
    for head in (0, 1, 1, 0, 1):
        for part in (unit.log, unit.active, unit.adds):
            part.clear()
        unit.finished = None
        await bench.step(bench.rng.choice([0, 1, 40]))
        start = bench.cycle
        ports.set(go=1, head_pass=head)
        await bench.step()
        ports.set(go=0)
        await bench.until(lambda: unit.finished, limit=20_000)
        await bench.step(20)
        assert not ports.get("running")
        tasks = [entry for entry in ENTRIES[:-1] if head or not entry["head"]]
        compare(unit.log, [event for entry in tasks for event in expected(entry)])
        check_times(unit.log)
        end, cycles = unit.finished
        assert cycles == end - start, f"{cycles} cycles counted, {end - start} passed"
        phases = [unit.adds.get(i, 0) for i in range(2 * len(Phase))]
        assert sum(phases) == cycles, f"phases {phases} are {sum(phases)} of {cycles} cycles"
        assert phases[2 * Phase.EMBED] == unit.embedding
        waits = {}
        for entry in tasks:
            assert phases[2 * entry["phase"] + 1] > 0
            if entry["task"] != Task.EMBED.value:
                waits[entry["phase"]] = waits.get(entry["phase"], 0) + 1
        if wait == "never":  # nothing to wait for: a cycle a wait, but what the pause after a pulse hides
            assert all(waits[p] <= phases[2 * p] <= 6 * waits[p] for p in waits), phases
        active = {i - Counter.ACTIVE: n for i, n in unit.adds.items() if i >= Counter.ACTIVE}
        assert active == unit.active, f"active {active}, expected {unit.active}"
        assert set(unit.adds) <= {*range(2 * len(Phase)), *(Counter.ACTIVE + s for s in unit.active)}
    await bench.finish()
    assert unit.count > 100
