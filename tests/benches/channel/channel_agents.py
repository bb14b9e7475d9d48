"""Agents around a whole channel: memory at its port, pulses from the sequencer, drain bus."""

from collections import deque

from symlight.hw.channel.channel import Channel
from symlight.hw.types import DrainRequest
from tests.benches.bench import Agent, bits, fields, stalls
from tests.benches.channel.memory_bench import ReadMemory, WriteMemory, beat_at


class Reads(ReadMemory):
    """Read side of a shared memory. A burst returns what the memory held when it was accepted."""

    def __init__(self, bench, contents, beat_bytes, **patterns):
        super().__init__(bench, beat_bytes, **patterns)
        self.contents, self.words, self.known = contents, deque(), 0

    def drive(self):
        before = self.offered
        super().drive()
        if self.offered and not before:
            self.port.rdata.value = self.words.popleft()

    def sample(self):
        super().sample()
        for address, beats in self.bursts[self.known :]:
            for place in range(address, address + beats * self.beat_bytes, self.beat_bytes):
                self.words.append(self.contents.get(place, beat_at(place, self.beat_bytes)))
        self.known = len(self.bursts)


class Writes(WriteMemory):
    """Write side. A beat is in the memory from its response on, not earlier."""

    def __init__(self, bench, contents, beat_bytes, **patterns):
        super().__init__(bench, beat_bytes, **patterns)
        self.contents, self.applied = contents, 0

    def sample(self):
        super().sample()
        self.contents.update(self.written[self.applied : self.answered])
        self.applied = self.answered


class Pulses(Agent):
    """Words without back-pressure, the next one only while `room` says so, and `spacing` cycles apart as from
    the dispatcher."""

    def __init__(self, bench, name, layout, room=None, spacing=0, idle="never"):
        super().__init__(bench)
        self.valid, self.word = getattr(self.dut, f"{name}_valid"), getattr(self.dut, name)
        self.layout = layout
        self.room, self.spacing = room and getattr(self.dut, room), spacing
        self.pattern = stalls(bench.rng, idle)
        self.queue, self.wait, self.free = deque(), 0, True

    def __str__(self):
        return f"{self.layout}: {self.count} sent, {len(self.queue)} left"

    def send(self, items):
        self.queue += [bits(self.layout, item) for item in items]

    def idle(self):
        self.valid.value = 0

    def drive(self):
        go = bool(self.queue) and self.free and not self.wait and not next(self.pattern)
        self.wait = self.spacing if go else max(0, self.wait - 1)
        self.valid.value = int(go)
        self.word.value = self.queue.popleft() if go else self.bench.rng.getrandbits(len(self.word))
        self.count += go

    def sample(self):
        self.free = self.room is None or bool(int(self.room.value))

    def check_empty(self):
        assert not self.queue


class DrainChecker(Agent):
    """One request a cycle; every answer comes in its cycle, and the bus is zero in all others. Side beats are
    kept apart."""

    def __init__(self, bench, lanes, layout):
        super().__init__(bench)
        self.lanes, self.layout, self.queue, self.waiting = lanes, layout, deque(), deque()
        self.answers, self.side = [], []

    def idle(self):
        self.dut.request_valid.value = 0

    def drive(self):
        go = bool(self.queue)
        self.dut.request_valid.value = int(go)
        self.dut.request.value = self.bench.rng.getrandbits(len(self.dut.request))
        if go:
            self.waiting.append(self.bench.cycle + Channel.DRAIN_LATENCY)
            self.dut.request.value = bits(DrainRequest, self.queue.popleft())

    def sample(self):
        word = int(self.dut.drain.value)
        due = bool(self.waiting) and self.waiting[0] == self.bench.cycle
        assert int(self.dut.drain_valid.value) == due, "an answer in the wrong cycle"
        side = int(self.dut.side_valid.value)
        assert not (due and side)
        if due:
            self.waiting.popleft()
            self.answers.append(fields(self.layout, word))
        elif side:
            self.side.append(word)
        else:
            assert word == 0, "the drain bus is not zero"
        self.count += due + side

    def check_empty(self):
        assert not self.queue and not self.waiting
