"""Agents and helpers shared by the benches of a channel's compute side."""

from symlight.hw.types import DrainRequest
from tests.benches.bench import Agent, fields


def beat_of(numbers) -> dict:
    """Bytes of a beat from numbers in -128 .. 255."""
    return {i: int(v) & 255 for i, v in enumerate(numbers)}


class Drain(Agent):
    """Asks one request a cycle; the part must raise valid when it answers one, and at no other time."""

    def __init__(self, bench, part, latency, layout):
        super().__init__(bench)
        self.latency, self.layout = latency, layout
        self.valid, self.request = getattr(self.dut, f"{part}__valid"), getattr(self.dut, f"{part}__request")
        self.word, self.fixed, self.word_valid = (
            getattr(self.dut, f"{part}__{name}") for name in ("word", "fixed", "word_valid")
        )
        self.asked = getattr(self.dut, f"{part}__asked")
        self.others = 0  # requests for other columns, of ten cycles
        self.queue, self.waiting, self.answers = [], [], []

    def ask(self, source, address=0, after=0):
        """Queue a request, for `after` cycles from now at the earliest; the answer is appended to `answers`
        as (source, address, lanes)."""
        self.queue.append((source, address, self.bench.cycle + after))

    def idle(self):
        self.valid.value = self.asked.value = 0

    def drive(self):
        due = bool(self.queue) and self.queue[0][2] <= self.bench.cycle
        self.valid.value = int(due)
        self.asked.value = int(due or self.bench.rng.randrange(10) < self.others)
        request = DrainRequest.const({})
        if due:
            source, address, _ = self.queue.pop(0)
            self.waiting.append((self.bench.cycle + self.latency, source, address))
            request = DrainRequest.const({"source": source, "address": address})
        self.request.value = request.as_value().value

    def sample(self):
        due = bool(self.waiting) and self.waiting[0][0] == self.bench.cycle
        assert int(self.word_valid.value) == due, "an answer without a request, or none to one"
        if due:
            _, source, address = self.waiting.pop(0)
            word = int(self.word.value) | int(self.fixed.value)
            self.answers.append((source, address, fields(self.layout, word)))
            self.count += 1

    def check_empty(self):
        assert not self.queue and not self.waiting


class Watch(Agent):
    """Records the cycles in which `signal` is high, and calls `event` for each."""

    def __init__(self, bench, name, data=None, event=None):
        super().__init__(bench)
        self.signal, self.data = getattr(self.dut, name), data and getattr(self.dut, data)
        self.cycles, self.values, self.event = [], [], event

    def sample(self):
        if int(self.signal.value):
            self.cycles.append(self.bench.cycle)
            self.count += 1
            if self.data is not None:
                self.values.append(int(self.data.value))
            if self.event:
                self.event()
