"""Agents of the bench of hw.control: the host's bus master, a watcher of the bus, the kernel behind the
registers."""

import logging

import cocotb
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from symlight.hw.control import GIE
from tests.benches.bench import Agent, Bench, stalls

CHANNELS = ("aw", "w", "b", "ar", "r")


class Bus(Agent):
    """Watches the bus: rules of the responses, and the cycle of every transfer."""

    def __init__(self, bench):
        super().__init__(bench)
        self.cycles = {channel: [] for channel in CHANNELS}
        self.held = {"b": None, "r": None}
        self.signals = {c: [getattr(self.dut, f"bus__{c}{s}") for s in ("valid", "ready")] for c in CHANNELS}

    def sample(self):
        for channel, (valid, ready) in self.signals.items():
            valid, ready = int(valid.value), int(ready.value)
            if channel in self.held:
                payload = (valid, int(self.dut.bus__rdata.value) if channel == "r" else 0)
                if self.held[channel] is not None:
                    assert payload == self.held[channel], f"{channel} does not hold"
                self.held[channel] = payload if valid and not ready else None
            if valid and ready:
                self.cycles[channel].append(self.bench.cycle)
                self.count += 1
        counts = {channel: len(cycles) for channel, cycles in self.cycles.items()}
        assert counts["b"] <= min(counts["aw"], counts["w"]) and counts["r"] <= counts["ar"], (
            "a response too much"
        )

    def check_empty(self):
        counts = {channel: len(cycles) for channel, cycles in self.cycles.items()}
        assert counts["aw"] == counts["w"] == counts["b"] and counts["ar"] == counts["r"], counts


class Kernel(Agent):
    """Takes starts, and ends runs when told: `delay` cycles after the start, or not by itself (None)."""

    def __init__(self, bench, delay=None):
        super().__init__(bench)
        self.delay, self.wait, self.starts = delay, None, []
        self.args, self.ends, self.interrupts = None, [], []

    def idle(self):
        self.wait = None
        self.dut.done.value = 0

    def finish(self, cycles=0):
        """Pulse `done` after `cycles` more."""
        self.wait = cycles

    def drive(self):
        now = self.wait == 0
        self.dut.done.value = int(now)
        self.wait = None if self.wait in (None, 0) else self.wait - 1
        if now:
            self.ends.append(self.bench.cycle)

    def sample(self):
        args = int(self.dut.args.value)
        if int(self.dut.start.value):
            self.starts.append(self.bench.cycle)
            self.args = args
            self.count += 1
            assert not int(self.dut.idle.value)
            if self.delay is not None:
                self.wait = self.delay()
        elif self.args is not None:
            assert args == self.args, "args changed without a start"
        self.interrupts.append(int(self.dut.interrupt.value))

    def check_empty(self):
        assert self.wait is None


class Host:
    """Reads and writes registers; runs coroutines while the bench makes the clock."""

    def __init__(self, dut, pause="never", delay=None):
        self.bench, self.dut = Bench(dut), dut
        self.rng = self.bench.rng
        self.bus, self.kernel = Bus(self.bench), Kernel(self.bench, delay)
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "bus_"), dut.clk)
        ends = [
            self.master.write_if.aw_channel,
            self.master.write_if.w_channel,
            self.master.write_if.b_channel,
            self.master.read_if.ar_channel,
            self.master.read_if.r_channel,
        ]
        for part in [*ends, self.master.write_if, self.master.read_if]:
            part.log.setLevel(logging.WARNING)
        if pause != "never":
            for part in ends:
                part.set_pause_generator(stalls(self.rng, pause))

    async def run(self, script, limit=20_000):
        """Run the coroutine function `script(self)` to its end."""
        task = cocotb.start_soon(script(self))
        await self.bench.until(task.done, limit)
        return await task

    async def write(self, offset, value, size=4):
        response = await self.master.write(offset, value.to_bytes(size, "little"))
        assert response.resp == 0

    async def read(self, offset):
        response = await self.master.read(offset, 4)
        assert response.resp == 0
        return int.from_bytes(response.data, "little")

    async def ended(self):
        """Wait for the end of the run that the kernel has been told to finish, and a little more."""
        while self.kernel.wait is not None:
            await self.read(GIE)
        await self.read(GIE)
