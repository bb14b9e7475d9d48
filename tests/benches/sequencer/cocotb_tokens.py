"""Bench of hw.sequencer.tokens: runs of scripted tokens against the session semantics of the reference."""

import cocotb

from symlight.hw.channel.logits import LOGIT_HEADS
from symlight.hw.interface import ErrorCode
from symlight.model.config import MAX_POSITION
from symlight.model.reference import STOP_EOS
from tests.benches.sequencer.sequencer_bench import IDLE, LIMIT
from tests.benches.sequencer.tokens_bench import EOS, PER_BEAT, SHAPE, Loop, words


@cocotb.test(**LIMIT)
@cocotb.parametrize(stall=IDLE)
async def runs(dut, stall):
    """Prompts around the beat's length, budgets 0 and more, pending tokens, over the end of the ring."""
    loop = Loop(dut, stall)
    rng = loop.bench.rng
    await loop.reset()
    for length, n_new in [
        (1, 0),
        (0, 1),
        (PER_BEAT, 0),
        (0, 0),
        (PER_BEAT + 1, 2),
        (3, 5),
        (0, 3),
        (2 * PER_BEAT, 1),
        (2, 0),
        (1, 4),
    ]:
        await loop.run(words(rng, length), n_new)
    await loop.forget()
    loop.check_session()
    await loop.run(words(rng, 2 * PER_BEAT + 3), 3)
    await loop.finish()


@cocotb.test(**LIMIT)
@cocotb.parametrize(stall=["never", "random"])
async def replaced(dut, stall):
    """The prompt's first token takes the place of the pending one, which is never ingested."""
    loop = Loop(dut, stall)
    rng = loop.bench.rng
    await loop.reset()
    await loop.run(words(rng, 3), 2)
    for length, n_new in [(1, 0), (1, 2), (PER_BEAT + 2, 0), (2, 1)]:
        await loop.run(words(rng, length), n_new, replace=True)
    await loop.run([], 3)
    await loop.forget()
    await loop.run(words(rng, 2), 1, replace=True)  # nothing is pending
    await loop.finish()


@cocotb.test(**LIMIT)
async def every_head(dut):
    """The head in every pass, also of the prompt; places of logits, from the beginning again when all are
    used."""
    loop = Loop(dut, "never")
    rng = loop.bench.rng
    await loop.reset()
    for length, n_new, every in [
        (3, 2, 1),
        (2, 0, 1),
        (4, 1, 0),
        (LOGIT_HEADS, 5, 1),
        (1, LOGIT_HEADS + 3, 0),
    ]:
        await loop.run(words(rng, length), n_new, every=every)
    await loop.finish()


@cocotb.test(**LIMIT)
@cocotb.parametrize(stall=["never", "random"])
async def end_of_sequence(dut, stall):
    """As the first token, inside, as the last of the budget; it stays pending; in a prompt it means
    nothing."""
    loop = Loop(dut, stall)
    rng = loop.bench.rng
    await loop.reset()
    for then in ([EOS], words(rng, 2) + [EOS], words(rng, 3) + [EOS], words(rng, 4)):
        run = await loop.run(words(rng, 2), 4, EOS, then)
        assert (run.stop_reason == STOP_EOS) == (EOS in then)
    assert len((await loop.run([EOS, *words(rng, 3), EOS], 2, EOS)).tokens) == 2
    assert len((await loop.run([], 3, EOS, words(rng, 3))).tokens) == 3
    assert len((await loop.run([], 3, None, [EOS, EOS, EOS])).tokens) == 3
    assert len((await loop.run([], 10, 0, [0])).tokens) == 1  # id 0 is a token like any other
    await loop.finish()


@cocotb.test(**LIMIT)
async def refusals(dut):
    loop = Loop(dut, "random")
    rng = loop.bench.rng
    await loop.reset()
    await loop.refused([], 3, ErrorCode.EMPTY_INPUT)
    await loop.run(words(rng, 3), 1)
    # the pending token goes first
    await loop.refused([SHAPE.vocab], 1, ErrorCode.BAD_TOKEN, SHAPE.vocab, passes=1)
    await loop.forget()
    for bad in (SHAPE.vocab, 65536 + 1, (1 << 32) - 1):
        await loop.refused([bad, 1], 1, ErrorCode.BAD_TOKEN, bad)
    await loop.refused([1, 2, SHAPE.vocab + 1, 3], 1, ErrorCode.BAD_TOKEN, SHAPE.vocab + 1, passes=2)
    await loop.forget()
    loop.passes.bests.clear()
    await loop.run([SHAPE.vocab - 1, 0], 1)
    await loop.finish()


@cocotb.test(**LIMIT)
@cocotb.parametrize(stall=["never", "random"])
async def full_session(dut, stall):
    """Runs that could pass the last position are refused; the longest that cannot is taken."""
    loop = Loop(dut, stall)
    rng = loop.bench.rng
    await loop.reset()
    await loop.run(words(rng, 5), 2)  # position 6, one pending
    position = loop.script.state.position
    room = MAX_POSITION - position
    await loop.refused(words(rng, 3), room - 2, ErrorCode.SESSION_FULL, position)
    await loop.refused([], (1 << 32) - 1, ErrorCode.SESSION_FULL)
    await loop.refused([], room + 1, ErrorCode.SESSION_FULL)
    await loop.run(words(rng, 3), room - 3, EOS, [EOS])
    await loop.run([], MAX_POSITION - loop.script.state.position, EOS, [EOS])
    await loop.finish()


@cocotb.test(**LIMIT)
@cocotb.parametrize(position=[0, 1, SHAPE.anchors, SHAPE.slots - 1, SHAPE.slots, SHAPE.slots + 1, 500])
async def restored(dut, position):
    """A restored session goes on where it was: slot, populated slots, pending token or none."""
    loop = Loop(dut)
    rng = loop.bench.rng
    await loop.reset()
    await loop.run(words(rng, 4), 2)
    await loop.restore(position, None)
    loop.check_session()
    await loop.refused([], 2, ErrorCode.EMPTY_INPUT)
    await loop.run(words(rng, 2), 2)
    await loop.restore(position, 99)
    loop.check_session()
    await loop.run([], SHAPE.slots + 2)
    await loop.restore(position, None)
    await loop.forget()  # a new session has nothing to load
    await loop.run(words(rng, 2), 1)
    await loop.finish()
