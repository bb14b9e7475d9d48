"""A pass, operation by operation: the task runner's clock, with the ports' recurrences under it
(docs/architecture.md, "Tasks of a pass").
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from symlight.base.optional import present
from symlight.hw.channel.runs import SCALE_BEATS
from symlight.hw.compiler.image import head_space
from symlight.hw.compiler.layout import Layout, MatrixPlan
from symlight.hw.interface import Phase

from .latencies import latencies
from .memory import Memory
from .ports import NEVER, Ports
from .walk import walk_cycles
from .workload import row_times


@dataclass(frozen=True)
class Estimate:
    """Several passes.

    Members
    -------
    cycles : array [passes]
    phases : dict
        Operation -> (stream, turnaround) cycles, arrays [passes].
    beats : array [passes]
        Read by all channels.
    """

    cycles: np.ndarray
    phases: dict[str, tuple[np.ndarray, np.ndarray]]
    beats: np.ndarray


class PassModel:
    """Passes of one kind on one engine, all at once: arrays over passes [n], and over their channels [n,
    channels].

    Parameters
    ----------
    layout : Layout
        With the engine whose `fixed_gather`, `fixed_kv` and `kv_resident` say which build it is.
    memory : Memory
    active : list of dict
        `workload.active_inputs`.
    populated : int array [passes]
        Ring slots that are populated before each pass.
    head : bool
        The head is evaluated.
    head_active : pair of bool arrays | None
        `workload.head_inputs` where the head's input is an event site.
    """

    def __init__(
        self,
        layout: Layout,
        memory: Memory,
        active: list[dict],
        populated: np.ndarray,
        *,
        head: bool,
        rng: np.random.Generator,
        head_active: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        self._head_active = None if layout.engine.fixed_gather == "dense" else head_active
        self._layout, self._engine, self._active, self._head = layout, layout.engine, active, head
        self._l = latencies(layout.engine)
        self._passes = len(populated)
        self._channels = layout.engine.channels
        self._populated = populated
        self._rng = rng
        self._ports = Ports(layout.engine, memory, self._l, self._passes * self._channels, rng)
        self._phases = {phase: [np.zeros(self._passes), np.zeros(self._passes)] for phase in Phase}
        self._dense = layout.engine.fixed_gather == "dense"
        self._kv_beats = self._loads()

    # ---- shapes ----

    def _wide(self, value: np.ndarray) -> np.ndarray:
        """[passes] or [passes, groups] by channel, flat."""
        return np.repeat(value, self._channels)

    def _by_pass(self, value: np.ndarray) -> np.ndarray:
        """The latest channel of each pass."""
        latest: np.ndarray = value.reshape(self._passes, self._channels).max(axis=1)
        return latest

    def _group(self, columns: int, groups: int) -> tuple[np.ndarray, np.ndarray]:
        """Group of each channel, and whether it takes part."""
        group = np.arange(self._channels) // columns
        return np.minimum(group, groups - 1), group < groups

    def _slots(self, count: np.ndarray) -> np.ndarray:
        """Of slots 0 .. count - 1, those of each channel's group: [passes, channels]."""
        ring = self._layout.ring
        groups = 1 << ring.log_groups
        group, takes_part = self._group(ring.columns, groups)
        return np.where(takes_part, (count[:, None] + groups - 1 - group) // groups, 0)

    def _loads(self) -> np.ndarray:
        engine, slots = self._engine, self._layout.shape.slots
        if engine.kv_resident:
            load = np.zeros_like(self._populated)
        else:
            load = np.full_like(self._populated, slots) if engine.fixed_kv == "full" else self._populated
        return (self._slots(load) * self._layout.ring.slot_beats).reshape(-1)

    # ---- the clock ----

    def _account(
        self, phase: Phase, taken: np.ndarray, following: np.ndarray, waiting: np.ndarray | int = 0
    ) -> np.ndarray:
        """A task from taking its entry over to the next one; `waiting` cycles of it for the channels.
        Returns `following`."""
        self._phases[phase][0] += waiting
        self._phases[phase][1] += following - taken - waiting
        return following

    def run(self) -> Estimate:
        layer_count = self._layout.shape.layers
        start = np.zeros(self._passes)
        at, events = self._embed(start)
        command = self._wide(start + self._l.first_command + self._l.command_address)
        for layer in range(min(2, layer_count)):
            self._ports.let_kv(self._kv_beats, command)
        for layer in range(layer_count):
            at, events = self._layer(layer, at, events)
        at = self._end(at, events)
        beats = self._ports.beats.reshape(self._passes, -1).sum(axis=1)
        phases = {phase.name.lower(): (pair[0], pair[1]) for phase, pair in self._phases.items()}
        return Estimate(at, phases, beats)

    def _words(self, first: np.ndarray, count: int) -> np.ndarray:
        """Times [passes, count] of words that follow each other from `first` on."""
        return first[:, None] + np.arange(count)

    def _embed(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The embedding row of one channel; returns when the next entry is taken over, and the words of
        events."""
        lat, ports, layout = self._l, self._ports, self._layout
        taken = start + 1 + lat.table
        reads = np.zeros((self._passes, self._channels), np.int64)
        channel = self._rng.integers(0, self._engine.side_channels, self._passes)
        reads[np.arange(self._passes), channel] = layout.embed_beats
        address = self._wide(start + lat.first_command + lat.command_address)
        ports.stream(reads.reshape(-1), address, np.full(len(address), NEVER))
        last = self._by_pass(np.where(reads.reshape(-1) > 0, ports.popped, NEVER)) + lat.side_word + lat.embed
        words = self._words(last - 2 * (layout.width_words - 1) + lat.cast, layout.width_words)
        words[:, :-1] += np.arange(layout.width_words - 1)  # a word takes two beats
        words[:, -1] = last + lat.cast
        waited = last + lat.done - (taken + lat.enter) + 1
        return self._account(Phase.EMBED, start, last + lat.done + 1, waited), words

    def _wait(self, taken: np.ndarray, done: np.ndarray, before: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(when the task goes on, cycles it waited): `before` words are broadcast from memory first."""
        first = taken + self._l.enter + before
        ready = np.maximum(first, done)
        return ready, ready - first + 1

    def _matrix(self, plan: MatrixPlan, words: np.ndarray, active: np.ndarray | None) -> np.ndarray:
        """An operation of all channels on broadcast words; returns when all are done."""
        lat, ports = self._l, self._ports
        group, takes_part = self._group(plan.columns, plan.groups)
        if active is None or self._dense:
            total = np.where(takes_part, plan.size, 0)
            total = np.tile(total, self._passes)
            ports.stream(total, np.full(len(total), NEVER), self._wide(words[:, 0] + lat.item))
            ports.consumed = np.maximum(ports.consumed, self._wide(words[:, -1] + lat.item))
        else:
            rows, marker = row_times(active, plan.groups, plan.in_words, self._engine.lanes, words)
            known = np.where(takes_part[None, :, None], rows[:, group], np.inf).reshape(len(ports.issued), -1)
            ports.rows(known + lat.row_address, plan.beats, marker[:, group].reshape(-1) + lat.item)
        return self._by_pass(ports.consumed) + lat.operation

    def _layer(self, layer: int, at: np.ndarray, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lat, layout, active = self._l, self._layout, self._active[layer]
        q, width = layout.query_words, layout.width_words
        # QKV: spikes from memory for W_T, then q, k, v to attention.
        spikes = self._words(at + lat.enter + 1 + lat.memory + lat.cast, width)
        ready, waited = self._wait(at, self._matrix(layout.qkv, events, active["qkv"]), before=width)
        first = ready + lat.issue
        start = first + q + lat.drain + lat.event + lat.cast + lat.attention_start  # of attention, at q
        at = self._account(Phase.QKV, at, first + 3 * q - 1, waited)
        # W_T, then the rest of the ring.
        done = self._matrix(layout.decay, spikes, active["decay"])
        more = layer + 1 < layout.shape.layers
        self._ports.fence(self._kv_beats if more else np.zeros_like(self._kv_beats))
        ready, waited = self._wait(at, done)
        at = self._account(Phase.DECAY, at, ready + lat.issue + q - 1, waited)
        # Attention and gate fusion.
        ready, waited = self._wait(at, self._attention(layer, start))
        heads = layout.ring.columns * layout.ring.heads
        first = np.maximum(ready + lat.issue - 1 + heads, ready + lat.issue + lat.reciprocal) + 1 + 1
        mixed = self._words(first + lat.drain + lat.mix + lat.cast, q)
        end = first + q - 1 + lat.drain + lat.mix + lat.done + lat.leave
        at = self._account(Phase.ATTENTION, at, end, waited)
        # W_O, LayerNorm, events to W_up.
        picked = active.get("out")
        if picked is not None:
            spread = np.zeros((self._passes, q * self._engine.lanes), bool)
            spread[:, head_space(layout)] = picked
            picked = spread
        at, events = self._norm(Phase.OUT, at, self._matrix(layout.out, mixed, picked))
        ready, waited = self._wait(at, self._matrix(layout.up, events, active["up"]))
        first = ready + lat.issue + lat.drain + lat.step
        steps = self._words(first + lat.cast, layout.ffn_words)
        at = self._account(Phase.UP, at, first + layout.ffn_words - 1 + lat.done + lat.leave, waited)
        return self._norm(Phase.DOWN, at, self._matrix(layout.down, steps, active["down"]))

    def _attention(self, layer: int, start: np.ndarray) -> np.ndarray:
        """When all channels have finished; lets the ring of the layer after the next be loaded."""
        lat, ring, ports = self._l, self._layout.ring, self._ports
        attend = np.minimum(self._populated + 1, self._layout.shape.slots)
        count = self._slots(attend).reshape(-1)
        until = 2 * self._layout.query_words - 1  # cycles from the first word of k to the last of v
        # The current token's slot comes last, wherever it is in the ring.
        slot = np.minimum(self._populated, self._layout.shape.slots - 1)
        group, takes_part = self._group(ring.columns, 1 << ring.log_groups)
        here = ((slot[:, None] & ((1 << ring.log_groups) - 1)) == group) & takes_part
        walk = np.array(
            [
                walk_cycles(
                    int(n) * ring.heads,
                    ring.head_words,
                    lat.weight,
                    lat.ahead,
                    (int(n) - 1) * ring.heads if mine else None,
                    until,
                )
                for n, mine in zip(count, here.reshape(-1), strict=True)
            ]
        )
        walk = np.maximum(walk, until)
        tail = walk_cycles(ring.heads, ring.head_words, lat.weight, lat.ahead)
        arrived = ports.kv_arrived((layer + 1) * self._kv_beats)
        done = np.maximum(self._wide(start) + walk, arrived + tail) - 1
        more = self._kv_beats if layer + 2 < self._layout.shape.layers else np.zeros_like(self._kv_beats)
        ports.let_kv(more, done + lat.attention_end + lat.kv_command)
        return self._by_pass(done) + lat.attention_end

    def _norm(self, phase: Phase, at: np.ndarray, done: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Drain, residual, LayerNorm; returns when the next entry is taken over, and the words of events."""
        lat, width = self._l, self._layout.width_words
        ready, waited = self._wait(at, done)
        statistics = ready + lat.issue + width - 1 + lat.drain + lat.statistics
        first = statistics + lat.issue + lat.normalise
        at = self._account(phase, at, first + width - 1 + lat.done + lat.leave, waited)
        return at, self._words(first + lat.cast, width)

    def _end(self, at: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Prior and head, or what it takes to pass over them; the end of the table."""
        lat, layout = self._l, self._layout
        skip = lat.account + 1  # the account of the task before must be closed
        if not self._head:
            for phase in (Phase.PRIOR, Phase.HEAD):
                at = self._account(phase, at, at + skip)
            return self._account(Phase.CONTROL, at, at + skip + 1)
        width, ports = layout.width_words, self._ports
        again = self._words(at + lat.enter + 1 + lat.memory + lat.cast, width)
        a = None if self._head_active is None else self._head_active[0]
        done = self._matrix(layout.prior, words, a)
        ready, waited = self._wait(at, done, before=width)
        first = ready + lat.issue + lat.drain + lat.gelu
        hidden = self._words(first + lat.cast, layout.prior_words)
        at = self._account(Phase.PRIOR, at, first + layout.prior_words - 1 + lat.done + lat.leave, waited)
        if self._head_active is None:
            self._stream_tiles(again, hidden)
        else:
            self._gather_tiles(np.concatenate([again, hidden], axis=1))
        ready, waited = self._wait(at, self._by_pass(ports.consumed) + lat.head)
        end = ready + lat.issue + self._engine.channels - 1 + lat.drain + lat.done + lat.leave
        at = self._account(Phase.HEAD, at, end, waited)
        return self._account(Phase.CONTROL, at, at + skip + 1)

    def _stream_tiles(self, again: np.ndarray, hidden: np.ndarray) -> None:
        """All head tiles from end to end; the words of the hidden vector come last."""
        lat, layout, ports, width = self._l, self._layout, self._ports, self._layout.width_words
        total = np.full(len(ports.issued), layout.tiles * layout.tile_beats)
        ports.stream(total, np.full(len(total), NEVER), self._wide(again[:, 0] + lat.item))
        # The hidden words come into the first tile, in time or not.
        behind = (
            layout.head_words * self._engine.lanes
            - width * self._engine.lanes
            + 2
            + (layout.tiles - 1) * layout.tile_beats
        )
        ports.consumed = np.maximum(ports.consumed, self._wide(hidden[:, 0] + lat.item - 1 + behind))

    def _gather_tiles(self, words: np.ndarray) -> None:
        """The active rows of every head tile, and its scales behind them. A tile is picked again from the
        buffered words when the one before it is; its scales wait until that one has drained."""
        lat, layout, lanes = self._l, self._layout, self._engine.lanes
        a, g = present(self._head_active)
        active = np.zeros((self._passes, layout.head_words * lanes), bool)
        active[:, : a.shape[1]] = a
        active[:, layout.width_words * lanes :][:, : g.shape[1]] = g
        drained = np.full_like(self._ports.consumed, NEVER)
        for _ in range(layout.tiles):
            rows, marker = row_times(active, 1, layout.head_words, lanes, words)
            # the scales are addressed behind the last row, and the next tile's rows behind them
            scales = marker[:, 0][:, None] + np.arange(1, SCALE_BEATS + 1)
            known = np.concatenate([rows[:, 0], scales], axis=1)
            known.sort(axis=1)
            known = np.repeat(known + lat.row_address, self._channels, axis=0)
            self._ports.rows(known, 1, self._wide(marker[:, 0]) + lat.item)
            self._ports.consumed = np.maximum(self._ports.consumed, drained)
            drained = self._ports.consumed + lat.tile
            words = np.maximum(words, marker + 1)


def estimate_passes(
    layout: Layout,
    memory: Memory,
    active: list[dict],
    populated: ArrayLike,
    *,
    head: bool,
    seed: int = 1,
    head_active: tuple[np.ndarray, np.ndarray] | None = None,
) -> Estimate:
    """Estimate of passes with the given activity and populated slots."""
    populated = np.minimum(np.asarray(populated, np.int64), layout.shape.slots)
    rng = np.random.default_rng(seed)
    model = PassModel(layout, memory, active, populated, head=head, rng=rng, head_active=head_active)
    return model.run()
