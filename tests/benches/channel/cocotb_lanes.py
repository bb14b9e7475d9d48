"""Bench of LaneGroup: commands, drains while others add, the head and its logits, the side output."""

from itertools import pairwise

import cocotb
import numpy as np

from symlight.hw.channel.head import Head
from symlight.hw.channel.lanes import HEAD_WORDS, LaneGroup
from symlight.hw.channel.logits import CandidateList
from symlight.hw.types import ChannelCommand, Item, drain_layout
from symlight.hw.types import Source as Origin
from symlight.model.sampling import CANDIDATES
from tests.benches.bench import Bench, Source
from tests.benches.channel.channel_bench import Drain
from tests.benches.channel.lanes_program import INDEX, Program, engine

LIMIT = {"timeout_time": 2_000_000, "timeout_unit": "ns"}


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=["never", "random", "bursts", "rare"])
async def random_commands(dut, idle):
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    words = engine().accumulators - HEAD_WORDS - 1  # the last one is used after a head
    used = 0
    for _ in range(24):
        kind = bench.rng.random()
        if kind < 0.2:
            program.other()
        elif kind < 0.35:
            program.head(bench.rng.randrange(1, 4), bench.rng.randrange(1, 40))
        else:
            beats = bench.rng.choice([1, 1, 2, 3, min(6, words // 4)])
            rows = bench.rng.choice([0, 1, 2, 3, 20])
            if used + beats > words:
                used, rows = 0, 2 * words  # long enough that the drains of those before are over
            program.matrix(used, beats, rows)
            used += beats
    await program.run(bench, idle, stall=idle, others=4)


@cocotb.test(**LIMIT)
@cocotb.parametrize(stall=["never", "random", "slow", "bursts"])
async def logits_of_every_row(dut, stall):
    """Ties, padding and negative logits come out in order, whatever the writer does, and the best row too."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    lanes = engine().lanes
    equal = np.full((3, lanes, 5), 7)
    program.head(3, 5, weights=equal, values=np.full(5, -3), scales=np.full((3, lanes), 65535), written=True)
    program.head(2, 40, written=True)
    program.head(2, 40, written=False)
    program.head(1, 0, written=True)  # a tile without rows: zeros
    for _ in range(3):
        program.head(bench.rng.randrange(1, 4), bench.rng.randrange(1, 30), written=True)
    assert len(program.written) >= 9 * 8
    await program.run(bench, stall=stall, others=2)


@cocotb.test(**LIMIT)
@cocotb.parametrize(tiles=[1, 6], equal=[False, True], stall=["never", "slow"])
async def candidates_in_order(dut, tiles, equal, stall):
    """The rows behind the best one, one by one, as far as the list goes."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    weights = np.full((tiles, engine().lanes, 5), 7) if equal else None
    scales = np.full((tiles, engine().lanes), 65535) if equal else None
    program.head(2, 5)  # the rows of a head before mean nothing, however far its list is
    program.commands[-2]["candidates"] = 1
    for word in range(bench.rng.choice([0, 6])):
        program.matrix(word, 1, 40)
    program.head(tiles, 5, values=np.full(5, -3), weights=weights, scales=scales, written=stall != "never")
    program.commands[-2]["candidates"] = 1  # a matrix follows the head
    await program.run(bench, stall=stall)
    bench.agents = [agent for agent in bench.agents if not isinstance(agent, Drain)]
    drain, found = Drain(bench, "drain", LaneGroup.DRAIN_LATENCY, drain_layout(engine())), []
    while True:
        count = drain.count
        drain.ask(Origin.NEXT)
        await bench.until(lambda count=count: drain.count > count, limit=10)
        low, high, token, state = drain.answers[-1][2][:4]
        if not state:
            break
        found.append(((high << 32) | (low & 0xFFFFFFFF), token))
    order = sorted(program.rows, key=lambda row: (-row[0], row[1]))[:CANDIDATES]
    assert found == order[1:]


@cocotb.test(**LIMIT)
@cocotb.parametrize(beats=[1, 2, 5])
async def one_beat_a_cycle(dut, beats):
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    for i in range(3):
        program.matrix(5 * i, beats, 12, marker=False)
    commands, items, taken, done = await program.run(bench)
    first = taken.cycles[0]
    assert taken.cycles == list(range(first, first + 36 * beats)), "beats are taken with bubbles"
    ends = [items.cycles[12 * i + 11] for i in range(3)]
    assert done.cycles == [cycle + LaneGroup.LATENCY for cycle in ends]


@cocotb.test(**LIMIT)
async def nothing_active(dut):
    """Commands without a row complete, with zeros, one a cycle, also in words that held sums before."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    program.matrix(0, 4, 8)
    program.matrix(8, 1, 0)
    program.matrix(9, 1, 0)
    for _ in range(2):
        program.head(1, 8)  # time for the drains
        program.matrix(0, 4, 0)
    *_, done = await program.run(bench)
    assert done.cycles[2] == done.cycles[1] + 1 == done.cycles[0] + 2


@cocotb.test(**LIMIT)
async def extreme_sums(dut):
    """As many rows as a matrix and a head may have, of the largest products, in both directions: the sums
    need every bit."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    lanes = engine().lanes
    rows = engine().vector_words * lanes
    program.matrix(0, 1, rows, values=np.full(rows, -128), weights=extremes(rows, lanes))
    assert program.answers[0][2][:2] == [rows * 128 * 128, rows * -128 * 127]
    rows = 2 * engine().width_words * lanes
    scales = np.full((1, lanes), 65535)
    program.head(1, rows, values=np.full(rows, -128), weights=extremes(rows, lanes).T[None], scales=scales)
    assert program.answers[1][2][1] == rows * 128 * 128 * 65535 >> 32
    await program.run(bench)


def extremes(rows, lanes):
    weights = np.full((rows, lanes), 127)
    weights[:, ::2] = -128
    return weights


@cocotb.test(**LIMIT)
async def head_ties_and_padding(dut):
    """The lowest id wins a tie, rows of scale 0 never win, an all-zero head has no best row."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    lanes = engine().lanes
    for case in range(6):
        weights, scales = program.weights(3, lanes, 5), np.full((3, lanes), 65535)
        values = np.full(5, -3)
        if case == 0:
            scales[:] = 0
        if case == 1:  # all equal and negative: the first row with a scale
            weights[:] = 7
            scales[0, :9] = 0
        if case == 2:  # the best row is padding
            weights[1, 4] = -128
            weights[2, 4] = -120
            scales[1, 4] = 0
        if case == 3:  # tie between tiles
            weights[0, 15] = weights[2, 0] = weights[2, 1] = -128
        if case == 4:  # all negative
            weights[:] = np.abs(weights) // 2 + 1
        program.head(3, 5, values=values, weights=weights, scales=scales)
    program.head(2, 0)  # tiles without rows: all sums are zero
    await program.run(bench)


@cocotb.test(**LIMIT)
async def tiles_beside_drains(dut):
    """A tile is summed while the words of the matrix before it are drained: requests go first."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    for rows in range(1, 8):
        program.matrix(0, 5, 4, marker=False)
        program.head(2, rows, marker=False)
    await program.run(bench)


@cocotb.test(**LIMIT)
@cocotb.parametrize(written=[False, True], listed=[False, True])
async def head_streams(dut, written, listed):
    """Tiles follow each other without a bubble, and the last one drains in the stated time."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    lanes = engine().lanes
    weights, scales = program.weights(3, lanes, 2 * lanes), np.full((3, lanes), 1000)
    program.head(3, 2 * lanes, weights=weights, scales=scales, marker=False, written=written, listed=listed)
    *_, beats, done = await program.run(bench)
    first, total = beats.cycles[0], 3 * (2 * lanes + 2)
    assert beats.cycles[:total] == list(range(first, first + total))
    # rows that are looked at are waited for; the last beat of logits leaves a cycle later
    more = (written or listed) * Head.EARLY + written
    end = beats.cycles[total - 1] + LaneGroup(engine=engine()).HEAD_LATENCY + more
    most = (
        sum(range(3 * lanes)) + 3 * lanes * (1 + CandidateList.INSERT) if listed else 0
    )  # all rows inserted
    assert end <= done.cycles[0] <= end + most


@cocotb.test(**LIMIT)
async def tiles_shorter_than_a_drain(dut):
    """The scales of a short tile wait for the drain of the tile before it, as long as stated."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    tiles, rows = 4, 2
    program.head(tiles, rows, marker=False)
    *_, beats, _ = await program.run(bench)
    ends = beats.cycles[rows + 1 : tiles * (rows + 2) : rows + 2]  # the sums' own beats come behind
    assert {after - end for end, after in pairwise(ends)} == {LaneGroup(engine=engine()).TILE_CYCLES}


@cocotb.test(**LIMIT)
async def reset_forgets(dut):
    """A reset in the middle of a command leaves nothing over."""
    bench = Bench(dut)
    stale = Program(bench.rng, engine())
    stale.matrix(0, 3, 20)
    stale.head(2, 30)
    commands = Source(bench, "commands", ChannelCommand)
    items, beats = Source(bench, "items", Item), Source(bench, "beats", None)
    dut.index.value, dut.logits__ready.value = INDEX, 1
    await bench.reset()
    commands.send(stale.commands)
    items.send(stale.items)
    beats.send(stale.beats)
    await bench.step(bench.rng.choice([10, 40, 62, 75, 100, 120]))
    bench.agents.clear()
    for agent in (commands, items, beats):
        agent.idle()
    program = Program(bench.rng, engine())
    program.matrix(0, 3, 0)
    program.head(2, 30)
    program.matrix(0, 3, 5)
    await program.run(bench)
