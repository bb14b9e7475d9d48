"""Bench of hw.control: an AXI4-Lite master with pauses on every channel as the host, an agent as the kernel."""

import logging

import cocotb
from bench import Agent, Bench, fields, parameters, stalls
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from symlight.hw.config import Engine
from symlight.hw.control import CTRL, GIE, IER, ISR, Control, argument_layout
from symlight.hw.interface import arguments

LIMIT = {"timeout_time": 1_000_000, "timeout_unit": "ns"}
IDLE, RUNNING, ENDED = 0b0100, 0b0001, 0b1110       # CTRL as it is read
CHANNELS = ("aw", "w", "b", "ar", "r")
engine = Engine(channels=parameters()["channels"])
table = arguments(engine.channels)
end = table[-1].offset + table[-1].size


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
        assert counts["b"] <= min(counts["aw"], counts["w"]) and counts["r"] <= counts["ar"], "a response too much"

    def check_empty(self):
        counts = {channel: len(cycles) for channel, cycles in self.cycles.items()}
        assert counts["aw"] == counts["w"] == counts["b"] and counts["ar"] == counts["r"], counts


class Kernel(Agent):
    """Takes starts, and ends runs when told: `delay` cycles after the start, or not by itself (None)."""

    def __init__(self, bench, delay=None):
        super().__init__(bench)
        self.delay, self.wait, self.starts, self.args, self.ends, self.interrupts = delay, None, [], None, [], []

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
        ends = [self.master.write_if.aw_channel, self.master.write_if.w_channel, self.master.write_if.b_channel,
                self.master.read_if.ar_channel, self.master.read_if.r_channel]
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


@cocotb.test(**LIMIT)
@cocotb.parametrize(pause=["never", "random", "bursts", "slow"])
async def arguments_are_latched(dut, pause):
    """Any mix of widths and order of writes; reads give what was written; a run sees what was there at its start."""
    host = Host(dut, pause)
    image = bytearray(end)
    mapped = {a.offset + k for a in table for k in range(a.size)}

    async def scribble(host, count):
        for _ in range(count):
            argument = host.rng.choice(table)
            size = host.rng.choice((1, 2, 3, 4, argument.size, argument.size))
            offset = argument.offset + host.rng.randrange(argument.size - min(size, argument.size) + 1)
            content = host.rng.choice((host.rng.randbytes(size), b"\xff" * size, bytes(size)))
            await host.master.write(offset, content)
            image[offset:offset + size] = content

    def expected():
        return {a.name: int.from_bytes(image[a.offset:a.offset + a.size], "little") for a in table}

    async def script(host):
        for _ in range(3):
            if host.rng.randrange(2):       # as XRT does: every word, gaps included, in one go
                content = host.rng.randbytes(end - 0x10)
                await host.master.write(0x10, content)
                for k in mapped:
                    image[k] = content[k - 0x10]
            await scribble(host, 12)
            await host.write(CTRL, 1)
            assert fields(argument_layout(engine), host.kernel.args) == expected()
            await scribble(host, 6)         # the agent sees that args do not change
            assert (await host.master.read(0x10, end - 0x10)).data == bytes(image[0x10:])
            assert await host.read(CTRL) == RUNNING
            host.kernel.finish()
            await host.ended()

    await host.bench.reset()
    await host.run(script, limit=80_000)
    await host.bench.finish()
    assert len(host.kernel.starts) == 3


@cocotb.test(**LIMIT)
@cocotb.parametrize(pause=["never", "random"])
async def every_end_is_seen_once(dut, pause):
    """Polling of CTRL against ends at any cycle."""
    host = Host(dut, pause)
    host.kernel.delay = lambda: host.rng.randrange(20)

    async def script(host):
        for _ in range(60):
            await host.write(CTRL, 1)
            states = [await host.read(CTRL)]
            while not states[-1] & 2:
                states.append(await host.read(CTRL))
            assert states == [RUNNING] * (len(states) - 1) + [ENDED], states
            assert await host.read(CTRL) == IDLE

    await host.bench.reset()
    await host.run(script)
    await host.bench.finish()
    assert len(host.kernel.starts) == len(host.kernel.ends) == 60


@cocotb.test(**LIMIT)
@cocotb.parametrize(pause=["never", "random"])
async def interrupts(dut, pause):
    host = Host(dut, pause)

    async def one_run(host):
        await host.write(CTRL, 1)
        host.kernel.finish(3)
        await host.ended()

    async def level(host):
        await host.read(GIE)        # a read takes longer than the output register
        return host.kernel.interrupts[-1]

    async def script(host):
        await one_run(host)                                 # all disabled: latched, not shown
        assert await host.read(ISR) == 3 and not await level(host)
        await host.write(IER, 1)
        assert not await level(host)
        await host.write(GIE, 1)                            # enabled after the end: it must show
        assert await level(host)
        assert await host.read(CTRL) == ENDED and await level(host)
        await host.write(ISR, 1)
        assert await host.read(ISR) == 2 and not await level(host)
        await host.write(IER, 2)
        assert await host.read(IER) == 2 and await level(host)
        await host.write(ISR, await host.read(ISR))         # the driver's way to clear
        assert await host.read(ISR) == 0 and not await level(host)
        await host.write(ISR, 0)
        await host.write(ISR + 1, 0xFF, 1)                  # not the byte with the bits
        assert await host.read(ISR) == 0
        await host.write(ISR, 2)                            # toggles, so it sets
        assert await host.read(ISR) == 2 and await level(host)
        await host.write(GIE, 0xFFFFFFFE)
        assert await host.read(GIE) == 0 and not await level(host)
        await host.write(ISR, 2)
        await host.write(GIE, 1)
        await host.write(IER, 1)
        assert not await level(host)
        await one_run(host)                                 # enabled before
        assert await level(host) and await host.read(ISR) == 3
        first = host.kernel.interrupts.index(1, host.kernel.ends[-1] - offset)
        assert first + offset == host.kernel.ends[-1] + Control.INTERRUPT_LATENCY

    await host.bench.reset()
    offset = host.bench.cycle       # of the agent's first sample
    await host.run(script)
    await host.bench.finish()


