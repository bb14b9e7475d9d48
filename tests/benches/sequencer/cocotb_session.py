"""Bench of hw.sequencer.session: what each command makes of its units, refusals, faults, watchdog, counters,
mailbox."""

import cocotb

from symlight.hw.interface import LONG_WATCHDOG_SHIFT, Command, Counter, ErrorCode, Flag, StopReason
from symlight.hw.sequencer.session import QUIET_CYCLES, RESET_CYCLES
from tests.benches.sequencer.sequencer_bench import LIMIT
from tests.benches.sequencer.session_bench import Runs


@cocotb.test(**LIMIT)
async def commands(dut):
    runs = Runs(dut)
    await runs.reset()
    await runs.load()
    await runs.run(Command.RESET, ["state_start", "SWEEP", "forget"])
    await runs.run(Command.DUMP, ["state_start", "DUMP"])
    for position, pending, has_pending in ((0, 0, 0), ((1 << 20), 65535, 1), (1234, 77, 1)):
        junk = runs.bench.rng.getrandbits(15) << 65
        runs.units.beat = position | pending << 32 | has_pending << 64 | junk
        await runs.run(Command.RESTORE, ["state_start", "RESTORE", "side", "restore"])
        assert runs.units.mode["restored"] == (position, pending, has_pending)
    await runs.generate()
    await runs.finish()


@cocotb.test(**LIMIT)
async def counted_passes(dut):
    """Cycles and passes go to the prompt's or the decoding's counters."""
    runs = Runs(dut)
    rng = runs.bench.rng
    await runs.reset()
    await runs.load()
    for reason, split in ((StopReason.LENGTH, 3), (StopReason.EOS, 1), (StopReason.NONE, 6)):
        passes = [(rng.getrandbits(32), int(i >= split)) for i in range(6)]
        await runs.generate(reason, passes=passes)
        adds = runs.units.adds
        for decoding, cycles, count in (
            (0, Counter.PROMPT_CYCLES, Counter.PROMPT_PASSES),
            (1, Counter.DECODE_CYCLES, Counter.DECODE_PASSES),
        ):
            part = [c for c, d in passes if d == decoding]
            assert (adds.get(cycles, 0), adds.get(count, 0)) == (sum(part), len(part))
    await runs.finish()


@cocotb.test(**LIMIT)
async def refusals(dut):
    runs = Runs(dut)
    await runs.reset()
    for command in (Command.RESET, Command.GENERATE, Command.DUMP, Command.RESTORE):
        await runs.refused(command, ErrorCode.NOT_LOADED)
    runs.units.mode["load_failed"] = 1
    fields = await runs.run(Command.LOAD, ["load_start"])
    assert fields["error"] == ErrorCode.NOT_LOADED
    await runs.refused(Command.GENERATE, ErrorCode.NOT_LOADED)
    runs.units.mode["load_failed"] = 0
    await runs.load()
    for command in (0, 6, 29, 1 << 31):
        await runs.refused(command, ErrorCode.BAD_COMMAND)
    for error in (ErrorCode.EMPTY_INPUT, ErrorCode.SESSION_FULL):  # the session stays
        await runs.generate(StopReason.FAULT, error, 5)
    await runs.generate()
    await runs.generate(StopReason.FAULT, ErrorCode.BAD_TOKEN, 70000)
    await runs.refused(Command.GENERATE, ErrorCode.NEEDS_RESET)
    await runs.run(Command.RESET, ["state_start", "SWEEP", "forget"])
    await runs.generate()
    await runs.finish()


