"""AXI slaves for the benches of fetch and writer: random stalls, in-order data, injected errors, protocol
checks."""

from symlight.hw.axi import BURST_INCR, MAX_BURST, PAGE_BYTES
from tests.benches.bench import Agent, stalls

OKAY, SLVERR = 0, 2


def beat_at(address: int, beat_bytes: int) -> int:
    """Contents of the memory at byte `address`: different for every beat and byte."""
    seed = (address // beat_bytes * 0x9E3779B97F4A7C15 + 0x1234567) & ((1 << 64) - 1)
    return sum(((seed >> (8 * (k % 8))) + 37 * k & 255) << (8 * k) for k in range(beat_bytes))


class ReadMemory(Agent):
    """Read slave of the ports ar*, r*. Serves bursts in order after `delay` cycles.

    `bursts` holds (byte address, beats) as accepted, `beats` the number of beats taken; `faulty` byte
    addresses answer SLVERR.
    """

    def __init__(self, bench, beat_bytes, stall="never", idle="never", delay=5):
        super().__init__(bench)
        self.beat_bytes, self.delay = beat_bytes, delay
        self.stall, self.gap = stalls(bench.rng, stall), stalls(bench.rng, idle)
        # pending: [ready cycle, next address, beats left]
        self.bursts, self.pending, self.faulty = [], [], set()
        self.cycles, self.most_pending, self.beats = [], 0, 0
        self.accept, self.offered, self.held = False, False, None

    def __str__(self):
        return f"memory: {len(self.bursts)} bursts, {self.beats} beats, {len(self.pending)} pending"

    def idle(self):
        self.dut.arready.value = self.dut.rvalid.value = 0
        self.accept, self.offered, self.held = False, False, None
        self.pending.clear()

    def drive(self):
        dut = self.dut
        self.accept = not next(self.stall)
        dut.arready.value = int(self.accept)
        if not self.offered:
            self.offered = (
                bool(self.pending) and self.pending[0][0] <= self.bench.cycle and not next(self.gap)
            )
            dut.rvalid.value = int(self.offered)
            dut.rdata.value = self.bench.rng.getrandbits(8 * self.beat_bytes)
            dut.rlast.value, dut.rresp.value = self.bench.rng.getrandbits(1), self.bench.rng.getrandbits(2)
            if self.offered:
                _, address, left = self.pending[0]
                dut.rdata.value = beat_at(address, self.beat_bytes)
                dut.rlast.value = int(left == 1)
                dut.rresp.value = SLVERR if address in self.faulty else OKAY

    def sample(self):
        dut = self.dut
        if self.offered and int(dut.rready.value):
            self.offered = False
            self.beats += 1
            self.count += 1
            self.pending[0][1] += self.beat_bytes
            self.pending[0][2] -= 1
            if not self.pending[0][2]:
                self.pending.pop(0)
        if not int(dut.arvalid.value):
            assert self.held is None, "ARVALID fell before it was accepted"
            return
        burst = address, beats = int(dut.araddr.value), int(dut.arlen.value) + 1
        assert self.held in (None, burst), "AR changed before it was accepted"
        assert beats <= MAX_BURST and address % self.beat_bytes == 0, burst
        assert address % PAGE_BYTES + beats * self.beat_bytes <= PAGE_BYTES, burst
        assert 1 << int(dut.arsize.value) == self.beat_bytes and int(dut.arburst.value) == BURST_INCR
        self.held = None if self.accept else burst
        if self.accept:
            self.bursts.append(burst)
            self.cycles.append(self.bench.cycle)
            self.pending.append([self.bench.cycle + self.delay, address, beats])
            self.most_pending = max(self.most_pending, sum(left for _, _, left in self.pending))
            self.count += 1

    def check_empty(self):
        assert not self.pending, "beats were not taken"


class WriteMemory(Agent):
    """Write slave of the ports aw*, w*, b*. AW and W are accepted independently; responses in order after
    `delay` cycles.

    `written` holds (byte address, data) in order; `faulty` byte addresses answer SLVERR.
    """

    def __init__(self, bench, beat_bytes, stall="never", delay=5):
        super().__init__(bench)
        self.beat_bytes, self.delay = beat_bytes, delay
        self.patterns = {name: stalls(bench.rng, stall) for name in ("aw", "w", "b")}
        self.addresses, self.data, self.written, self.responses, self.faulty = [], [], [], [], set()
        self.accept, self.held, self.offered = {}, {"aw": None, "w": None}, False
        self.answered, self.cycles = 0, []

    def __str__(self):
        return f"memory: {len(self.written)} written, {self.answered} answered"

    def idle(self):
        self.dut.awready.value = self.dut.wready.value = self.dut.bvalid.value = 0
        self.accept = {"aw": False, "w": False}

    def drive(self):
        dut = self.dut
        self.accept = {name: not next(self.patterns[name]) for name in ("aw", "w")}
        dut.awready.value, dut.wready.value = int(self.accept["aw"]), int(self.accept["w"])
        if not self.offered:
            self.offered = (
                bool(self.responses)
                and self.responses[0][0] <= self.bench.cycle
                and not next(self.patterns["b"])
            )
            dut.bvalid.value = int(self.offered)
            dut.bresp.value = self.responses[0][1] if self.offered else self.bench.rng.getrandbits(2)

    def _channel(self, name, valid, word, into):
        if not valid:
            assert self.held[name] is None, f"{name}valid fell before it was accepted"
            return
        assert self.held[name] in (None, word), f"{name} changed before it was accepted"
        self.held[name] = None if self.accept[name] else word
        if self.accept[name]:
            into.append(word)

    def sample(self):
        dut = self.dut
        if self.offered and int(dut.bready.value):
            self.offered = False
            self.responses.pop(0)
            self.answered += 1
        if int(dut.awvalid.value):
            assert int(dut.awlen.value) == 0 and 1 << int(dut.awsize.value) == self.beat_bytes
            assert int(dut.awburst.value) == BURST_INCR
        if int(dut.wvalid.value):
            assert int(dut.wlast.value) and int(dut.wstrb.value) == (1 << self.beat_bytes) - 1
        self._channel("aw", int(dut.awvalid.value), int(dut.awaddr.value), self.addresses)
        self._channel("w", int(dut.wvalid.value), int(dut.wdata.value), self.data)
        if self.addresses and self.data:
            address = self.addresses.pop(0)
            self.written.append((address, self.data.pop(0)))
            self.cycles.append(self.bench.cycle)
            self.responses.append((self.bench.cycle + self.delay, SLVERR if address in self.faulty else OKAY))
            self.count += 1

    def check_empty(self):
        assert not self.addresses and not self.data and not self.responses, "unfinished writes"