@cocotb.test(**LIMIT)
async def nothing_else_acts(dut):
    """Start within a run, end without a run, other bits of CTRL, unmapped offsets, reset within a run."""
    host = Host(dut, "random")

    async def before(host):
        assert await host.read(CTRL) == IDLE
        await host.write(CTRL, 0xFE)            # ap_continue and others
        await host.write(CTRL + 1, 1, 1)
        host.kernel.finish()
        await host.ended()
        assert await host.read(CTRL) == IDLE and await host.read(ISR) == 0 and not host.kernel.starts
        await host.write(CTRL, 1)
        await host.write(CTRL, 1)
        assert await host.read(CTRL) == RUNNING and len(host.kernel.starts) == 1
        host.kernel.finish()
        await host.ended()
        await host.write(CTRL, 1)               # nobody has read the end: it is not the end of this run
        assert await host.read(CTRL) == RUNNING
        for offset in (table[-1].offset + 8, table[-2].offset + 8, 0x800, 0xFFC):
            await host.write(offset, 0xFFFFFFFF)
            assert await host.read(offset) == 0
        await host.write(IER, 3)
        await host.write(GIE, 1)

    async def after(host):
        for offset in (GIE, IER, ISR, table[0].offset):
            assert await host.read(offset) == 0
        assert await host.read(CTRL) == IDLE
        await host.write(table[0].offset, 5)
        await host.write(CTRL, 1)
        assert fields(argument_layout(engine), host.kernel.args)[table[0].name] == 5
        host.kernel.finish()
        await host.ended()
        assert await host.read(CTRL) == ENDED

    await host.bench.reset()
    await host.run(before)
    await host.bench.reset()
    host.kernel.args = None
    await host.run(after)
    await host.bench.finish()
    assert len(host.kernel.starts) == 3


@cocotb.test(**LIMIT)
async def end_and_start_in_one_cycle(dut):
    """A start that meets the end of the run before counts; every alignment is tried."""
    host = Host(dut)

    async def script(host):
        for shift in range(12):
            await host.write(CTRL, 1)
            count = len(host.kernel.starts)
            host.kernel.finish(shift)
            await host.write(CTRL, 1)
            await host.ended()
            again = len(host.kernel.starts) > count
            outcomes.append(again)
            assert await host.read(CTRL) == (RUNNING if again else ENDED)
            if again:
                assert host.kernel.starts[-1] > host.kernel.ends[-1]
                host.kernel.finish()
                await host.ended()
                assert await host.read(CTRL) == ENDED

    outcomes = []
    await host.bench.reset()
    await host.run(script)
    await host.bench.finish()
    assert outcomes[0] and not outcomes[-1] and outcomes == sorted(outcomes, reverse=True)


@cocotb.test(**LIMIT)
async def latency_and_throughput(dut):
    host = Host(dut)

    async def bursts(host):
        await host.master.write(0x10, bytes(64))
        await host.master.read(0x10, 64)

    async def start(host, late):
        getattr(host.master.write_if, late).pause = True
        task = cocotb.start_soon(host.write(CTRL, 1))
        for _ in range(3):
            await host.read(GIE)
        assert not host.bus.cycles["b"][16:], "a response before address and data"
        getattr(host.master.write_if, late).pause = False
        await task

    cycles = host.bus.cycles
    await host.bench.reset()
    await host.run(bursts)
    for channel in ("aw", "w", "b", "ar", "r"):
        assert [b - a for a, b in zip(cycles[channel], cycles[channel][1:])] == [2] * 15, channel
    assert cycles["r"][0] - cycles["ar"][0] == Control.READ_LATENCY
    for late in ("aw_channel", "w_channel"):
        await host.run(lambda host, late=late: start(host, late))
        last = max(cycles["aw"][-1], cycles["w"][-1])
        assert abs(cycles["aw"][-1] - cycles["w"][-1]) > 5
        assert host.kernel.starts[-1] == cycles["b"][-1] == last + Control.START_LATENCY
        host.kernel.finish()
        await host.bench.step(4)
        del cycles["b"][16:], cycles["aw"][16:], cycles["w"][16:]
    await host.bench.finish()
    assert len(host.kernel.starts) == 2