@cocotb.test(**LIMIT)
async def modes(dut):
    runs = Runs(dut)
    await runs.reset()
    await runs.load()
    every = [
        Flag.DENSE,
        Flag.FULL_KV,
        Flag.LOGITS,
        Flag.REPLACE_PENDING,
        Flag.SAMPLE,
        Flag.CANDIDATES,
        Flag.EVERY_HEAD,
    ]
    for flags in (0, *every, Flag.DENSE | Flag.FULL_KV, Flag.LOGITS | Flag.REPLACE_PENDING):
        await runs.run(Command.DUMP, ["state_start", "DUMP"], flags=flags)
        assert runs.ports.get("dense") == bool(flags & Flag.DENSE)
        assert runs.ports.get("full_kv") == bool(flags & Flag.FULL_KV)
        assert runs.ports.get("logits") == bool(flags & Flag.LOGITS)
        assert runs.ports.get("sampling") == bool(flags & Flag.SAMPLE)
        assert runs.ports.get("every_head") == bool(flags & Flag.EVERY_HEAD)
        assert runs.ports.get("listing") == bool(flags & Flag.CANDIDATES)
        assert runs.ports.get("replace_pending") == bool(flags & Flag.REPLACE_PENDING)
    await runs.finish()


@cocotb.test(**LIMIT)
async def lost_answer(dut):
    """A port that never answers ends the wait, and every later command is refused with its number."""
    runs = Runs(dut)
    units = runs.units
    await runs.reset()
    await runs.load()
    units.hold, units.quiet = "tokens_done", False
    await runs.start(Command.GENERATE, watchdog=400)
    await runs.bench.until(lambda: units.aborted, limit=500)
    await runs.bench.step(300)
    assert not units.resets and runs.ports.get("waiting")
    units.stuck = 11
    fields = await runs.end()
    assert (fields["error"], fields["error_channel"]) == (ErrorCode.STUCK_PORT, 11) and units.resets
    units.stuck, units.hold, units.quiet = None, None, True
    for command in (Command.GENERATE, Command.LOAD, Command.RESET, Command.RESTORE):
        await runs.refused(command, ErrorCode.STUCK_PORT)
        assert units.fields["error_channel"] == 11
    await runs.finish()


@cocotb.test(**LIMIT)
async def long_watchdog(dut):
    """With its flag the watchdog counts longer units."""
    runs = Runs(dut)
    await runs.reset()
    await runs.load()
    runs.units.hold = "tokens_done"
    await runs.start(Command.GENERATE, flags=Flag.LONG_WATCHDOG, watchdog=2)
    await runs.bench.until(lambda: runs.units.aborted, limit=3000)
    waited = runs.bench.cycle - runs.begin
    assert 2 << LONG_WATCHDOG_SHIFT <= waited < (2 << LONG_WATCHDOG_SHIFT) + 40, waited
    assert (await runs.end())["error"] == ErrorCode.WATCHDOG
    runs.units.hold = None
    await runs.finish()


WORK = {  # unit that hangs: command, log until then
    "load_done": (Command.LOAD, ["load_start"]),
    "state_done": (Command.DUMP, ["state_start", "DUMP"]),
    "tokens_done": (Command.GENERATE, ["tokens_start"]),
    "beat_valid": (Command.RESTORE, ["state_start", "RESTORE", "side"]),
}
CAUSES = ["read", "write", "watchdog"]


async def fails(runs, hang, cause, busy):
    """The unit `hang` never answers, and a fault or the watchdog ends the run; the channels are busy for
    `busy` cycles."""
    units, rng = runs.units, runs.bench.rng
    command, log = WORK[hang]
    units.hold, units.quiet, units.aborted = hang, False, 0
    units.outcome = {}
    await runs.start(command, watchdog=400 if cause == "watchdog" else 0)
    where = {
        "fault_write": int(cause == "write"),
        "fault_channel": rng.randrange(32),
        "fault_address": rng.getrandbits(32),
    }
    if cause != "watchdog":
        await runs.bench.step(100)
        assert not runs.ports.get("abort")
        runs.fault.send([where])
    await runs.bench.until(lambda: units.aborted, limit=500)
    assert cause != "watchdog" or runs.bench.cycle - runs.begin >= 400
    for _ in range(busy):  # quiet, but not for long enough
        units.quiet = False
        await runs.bench.step(rng.randrange(1, 20))
        units.quiet = True
        await runs.bench.step(rng.randrange(1, QUIET_CYCLES - 4))
    assert not units.resets, "reset while the channels were busy"
    units.quiet = True
    fields = await runs.end()
    assert units.log == ["counters_clear", *log, "soft_reset", "mailbox_start"], units.log
    assert units.resets.pop() > RESET_CYCLES
    error = {
        "read": ErrorCode.READ_RESPONSE,
        "write": ErrorCode.WRITE_RESPONSE,
        "watchdog": ErrorCode.WATCHDOG,
    }[cause]
    assert (fields["stop_reason"], fields["error"]) == (StopReason.FAULT, error), fields
    if cause != "watchdog":
        assert (fields["error_channel"], fields["error_address"]) == (
            where["fault_channel"],
            where["fault_address"],
        )
    units.hold = None


