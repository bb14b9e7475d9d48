"""Bench of hw.control: an AXI4-Lite master with pauses on every channel as the host, an agent as the
kernel."""

import cocotb

from symlight.hw.config import Engine
from symlight.hw.control import CTRL, GIE, IER, ISR, Control, argument_layout
from symlight.hw.interface import arguments
from tests.benches.bench import fields, parameters
from tests.benches.control.control_bench import CHANNELS, Host

LIMIT = {"timeout_time": 1_000_000, "timeout_unit": "ns"}
IDLE, RUNNING, ENDED = 0b0100, 0b0001, 0b1110  # CTRL as it is read
engine = Engine(channels=parameters()["channels"])
table = arguments(engine.channels)
end = table[-1].offset + table[-1].size


@cocotb.test(**LIMIT)
@cocotb.parametrize(pause=["never", "random", "bursts", "slow"])
async def arguments_are_latched(dut, pause):
    """Any mix of widths and order of writes; reads give what was written; a run sees what was there at its
    start."""
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
            image[offset : offset + size] = content

    def expected():
        return {a.name: int.from_bytes(image[a.offset : a.offset + a.size], "little") for a in table}

    async def script(host):
        for _ in range(3):
            if host.rng.randrange(2):  # as XRT does: every word, gaps included, in one go
                content = host.rng.randbytes(end - 0x10)
                await host.master.write(0x10, content)
                for k in mapped:
                    image[k] = content[k - 0x10]
            await scribble(host, 12)
            await host.write(CTRL, 1)
            assert fields(argument_layout(engine), host.kernel.args) == expected()
            await scribble(host, 6)  # the agent sees that args do not change
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
        await host.read(GIE)  # a read takes longer than the output register
        return host.kernel.interrupts[-1]

    async def script(host):
        await one_run(host)  # all disabled: latched, not shown
        assert await host.read(ISR) == 3 and not await level(host)
        await host.write(IER, 1)
        assert not await level(host)
        await host.write(GIE, 1)  # enabled after the end: it must show
        assert await level(host)
        assert await host.read(CTRL) == ENDED and await level(host)
        await host.write(ISR, 1)
        assert await host.read(ISR) == 2 and not await level(host)
        await host.write(IER, 2)
        assert await host.read(IER) == 2 and await level(host)
        await host.write(ISR, await host.read(ISR))  # the driver's way to clear
        assert await host.read(ISR) == 0 and not await level(host)
        await host.write(ISR, 0)
        await host.write(ISR + 1, 0xFF, 1)  # not the byte with the bits
        assert await host.read(ISR) == 0
        await host.write(ISR, 2)  # toggles, so it sets
        assert await host.read(ISR) == 2 and await level(host)
        await host.write(GIE, 0xFFFFFFFE)
        assert await host.read(GIE) == 0 and not await level(host)
        await host.write(ISR, 2)
        await host.write(GIE, 1)
        await host.write(IER, 1)
        assert not await level(host)
        await one_run(host)  # enabled before
        assert await level(host) and await host.read(ISR) == 3
        first = host.kernel.interrupts.index(1, host.kernel.ends[-1] - offset)
        assert first + offset == host.kernel.ends[-1] + Control.INTERRUPT_LATENCY

    await host.bench.reset()
    offset = host.bench.cycle  # of the agent's first sample
    await host.run(script)
    await host.bench.finish()


@cocotb.test(**LIMIT)
async def nothing_else_acts(dut):
    """Start within a run, end without a run, other bits of CTRL, unmapped offsets, reset within a run."""
    host = Host(dut, "random")

    async def before(host):
        assert await host.read(CTRL) == IDLE
        await host.write(CTRL, 0xFE)  # ap_continue and others
        await host.write(CTRL + 1, 1, 1)
        host.kernel.finish()
        await host.ended()
        assert await host.read(CTRL) == IDLE and await host.read(ISR) == 0 and not host.kernel.starts
        await host.write(CTRL, 1)
        await host.write(CTRL, 1)
        assert await host.read(CTRL) == RUNNING and len(host.kernel.starts) == 1
        host.kernel.finish()
        await host.ended()
        await host.write(CTRL, 1)  # nobody has read the end: it is not the end of this run
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
    for channel in CHANNELS:
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
