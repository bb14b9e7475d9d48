"""The simulated card behind `pyxrt_sim`: memory banks, the loaded kernel, the queue of runs.

A card is plugged into an index; `pyxrt_sim.device(index)` finds it there:

    card = plug(SimOptions(hbm="ideal"))        # device 0
    device = pyxrt_sim.device(0)

Simulated time passes only while a run is waited for, or its state is asked. Everything is deterministic: the
same calls, options and seed give the same cycles, whatever the speed of the machine.
"""

import bisect
import os
import threading
import time
from collections import deque

import numpy as np

from symlight.hw.axi import BANK_BYTES
from symlight.hw.control import CTRL, GIE, IER, ISR

from .build import build_model
from .manifest import KernelFolder
from .model import Model, SimulationError
from .options import SimOptions

BANKS = 32
PAGE = 4096
UNWRITTEN = 0xA5  # what fresh device memory holds: nobody may count on zeros
ARGUMENTS = 0x10  # first argument in the register map
START, DONE = 1, 2  # bits of CTRL
DONE_EVENT = 1  # bit of ISR

# As XRT's scheduler does: look at CTRL some times, then turn to interrupts, with a slow poll against lost
# ones.
POLLS, POLL_CYCLES, FALLBACK_CYCLES = 30, 200, 1 << 22


def _threads(channels: int) -> int:
    """Simulation threads that pay: smaller kernels spend a cycle's time on meeting."""
    return min(2, len(os.sched_getaffinity(0))) if channels >= 16 else 1


class Allocation:
    """Device memory of one buffer: `data` at `address` of `bank`."""

    def __init__(self, card: "SimCard", bank: int, address: int, size: int):
        self.card, self.bank, self.address, self.size = card, bank, address, size
        self.data = np.full(size, UNWRITTEN, np.uint8)


class Job:
    """One start of the kernel: the register words from ARGUMENTS on, and how far it is ("queued", "running",
    "completed" or "failed")."""

    def __init__(self, words: list[int], keep: object):
        self.words, self.state = words, "queued"
        self.keep = keep  # buffers stay allocated while the kernel may use them
        self.first = self.last = 0  # cycles of start and end

    @property
    def ended(self) -> bool:
        return self.state in ("completed", "failed")