@cocotb.test(**LIMIT)
@cocotb.parametrize(hang=list(WORK), cause=CAUSES)
async def faults(dut, hang, cause):
    runs = Runs(dut)
    await runs.reset()
    await runs.load()
    await fails(runs, hang, cause, busy=3)
    lost = ErrorCode.NOT_LOADED if hang == "load_done" else ErrorCode.NEEDS_RESET
    await runs.refused(Command.GENERATE, lost)
    if hang == "load_done":
        await runs.load()
    elif cause == "read":
        await runs.run(Command.RESTORE, ["state_start", "RESTORE", "side", "restore"])
    else:
        await runs.run(Command.RESET, ["state_start", "SWEEP", "forget"])
    await runs.generate()
    await runs.finish()


@cocotb.test(**LIMIT)
@cocotb.parametrize(command=[Command.DUMP.value, Command.GENERATE.value])
async def fault_of_the_last_write(dut, command):
    """The units are done, but the memory answers the last write with an error: the run has failed."""
    runs = Runs(dut)
    await runs.reset()
    await runs.load()
    runs.units.quiet = False
    runs.units.outcome = {"tokens_reason": StopReason.LENGTH, "tokens_error": 0, "tokens_address": 0}
    await runs.start(command)
    await runs.bench.step(2000)  # longer than a report, which asks every column for its counts
    assert "mailbox_start" not in runs.units.log and runs.ports.get("running"), (
        "mailbox_start before the answer"
    )
    runs.fault.send([{"fault_write": 1, "fault_channel": 3, "fault_address": 0x1234}])
    await runs.bench.step(20)
    runs.units.quiet = True
    fields = await runs.end()
    assert (fields["error"], fields["error_channel"]) == (ErrorCode.WRITE_RESPONSE, 3)
    assert fields["stop_reason"] == StopReason.FAULT
    await runs.refused(Command.GENERATE, ErrorCode.NEEDS_RESET)
    await runs.finish()


@cocotb.test(**LIMIT)
async def no_watchdog_after_the_work(dut):
    """A run that ends in time is fine however long its report takes; the next one starts with a fresh
    clock."""
    runs = Runs(dut)
    await runs.reset()
    await runs.load()
    runs.units.outcome = {"tokens_reason": StopReason.LENGTH, "tokens_error": 0, "tokens_address": 0}
    for _ in range(3):
        await runs.run(Command.GENERATE, ["tokens_start"], watchdog=200)
        assert runs.units.fields["error"] == ErrorCode.NONE
    await runs.finish()


@cocotb.test(**LIMIT)
@cocotb.parametrize(watchdog=[1, 2, 5, 9, 12, 13, 60])
async def a_watchdog_that_runs_out_before_the_work(dut, watchdog):
    """The counters are still being cleared when the time is over: the run fails all the same."""
    runs = Runs(dut)
    await runs.reset()
    await runs.load()
    runs.units.hold, runs.units.quiet, runs.units.outcome = "tokens_done", True, {}
    await runs.start(Command.GENERATE, watchdog=watchdog)
    fields = await runs.end()
    assert (fields["stop_reason"], fields["error"]) == (StopReason.FAULT, ErrorCode.WATCHDOG), fields
    runs.units.hold = None
    await runs.refused(Command.GENERATE, ErrorCode.NEEDS_RESET)
    await runs.finish()
