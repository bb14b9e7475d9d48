"""The memory ports of all channels as recurrences in time: addresses, data and lanes, a short run of beats
after the other.

All channels of several passes are worked at once: every quantity is a vector over them (`size` of them). A
*chunk* is up to MAX_BURST beats: one burst of a dense operation, or some rows of an event operation. For each
chunk

    address  = max(when its row is known, the address before it + 1, when the bytes in flight allow it)
    data     = max(the beat before it + 1, address + latency, the end of a refresh + latency)
    lanes    = max(the beat before it + 1, data + read FIFO, its item)

Reads of the KV ring take the port when no weight address waits, or when a fence asks for all of them.
"""

import numpy as np

from symlight.hw.axi import MAX_BURST
from symlight.hw.config import Engine

from .latencies import Latencies
from .memory import Memory

NEVER = -1e9


class _History:
    """When how many beats were through: for limits on what is in flight. Vectors over the channels."""

    def __init__(self, size: int, room: int):
        self._channel = np.arange(size)
        self._ends = np.full((room, size), NEVER)
        self._counts = np.zeros((room, size), np.int64)
        self._length, self._oldest = 1, np.zeros(size, np.int64)

    def add(self, count: np.ndarray, end: np.ndarray) -> None:
        """Beats up to number `count` are through at `end`, one a cycle."""
        if self._length == len(self._ends):
            for name in ("_ends", "_counts"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        self._ends[self._length], self._counts[self._length] = end, count
        self._length += 1

    def when(self, count: np.ndarray) -> np.ndarray:
        """When beat number `count` was through; `count` must not fall from one question to the next."""
        last = self._length - 1
        while True:
            counts = self._counts[self._oldest, self._channel]
            behind = (counts < count) & (self._oldest < last)
            if not behind.any():
                break
            self._oldest += behind
        return np.where(
            count > 0, self._ends[self._oldest, self._channel] - np.maximum(counts - count, 0), NEVER
        )


class Ports:
    """All ports of `size` channels.

    Parameters
    ----------
    engine, memory, latencies
    size : int
        Channels times passes.
    rng : numpy Generator
        Phases of the refreshes.

    Members
    -------
    issued, popped, consumed : float arrays
        Cycle of the last address, of the last beat on R, of the last beat at the lanes.
    beats, kv_beats : int arrays
        Read so far.
    """

    def __init__(
        self, engine: Engine, memory: Memory, latencies: Latencies, size: int, rng: np.random.Generator
    ):
        self._latencies, self._ideal = latencies, memory.ideal
        self._latency, self._opening, self._gap = memory.latency, memory.opening, memory.address_gap
        self._bytes, self._fifo = memory.bytes // engine.beat_bytes, engine.read_beats
        self._kv_limit = engine.kv_inflight
        self._column = memory.column_cycles(engine.beat_bytes)
        self._period, self._refreshing = memory.refresh
        self._phase = rng.uniform(0, self._period, size)
        self._dram = np.full(size, NEVER)  # the last column
        self.issued, self.popped, self.consumed = (np.full(size, NEVER) for _ in range(3))
        self.beats, self.kv_beats = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._popped_history, self._consumed_history = _History(size, 4096), _History(size, 4096)
        self._kv_history, self._kv_arrivals = _History(size, 256), _History(size, 256)
        self._weights = np.zeros(size, np.int64)
        # KV reads that may go: beats left, and from when on.
        self.kv_left, self._kv_from = np.zeros(size, np.int64), np.zeros(size)

    # ---- memory ----

    def _past_refresh(self, time: np.ndarray) -> np.ndarray:
        """`time`, or the first column after the refresh that it falls into."""
        if self._ideal:
            return time
        since = (time - self._phase) % self._period
        return np.where(since < self._refreshing, time + self._refreshing - since, time)

    def _read(
        self,
        first: np.ndarray,
        last: np.ndarray,
        beats: np.ndarray | int,
        row_beats: np.ndarray | int,
        there: np.ndarray,
        opening: bool = False,
    ) -> None:
        """Data of a chunk whose first and last address are accepted at `first` and `last`; only where
        `there`."""
        column = self._past_refresh(
            np.maximum(first + (self._opening if opening else 0), self._dram + self._column)
        )
        end_column = self._past_refresh(np.maximum(column + (beats - 1) * self._column, last))
        start = np.maximum(self.popped + 1, np.ceil(column + self._latency))
        end = np.maximum(start + beats - 1, np.ceil(end_column + self._latency) + row_beats - 1)
        self._dram = np.where(there, end_column, self._dram)
        self.popped = np.where(there, end, self.popped)
        self.beats = self.beats + np.where(there, beats, 0)
        self._popped_history.add(self.beats, self.popped)

    def _room(self, beats: np.ndarray) -> np.ndarray:
        """First cycle in which `beats` more may be in flight."""
        return self._popped_history.when(self.beats + beats - self._bytes) + 1

    # ---- KV ring ----

    def let_kv(self, beats: np.ndarray, time: np.ndarray) -> None:
        """KV reads of another layer may go from `time` on."""
        self._fill(time)
        self._kv_from = np.where(self.kv_left > 0, self._kv_from, time)
        self.kv_left = self.kv_left + beats

    def _kv_step(self, before: np.ndarray, fenced: bool) -> bool:
        """One KV burst on every channel that may put one on its port before the time `before`; False when
        none went."""
        beats = np.minimum(self.kv_left, MAX_BURST)
        allowed = (
            np.full_like(self.issued, NEVER)
            if fenced
            else self._kv_history.when(self.kv_beats + MAX_BURST - self._kv_limit)
        )
        address = np.maximum(np.maximum(self.issued, allowed) + 1, self._kv_from)
        goes = (beats > 0) & (address < before)
        if not goes.any():
            return False
        address = np.maximum(address, self._room(beats))
        self._read(address, address, beats, beats, goes)
        self.issued = np.where(goes, address, self.issued)
        self.kv_left = self.kv_left - np.where(goes, beats, 0)
        self.kv_beats = self.kv_beats + np.where(goes, beats, 0)
        for history in (self._kv_history, self._kv_arrivals):
            history.add(self.kv_beats, self.popped)
        return True

    def kv_arrived(self, count: np.ndarray) -> np.ndarray:
        """When beat number `count` of the ring came; it must have been asked for, and not fall from one
        question to the next."""
        return self._kv_arrivals.when(count)

    def fence(self, left: np.ndarray) -> None:
        """The port works on the KV reads of a layer: all that wait, but for `left` of the next one."""
        later = np.minimum(self.kv_left, left)
        self.kv_left = self.kv_left - later
        while self._kv_step(np.full_like(self.issued, np.inf), fenced=True):
            pass
        self.kv_left = later

    def _fill(self, before: np.ndarray) -> None:
        """KV reads until weights are wanted at `before`."""
        while self.kv_left.any() and self._kv_step(before, fenced=False):
            pass

    def _begin(self, first: np.ndarray) -> None:
        """An operation whose first address is known at `first`: its command starts only after an empty
        address channel, so what may
        be read of the ring keeps it waiting.
        """
        while self.kv_left.any() and self._kv_step(
            np.maximum(first, self.issued + self._latencies.switch), fenced=False
        ):
            pass

    # ---- operations ----

    def rows(self, known: np.ndarray, row_beats: int, marker: np.ndarray) -> None:
        """An event operation: `known` [size, rows] are the times of its rows' addresses, ascending, infinite
        after the last.

        `marker` [size]: when the end of the list is at the lanes.
        """
        a_chunk = max(1, MAX_BURST // row_beats)
        rows = np.isfinite(known).sum(axis=1)
        self._begin(known[:, 0] if known.shape[1] else np.full(len(rows), NEVER))
        for first in range(0, int(rows.max(initial=0)), a_chunk):
            count = np.clip(rows - first, 0, a_chunk)
            there = count > 0
            beats = count * row_beats
            begin = known[:, first]
            final = np.take_along_axis(known, np.maximum(first + count - 1, 0)[:, None], axis=1)[:, 0]
            if self.kv_left.any():  # rows that follow each other in memory leave holes between the addresses
                self._fill(np.where(there, final + 1, NEVER))
            room = self._room(beats)
            address = np.maximum(np.maximum(begin, self.issued + self._gap), room - beats + row_beats)
            last = np.maximum(np.maximum(final, address + (count - 1) * self._gap), room)
            with np.errstate(invalid="ignore"):
                self._read(address, last, beats, row_beats, there, opening=first == 0)
            self.issued = np.where(there, last, self.issued)
            self._take(beats, there)
        self.consumed = np.maximum(self.consumed, marker)

    def stream(
        self, total: np.ndarray, start: np.ndarray, items: np.ndarray, row_beats: int = MAX_BURST
    ) -> None:
        """A dense operation of `total` [size] beats whose first address may go at `start`, its first item at
        the lanes at `items`."""
        done = np.zeros_like(total)
        self._begin(start)
        self.consumed = np.maximum(self.consumed, items - 1)
        for number in range(-(-int(total.max(initial=0)) // MAX_BURST)):
            beats = np.minimum(total - done, MAX_BURST)
            there = beats > 0
            credit = self._consumed_history.when(self._weights + beats - self._fifo) + 2
            if self.kv_left.any():  # while the read FIFO is full, the port is free for the ring
                self._fill(np.where(there, credit, NEVER))
            address = np.maximum(np.maximum(start, self.issued + 1), np.maximum(self._room(beats), credit))
            self._read(address, address, beats, beats, there, opening=number == 0)
            self.issued = np.where(there, address, self.issued)
            self._take(beats, there)
            done += beats

    def _take(self, beats: np.ndarray, there: np.ndarray) -> None:
        """A chunk of weights at the lanes."""
        end = np.maximum(self.consumed + beats, self.popped + self._latencies.beat)
        self.consumed = np.where(there, end, self.consumed)
        self._weights = self._weights + np.where(there, beats, 0)
        self._consumed_history.add(self._weights, self.consumed)