class SimCard:
    """One simulated card. `model` is the loaded simulator or None; its counters and faults are open to
    tests."""

    def __init__(self, options: SimOptions):
        self.options = options
        self.kernel: KernelFolder | None = None
        self.model: Model | None = None
        self._banks: list[list[Allocation]] = [[] for _ in range(BANKS)]
        self._jobs: deque[Job] = deque()
        self._lock = threading.RLock()
        self._speed = 20000.0  # cycles a second, measured; only the length of a slice depends on it
        self._polls = 0
        self._next_look = 0  # cycle of the next look at CTRL without an interrupt

    # ---- kernel and memory ----

    def load(self, kernel: KernelFolder) -> None:
        """Program the card. As on a card, loading what is loaded changes nothing: no reset, no new
        programming."""
        with self._lock:
            if self.kernel is not None and self.kernel.build_id == kernel.build_id:
                return
            if self._jobs:
                raise RuntimeError("the card is busy: a run has not ended")
            o = self.options
            library = build_model(
                kernel.sources,
                kernel.engine,
                o.cache,
                trace=o.waveform,
                assertions=o.assertions,
                optimise=o.optimise,
                progress=o.progress,
            )
            if self.model is not None:
                self.model.close()
            self.model = Model(
                library,
                channels=kernel.engine.channels,
                clock_mhz=o.clock_mhz or kernel.engine.clock_mhz,
                seed=o.seed,
                threads=o.threads or _threads(kernel.engine.channels),
                settings=o.settings(),
            )
            if o.trace is not None:
                self.model.trace(o.trace)
            self.kernel = kernel
            for bank in self._banks:
                for allocation in bank:
                    self._attach(allocation)

    @property
    def _loaded(self) -> Model:
        if self.model is None:
            raise RuntimeError("no xclbin is loaded")
        return self.model

    def _attach(self, allocation: Allocation) -> None:
        if allocation.bank < self._loaded.channels:
            self._loaded.attach(allocation.bank, allocation.address, allocation.data)

    def allocate(self, bank: int, size: int) -> Allocation:
        """`size` bytes of `bank`, in whole pages."""
        if self.model is None:
            raise RuntimeError(
                "a buffer was made before an xclbin was loaded: the card has no memory banks yet"
            )
        if not 0 <= bank < BANKS:
            raise IndexError(f"there is no memory bank {bank}")
        size = -(-size // PAGE) * PAGE
        with self._lock:
            address, base = bank * BANK_BYTES, bank * BANK_BYTES
            for other in self._banks[bank]:  # by address: the first gap that fits
                if other.address - address >= size:
                    break
                address = other.address + other.size
            if address + size > base + BANK_BYTES:
                raise MemoryError(f"no room for {size} bytes in HBM[{bank}] (a bank has {BANK_BYTES})")
            allocation = Allocation(self, bank, address, size)
            bisect.insort(self._banks[bank], allocation, key=lambda a: a.address)
            self._attach(allocation)
        return allocation

    def free(self, allocation: Allocation) -> None:
        """Give an allocation back."""
        with self._lock:
            self._banks[allocation.bank].remove(allocation)
            if allocation.bank < self._loaded.channels:
                self._loaded.detach(allocation.bank, allocation.address)

    # ---- runs ----

    def submit(self, job: Job) -> None:
        """Start the kernel with `job`, or queue it after those that have not ended."""
        with self._lock:
            _ = self._loaded  # refused without one
            self._jobs.append(job)
            if len(self._jobs) == 1:
                self._start()

    def _start(self) -> None:
        job, model = self._jobs[0], self._loaded
        for i, word in enumerate(job.words):  # the whole map, gaps included, then start
            model.write(ARGUMENTS + 4 * i, word)
        model.write(GIE, 0)
        model.write(CTRL, START)
        job.state, job.first = "running", model.cycles
        self._polls, self._next_look = 0, model.cycles + POLL_CYCLES

    def advance(self, job: Job, milliseconds: float | None) -> None:
        """Simulate until `job` has ended, or `milliseconds` of wall time have passed (None: as long as it
        takes)."""
        limit = None if milliseconds is None else time.monotonic() + milliseconds / 1000
        while not job.ended:
            begin = time.monotonic()
            if limit is not None and begin >= limit:
                return
            seconds = 0.05 if limit is None else min(0.05, limit - begin)
            with self._lock:
                if job.ended:  # by another thread
                    return
                model = self._loaded
                before = model.cycles
                try:
                    self._slice(max(100, int(self._speed * seconds)))
                except SimulationError:
                    self._fail()
                    raise
                cycles = model.cycles - before
            spent = time.monotonic() - begin
            if cycles >= 100:
                self._speed = max(1000.0, cycles / max(spent, 1e-6))
            if self.options.progress:
                self.options.progress("simulate", model.cycles - job.first, 0)

    def _slice(self, cycles: int) -> None:
        """Up to `cycles` cycles. When registers are read depends on the cycle count alone."""
        model = self._loaded
        left = min(cycles, self._next_look - model.cycles)
        if left > 0 and not model.run(left, until_interrupt=True) and model.cycles < self._next_look:
            return
        # ISR too: an exception right after the read of CTRL, as by Ctrl-C, would lose the bit that reading
        # clears.
        if model.read(CTRL) & DONE or model.read(ISR) & DONE_EVENT:
            self._finish()
            return
        self._polls += 1
        self._next_look = model.cycles + (POLL_CYCLES if self._polls < POLLS else FALLBACK_CYCLES)
        if self._polls == POLLS:  # from here on by interrupt; the run may have ended before this
            model.write(IER, 1)
            model.write(GIE, 1)

    def _finish(self) -> None:
        model, job = self._loaded, self._jobs.popleft()
        model.write(ISR, model.read(ISR))  # a written 1 toggles the bit
        job.state, job.last, job.keep = "completed", model.cycles, None
        if self._jobs:
            self._start()

    def _fail(self) -> None:
        """The kernel broke a rule: it is of no use until an xclbin is loaded again."""
        for job in self._jobs:
            job.state, job.keep = "failed", None
        self._jobs.clear()
        self.kernel = None


_cards: dict[int, SimCard] = {}


def plug(options: SimOptions | None = None, index: int = 0) -> SimCard:
    """Put a new card with these options into slot `index`; one that was there is gone."""
    _cards[index] = SimCard(options or SimOptions())
    return _cards[index]


def card_at(index: int) -> SimCard | None:
    """The card in slot `index`; slot 0 gets one with the default options when it is asked for empty."""
    if index == 0 and not _cards:
        plug()
    return _cards.get(index)


def slots() -> list[int]:
    """Slots that hold a card."""
    card_at(0)
    return sorted(_cards)
