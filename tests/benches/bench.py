"""Bench helper shared by all hardware tests: an Amaranth component under cocotb and Verilator.

The pytest side calls `run_bench`: it converts the component to Verilog (ports flattened to `member__payload`
and so on, clock `clk`, reset `rst`), builds it once per content under `build/benches/<hash>`, and runs the
cocotb tests of a module.

The cocotb side (modules `cocotb_<name>.py`) uses `Bench`, which owns the clock, and the agents
`Source` and `Sink`:

    @cocotb.test(timeout_time=100_000, timeout_unit="ns")
    async def transfers(dut):
        bench = Bench(dut)
        source = Source(bench, "i", Item, idle="random")
        sink = Sink(bench, "o", Item, stall="bursts")
        await bench.reset()
        source.send(items)
        await bench.until(lambda: len(sink.received) == len(items), limit=1000)
        await bench.finish()            # no leftovers, nothing extra
        assert sink.received == expected

Every cycle, all agents set inputs, combinational logic settles, all agents sample, then the clock rises. So
what an agent samples is exactly what the registers of the design capture, and there is no ordering between
agents to think about.
"""

import ctypes
import json
import os
import random
import signal
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from tests.benches.bench_build import BenchError, build, environment, to_verilog, verilator_environment
from tests.benches.layout_values import bits, fields
from tests.benches.places import ROOT

BENCHES = ROOT / "tests" / "benches"
PARAMETERS = "SYMLIGHT_BENCH"  # environment variable that carries run_bench's `parameters` as JSON
ERROR_MARKS = ("%Error", "Assertion failed", "Aborting", "Traceback")
REASONS = ("%Error", "AssertionError", "Error:", "Exception")
PR_SET_PDEATHSIG = 1  # of prctl
HELD = 16  # cycles `finish` watches for output that nobody expects


def run_bench(
    component,
    module: str,
    test_filter: str | None = None,
    parameters: dict | None = None,
    seed: int = 1,
    waves: bool = False,
    folder: Path | None = None,
) -> int:
    """Run the cocotb tests of `module` on `component` and return how many ran.

    Parameters
    ----------
    component : wiring.Component
        Design under test, or its Verilog text.
    module : str
        Name of the cocotb module under tests/benches, e.g. "channel.cocotb_gather".
    test_filter : str
        Regular expression that a test's full name ("module.test") must match, or None for all tests.
    parameters : dict
        JSON values that the module reads with `parameters()`.
    seed : int
        Seed of `Bench.rng`.
    waves : bool
        Write `dump.vcd` into the run directory (its path is printed).
    folder : Path
        Where the module is, if not under tests/benches.

    Raises
    ------
    BenchError
        When a test fails, a design assertion fires, the log has errors, or no test ran.
    """
    from cocotb_tools.runner import get_results, get_runner

    built = build(component if isinstance(component, str) else to_verilog(component), waves)
    run = built / f"run-{os.getpid()}-{seed}"
    run.mkdir(exist_ok=True)
    results, log = run / "results.xml", run / "sim.log"
    results.unlink(missing_ok=True)
    place, _, name = module.rpartition(".")
    # The module is found by its bare name, because cocotb draws a test's seed from the module's name, too;
    # the runner hands sys.path to the simulation.
    paths = [str(ROOT), str(folder or BENCHES / place.replace(".", "/")), *sys.path]
    values = verilator_environment() | {
        PARAMETERS: json.dumps(parameters or {}),
        "COCOTB_ANSI_OUTPUT": "0",
    }
    failure = None
    with environment(values), patch.object(sys, "path", paths):
        runner = get_runner("verilator")
        try:
            runner.test(
                test_module=name,
                hdl_toplevel="top",
                hdl_toplevel_lang="verilog",
                build_dir=built / "sim",
                test_dir=run,
                results_xml=str(results),
                test_filter=test_filter,
                seed=seed,
                log_file=log,
                waves=waves,
            )
        except (SystemExit, RuntimeError) as error:  # the runner reports a failing simulation this way
            failure = f"simulation failed: {error}"
    text = log.read_text(errors="replace") if log.exists() else ""
    marks = [mark for mark in ERROR_MARKS if mark in text]
    count, failed = get_results(results) if results.exists() else (0, 0)
    print(f"{module}: {count} tests, seed {seed}, {run}")
    if failure or failed or marks or not count:
        reasons = [line.strip() for line in text.splitlines() if any(word in line for word in REASONS)][:8]
        raise BenchError(
            "\n".join(
                [
                    f"{module}: {failed} of {count} tests failed, log has {marks}, {failure}",
                    *reasons,
                    "...",
                    text[-3000:],
                ]
            )
        )
    return count


# -- The side within the simulation --------------------------------------------------------------------------


def parameters() -> dict:
    """What the pytest side passed to `run_bench(parameters=...)`."""
    return json.loads(os.environ.get(PARAMETERS, "{}"))


def stalls(rng: random.Random, kind: str):
    """Endless booleans, true = stall this cycle: "never", "random" (one in two), "rare" (one in eight),
    "bursts" (long runs of both), "slow" (seven in eight)."""
    odds = {"never": 0.0, "random": 0.5, "rare": 0.125, "slow": 0.875}
    while True:
        if kind == "bursts":
            yield from [True] * rng.randrange(1, 30)
            yield from [False] * rng.randrange(1, 30)
        else:
            yield rng.random() < odds[kind]


