"""The harness around the verilated kernel: registers, memory ports, faults, checks, determinism."""

import threading
import time

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.hw.interface import arguments
from symlight.sim.model import Model, SimulationError, Stop

pytestmark = pytest.mark.timeout(60)
OFFSETS = {a.name: (a.offset, a.size) for a in arguments(2)}
IO, WEIGHTS = 0x1000, 0x1000_2000
BEAT = 32
CTRL, GIE, IER, ISR = 0, 4, 8, 12


class StandIn:
    """The stand-in kernel with memory at both ports."""

    def __init__(self, library, words=200, **options):
        settings = options.pop("settings", {})
        self.model = Model(library, channels=2, clock_mhz=175, settings=settings, **options)
        self.io = np.full(4096, 0xEE, np.uint8)
        rng = np.random.default_rng(5)
        self.weights = (
            np.ascontiguousarray(rng.integers(0, 1 << 32, (words, BEAT // 4), np.uint32))
            .view(np.uint8)
            .reshape(-1)
        )
        self.model.attach(0, IO, self.io)
        self.model.attach(1, WEIGHTS, self.weights)

    def start(self, **values):
        for name, value in ({"io": IO, "hbm01": WEIGHTS} | values).items():
            offset, size = OFFSETS[name]
            for k in range(size // 4):
                self.model.write(offset + 4 * k, value >> 32 * k)
        self.model.write(CTRL, 1)

    def run(self, limit=100000, **values):
        """Run to the end; the words that the kernel wrote."""
        self.model.write(IER, 1)
        self.model.write(GIE, 1)
        self.start(**values)
        assert self.model.run(limit) is Stop.INTERRUPT
        assert self.model.read(CTRL) & 2 and not self.model.read(CTRL) & 2, "done is cleared by reading"
        self.model.write(ISR, self.model.read(ISR))
        return self.io[:BEAT].view(np.uint32)

    def sum(self, beats):
        return int(self.weights.view(np.uint32)[: beats * BEAT // 4 : BEAT // 4].sum(dtype=np.uint32))


STALLS = {f"{channel}_stall": 90 for channel in ("ar", "r", "aw", "w", "b")}


@pytest.mark.parametrize("settings", [{}, {"ideal": 1}, STALLS, {"bursts": 1}, {"bytes": 1024, "junk": 0}])
def test_run_reads_and_writes(library, settings):
    kernel = StandIn(library, settings=settings)
    for run_id, beats in enumerate((1, 200, 37)):
        words = kernel.run(run_id=run_id, n_prompt=beats, n_new=3, command=4)
        assert words.tolist() == [run_id, kernel.sum(beats), 0, 4, 0, 0, 0, 0]
    assert (kernel.io[BEAT:] == 0xEE).all(), "bytes beside the written beat changed"
    assert kernel.model.counter("read_beats", 1) == kernel.model.total("read_bursts") == 238
    assert kernel.model.counter("write_beats", 0) == 3
    assert kernel.model.counter("bursts_max", 1) <= settings.get("bursts", 64)
    assert kernel.model.counter("bytes_max", 1) <= settings.get("bytes", 4096)


def test_same_seed_same_cycles(library):
    def cycles(seed):
        kernel = StandIn(library, settings=STALLS, seed=seed)
        kernel.run(n_prompt=200)
        return kernel.model.cycles

    assert cycles(1) == cycles(1)
    assert len({cycles(seed) for seed in range(8)}) > 1


def test_addresses_outside_memory_answer_decode_errors(library):
    kernel = StandIn(library)
    assert kernel.run(n_prompt=201)[2] == 3, "one beat after the buffer"
    assert kernel.run(n_prompt=1, hbm01=WEIGHTS - BEAT)[2] == 3
    assert kernel.run(n_prompt=200)[2] == 0
    kernel.model.detach(1, WEIGHTS)
    assert kernel.run(n_prompt=1)[2] == 3


@pytest.mark.parametrize("response", [2, 3])
def test_injected_faults(library, response):
    kernel = StandIn(library)
    kernel.model.inject(1, WEIGHTS + 100 * BEAT, BEAT, response, writes=False)
    assert kernel.run(n_prompt=100)[2] == 0
    assert kernel.run(n_prompt=101)[2] == response
    kernel.model.clear_faults()
    assert kernel.run(n_prompt=101)[2] == 0
    kernel.model.inject(0, IO, BEAT, response, reads=False)
    kernel.io[:] = 0
    kernel.run(n_prompt=1, run_id=9)
    assert not kernel.io.any(), "a refused write must not arrive"


def test_limit_and_reset(library):
    kernel = StandIn(library)
    kernel.start(n_prompt=1, n_new=5000)
    assert kernel.model.run(1000) is Stop.LIMIT
    before = kernel.model.cycles
    assert (
        kernel.model.run(1000, until_interrupt=False) is Stop.LIMIT and kernel.model.cycles == before + 1000
    )
    assert kernel.model.read(CTRL) == 1
    kernel.model.reset()
    assert kernel.model.read(CTRL) == 4, "idle"
    assert kernel.run(n_prompt=7, run_id=1)[1] == kernel.sum(7)


def test_stop_from_another_thread(library):
    kernel = StandIn(library)
    threading.Timer(0.2, kernel.model.stop).start()
    begin = time.monotonic()
    assert kernel.model.run(1 << 60) is Stop.STOPPED
    assert time.monotonic() - begin < 10


def test_idle_time_does_not_age_the_memory(library):
    """After a thousand refreshes that nobody waited for, reads take as long as any."""
    kernel = StandIn(library)
    kernel.model.run(1_000_000, until_interrupt=False)
    kernel.run(n_prompt=50)
    assert kernel.model.counter("latency_max", 1) < 150


def test_failed_assertion_is_an_error(library):
    kernel = StandIn(library)
    with pytest.raises(SimulationError, match="assertion"):
        kernel.start(n_prompt=1, flags=1)
        kernel.model.run(100)
    kernel.model.reset()
    assert kernel.run(n_prompt=3, flags=0)[1] == kernel.sum(3)


def test_withdrawn_address_is_an_error(library):
    kernel = StandIn(library, settings={"ar_stall": 200})
    with pytest.raises(SimulationError, match="hbm1: AR changed"):
        kernel.start(n_prompt=50, flags=2)
        kernel.model.run(1000)


def test_wrong_use_is_refused(library):
    with pytest.raises(UserError, match="no_such"):
        Model(library, channels=2, clock_mhz=175, settings={"no_such": 1})
    kernel = StandIn(library)
    with pytest.raises(ValueError, match="no_such"):
        kernel.model.counter("no_such", 0)
    with pytest.raises(ValueError, match="contiguous"):
        kernel.model.attach(0, 0, np.zeros(64, np.uint8)[::2])
    with pytest.raises(UserError, match="trace"):
        kernel.model.trace("x.vcd")
