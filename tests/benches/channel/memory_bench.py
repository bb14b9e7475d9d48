"""AXI slaves for the benches of fetch and writer: random stalls, in-order data, injected errors, protocol
checks."""

from symlight.hw.axi import BURST_INCR, FAULT_BITS, MAX_BURST, PAGE_BYTES
from tests.benches.bench import Agent, stalls

OKAY, SLVERR = 0, 2


def low_half(address: int) -> int:
    """What a fault reports of a byte address."""
    return address & ((1 << FAULT_BITS) - 1)


def beat_at(address: int, beat_bytes: int) -> int:
    """Contents of the memory at byte `address`: different for every beat and byte."""
    seed = (address // beat_bytes * 0x9E3779B97F4A7C15 + 0x1234567) & ((1 << 64) - 1)
    return sum(((seed >> (8 * (k % 8))) + 37 * k & 255) << (8 * k) for k in range(beat_bytes))


class Port:
    """Memory port `prefix` of the design under the names that AXI has for its signals."""

    def __init__(self, dut, prefix):
        self._dut, self._prefix = dut, prefix

    def __getattr__(self, name):
        return getattr(self._dut, f"{self._prefix}__{name}")


class ReadMemory(Agent):
    """Read slave of port `bus`. Serves bursts in order after `delay` cycles.

    `bursts` holds (byte address, beats) as accepted, `beats` the number of beats taken; `faulty` byte
    addresses answer SLVERR.
    """

    def __init__(self, bench, beat_bytes, stall="never", idle="never", delay=5, bus="bus"):
        super().__init__(bench)
        self.port = Port(bench.dut, bus)
        self.beat_bytes, self.delay = beat_bytes, delay
        self.stall, self.gap = stalls(bench.rng, stall), stalls(bench.rng, idle)
        # pending: [ready cycle, next address, beats left]
        self.bursts, self.pending, self.faulty = [], [], set()
        self.cycles, self.most_pending, self.beats = [], 0, 0
        self.accept, self.offered, self.held = False, False, None

    def __str__(self):
        return f"memory: {len(self.bursts)} bursts, {self.beats} beats, {len(self.pending)} pending"

    def idle(self):
        self.port.arready.value = self.port.rvalid.value = 0
        self.accept, self.offered, self.held = False, False, None
        self.pending.clear()

    def drive(self):
        port = self.port
        self.accept = not next(self.stall)
        port.arready.value = int(self.accept)
        if not self.offered:
            self.offered = (
                bool(self.pending) and self.pending[0][0] <= self.bench.cycle and not next(self.gap)
            )
            port.rvalid.value = int(self.offered)
            port.rdata.value = self.bench.rng.getrandbits(8 * self.beat_bytes)
            port.rlast.value, port.rresp.value = self.bench.rng.getrandbits(1), self.bench.rng.getrandbits(2)
            if self.offered:
                _, address, left = self.pending[0]
                port.rdata.value = beat_at(address, self.beat_bytes)
                port.rlast.value = int(left == 1)
                port.rresp.value = SLVERR if address in self.faulty else OKAY

    def sample(self):
        port = self.port
        if self.offered and int(port.rready.value):
            self.offered = False
            self.beats += 1
            self.count += 1
            self.pending[0][1] += self.beat_bytes
            self.pending[0][2] -= 1
            if not self.pending[0][2]:
                self.pending.pop(0)
        if not int(port.arvalid.value):
            assert self.held is None, "ARVALID fell before it was accepted"
            return
        burst = address, beats = int(port.araddr.value), int(port.arlen.value) + 1
        assert self.held in (None, burst), "AR changed before it was accepted"
        assert beats <= MAX_BURST and address % self.beat_bytes == 0, burst
        assert address % PAGE_BYTES + beats * self.beat_bytes <= PAGE_BYTES, burst
        assert 1 << int(port.arsize.value) == self.beat_bytes and int(port.arburst.value) == BURST_INCR
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
    """Write slave of port `bus`. AW and W are accepted independently; responses in order after
    `delay` cycles.

    `written` holds (byte address, data) in order; `faulty` byte addresses answer SLVERR.
    """

    def __init__(self, bench, beat_bytes, stall="never", delay=5, bus="bus"):
        super().__init__(bench)
        self.port = Port(bench.dut, bus)
        self.beat_bytes, self.delay = beat_bytes, delay
        self.patterns = {name: stalls(bench.rng, stall) for name in ("aw", "w", "b")}
        self.addresses, self.data, self.written, self.responses, self.faulty = [], [], [], [], set()
        self.accept, self.held, self.offered = {}, {"aw": None, "w": None}, False
        self.answered, self.cycles = 0, []

    def __str__(self):
        return f"memory: {len(self.written)} written, {self.answered} answered"

    def idle(self):
        self.port.awready.value = self.port.wready.value = self.port.bvalid.value = 0
        self.accept = {"aw": False, "w": False}

    def drive(self):
        port = self.port
        self.accept = {name: not next(self.patterns[name]) for name in ("aw", "w")}
        port.awready.value, port.wready.value = int(self.accept["aw"]), int(self.accept["w"])
        if not self.offered:
            self.offered = (
                bool(self.responses)
                and self.responses[0][0] <= self.bench.cycle
                and not next(self.patterns["b"])
            )
            port.bvalid.value = int(self.offered)
            port.bresp.value = self.responses[0][1] if self.offered else self.bench.rng.getrandbits(2)

    def _channel(self, name, valid, word, into):
        if not valid:
            assert self.held[name] is None, f"{name}valid fell before it was accepted"
            return
        assert self.held[name] in (None, word), f"{name} changed before it was accepted"
        self.held[name] = None if self.accept[name] else word
        if self.accept[name]:
            into.append(word)

    def sample(self):
        port = self.port
        if self.offered and int(port.bready.value):
            self.offered = False
            self.responses.pop(0)
            self.answered += 1
        if int(port.awvalid.value):
            assert int(port.awlen.value) == 0 and 1 << int(port.awsize.value) == self.beat_bytes
            assert int(port.awburst.value) == BURST_INCR
        if int(port.wvalid.value):
            assert int(port.wlast.value) and int(port.wstrb.value) == (1 << self.beat_bytes) - 1
        self._channel("aw", int(port.awvalid.value), int(port.awaddr.value), self.addresses)
        self._channel("w", int(port.wvalid.value), int(port.wdata.value), self.data)
        if self.addresses and self.data:
            address = self.addresses.pop(0)
            self.written.append((address, self.data.pop(0)))
            self.cycles.append(self.bench.cycle)
            self.responses.append((self.bench.cycle + self.delay, SLVERR if address in self.faulty else OKAY))
            self.count += 1

    def check_empty(self):
        assert not self.addresses and not self.data and not self.responses, "unfinished writes"