def _end_with_parent() -> None:
    """Have the simulation killed when the process that started it dies, however that happens (Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Bench:
    """Clock, reset, random source and cycle counter of one cocotb test.

    Members
    -------
    rng : random.Random
        Seeded by run_bench's `seed`; the seed is logged.
    cycle : int
        Cycles since the bench was made.
    """

    def __init__(self, dut):
        import cocotb

        warnings.simplefilter("error", RuntimeWarning)
        _end_with_parent()
        self.dut = dut
        self.seed = cocotb.RANDOM_SEED
        self.rng = random.Random(self.seed)
        self.cycle = 0
        self.agents = []
        dut._log.info("seed %d", self.seed)

    async def step(self, cycles: int = 1):
        """Run `cycles` clock cycles. Ends with the clock high, registers updated, outputs settled."""
        from cocotb.triggers import Timer

        for _ in range(cycles):
            self.dut.clk.value = 0
            for agent in self.agents:
                agent.drive()
            await Timer(1, "ns")
            for agent in self.agents:
                agent.sample()
            self.dut.clk.value = 1
            await Timer(1, "ns")
            self.cycle += 1

    async def reset(self, cycles: int = 1):
        """Synchronous reset; agents are idle meanwhile and forget nothing."""
        agents, self.agents = self.agents, []
        for agent in agents:
            agent.idle()
        self.dut.rst.value = 1
        await self.step(cycles)
        self.dut.rst.value = 0
        self.agents = agents

    async def until(self, condition, limit: int):
        """Step until `condition()`; fails after `limit` cycles."""
        start = self.cycle
        while not condition():
            assert self.cycle - start < limit, f"no end after {limit} cycles: " + ", ".join(
                map(str, self.agents)
            )
            await self.step()

    async def finish(self):
        """Nothing is left over in any agent, and nothing more comes out."""
        counts = [agent.count for agent in self.agents]
        await self.step(HELD)
        assert [agent.count for agent in self.agents] == counts, "transfers after the expected end"
        for agent in self.agents:
            agent.check_empty()
        assert sum(counts) > 0, "nothing was transferred"


class Agent:
    """Something that drives and samples ports once a cycle; subclasses override what they need."""

    count = 0

    def __init__(self, bench: Bench):
        self.bench, self.dut = bench, bench.dut
        bench.agents.append(self)

    def idle(self):
        """Set inputs as for a cycle without activity."""

    def drive(self):
        """Set inputs of this cycle."""

    def sample(self):
        """Look at settled signals just before the clock edge."""

    def check_empty(self):
        """Fail if something that should have been transferred was not."""


class _StreamEnd(Agent):
    def __init__(self, bench, name, shape, pattern):
        super().__init__(bench)
        self.name, self.shape = name, shape
        self.pattern = stalls(bench.rng, pattern)
        self.valid = getattr(bench.dut, f"{name}__valid")
        self.ready = getattr(bench.dut, f"{name}__ready", None)  # none: always_ready
        self.payload = getattr(bench.dut, f"{name}__payload")

    def __str__(self):
        return f"{self.name}: {self.count} transferred"


class Source(_StreamEnd):
    """Drives a stream input of the design, with random payload while idle.

    `shape` is the payload's layout (items are then dicts of fields) or None (items are plain bit patterns).
    `cycles` holds the cycle of each transfer.
    """

    def __init__(self, bench, name, shape=None, idle: str = "never"):
        super().__init__(bench, name, shape, idle)
        self.queue, self.cycles, self.offered = [], [], False

    def send(self, items):
        """Append `items`, without waiting."""
        self.queue += [self._bits(item) for item in items]

    def _bits(self, item) -> int:
        return item if self.shape is None else bits(self.shape, item)

    def idle(self):
        self.valid.value, self.offered = 0, False

    def drive(self):
        if not self.offered:
            self.offered = bool(self.queue) and not next(self.pattern)
            self.payload.value = (
                self.queue[0] if self.offered else self.bench.rng.getrandbits(len(self.payload))
            )
            self.valid.value = int(self.offered)

    def sample(self):
        if self.offered and (self.ready is None or int(self.ready.value)):
            self.queue.pop(0)
            self.cycles.append(self.bench.cycle)
            self.count += 1
            self.offered = False

    def check_empty(self):
        assert not self.queue, f"{self.name}: {len(self.queue)} items were not accepted"


class Sink(_StreamEnd):
    """Takes a stream output of the design, and checks that valid and payload hold until the transfer.

    `received` holds the items (dicts of fields when `shape` is a layout, else bit patterns), `cycles` when
    each came.
    """

    def __init__(self, bench, name, shape=None, stall: str = "never", hold: bool = True):
        super().__init__(bench, name, shape, stall)
        self.received, self.cycles, self.held, self.hold = [], [], None, hold
        self.accept = False

    def idle(self):
        self.held, self.accept = None, False
        if self.ready is not None:
            self.ready.value = 0

    def drive(self):
        self.accept = not next(self.pattern)
        if self.ready is not None:
            self.ready.value = int(self.accept)

    def sample(self):
        valid = int(self.valid.value)
        word = int(self.payload.value) if valid else None
        if self.held is not None and self.hold:
            assert valid and word == self.held, f"{self.name}: valid or payload does not hold"
        taken = valid and (self.accept or self.ready is None)
        self.held = word if valid and not taken else None
        if taken:
            self.received.append(word if self.shape is None else fields(self.shape, word))
            self.cycles.append(self.bench.cycle)
            self.count += 1
