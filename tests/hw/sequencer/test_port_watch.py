"""hw.sequencer.port_watch against a model in Python."""

import random

import pytest
from amaranth.hdl import C
from amaranth.sim import Simulator

from symlight.hw.sequencer.port_watch import PortWatch

CHANNELS, LIMIT = 6, 12


def outputs(watch, program):
    """(all_quiet, stuck, channel) in the cycle after each of `program`'s (quiet, waiting)."""
    seen = []

    async def bench(ctx):
        for quiet, waiting in program:
            ctx.set(watch.quiet, quiet)
            ctx.set(watch.waiting, waiting)
            await ctx.tick()
            seen.append((ctx.get(watch.all_quiet), ctx.get(watch.stuck), ctx.get(watch.channel)))

    sim = Simulator(watch)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    return seen


def program(seed):
    rng = random.Random(seed)
    steps = []
    for _ in range(60):
        waiting, quiet = rng.random() < 0.8, rng.choice([(1 << CHANNELS) - 1, rng.getrandbits(CHANNELS)])
        steps += [(quiet, int(waiting))] * rng.randrange(1, 2 * LIMIT)
    return steps


def expected(steps):
    waited, all_quiet, found, channel = 0, 0, [], 0
    for quiet, waiting in steps:
        waited = waited + 1 if waiting and not all_quiet else 0
        stuck = waited >= LIMIT
        all_quiet = int(quiet == (1 << CHANNELS) - 1)
        channel = channel if all_quiet else next(k for k in range(CHANNELS) if not quiet >> k & 1)
        found.append((all_quiet, int(stuck), channel))
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_port_watch(seed):
    steps = program(seed)
    found = outputs(PortWatch(CHANNELS, LIMIT), steps)
    assert found == expected(steps) and sum(stuck for _, stuck, _ in found) > 20


class _Always(PortWatch):
    """Counts when nothing is waited for, too."""

    def elaborate(self, platform):
        self.waiting = C(1)
        return super().elaborate(platform)


def test_a_wrong_count_is_seen():
    steps = program(1)
    broken = _Always(CHANNELS, LIMIT)
    waiting = broken.waiting
    module = broken.elaborate(None)
    broken.waiting = waiting
    broken.elaborate = lambda platform: module
    assert outputs(broken, steps) != expected(steps)
