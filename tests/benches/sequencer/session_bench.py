"""The units around hw.sequencer.session, and runs of commands on it."""

from symlight.hw.interface import Command, Counter, ErrorCode, Io, Status, StopReason, Traffic
from symlight.hw.sequencer.session import QUIET_CYCLES, Session
from symlight.hw.sequencer.state_transfer import StateAction
from symlight.hw.types import Work
from tests.benches.bench import Agent, Bench, parameters, stalls
from tests.benches.sequencer.sequencer_bench import ENGINE, MANY, Ports, Strobes, Watch

KINDS = 16
ROUND_TRIP = parameters().get("round_trip", 8)  # cycles of a drain, at least
STARTS = ("load_start", "state_start", "tokens_start", "forget", "restore", "mailbox_start", "counters_clear")
ENDS = ("load_done", "state_done", "tokens_done", "mailbox_done", "traffic_valid", "finished", "beat_valid")

# junk without their strobes
BESIDE = ("traffic_value", "pass_cycles", "tokens_reason", "tokens_address", "beat")


class Units(Agent):
    """Everything that the session starts; each answers after a few cycles. `log` holds what happened, in
    order.

    `hold` names a unit that never answers; `quiet` is what the channels say.
    """

    def __init__(self, bench, ports):
        super().__init__(bench)
        self.ports, self.log, self.timers, self.hold = ports, [], {}, None
        self.mode, self.outcome, self.passes, self.adds = {}, {}, [], {}
        self.beat, self.beats, self.quiet, self.settling = 0, [], True, 0
        self.side_stall, self.fields = stalls(bench.rng, "random"), None
        self.busy, self.aborted, self.resets, self.quiet_run, self.total_reset = 0, 0, [], 0, 0
        self.stuck = None  # channel that never answers

    def after(self, name, cycles=None):
        if name != self.hold:
            self.timers[name] = self.bench.rng.randrange(1, 12) if cycles is None else cycles

    def __str__(self):
        return f"log {self.log}"

    def idle(self):
        self.timers.clear()
        self.ports.set(**dict.fromkeys(ENDS, 0), side__ready=0, fault=0, counters_busy=0, counters_idle=1)

    def drive(self):
        rng = self.bench.rng
        due = [name for name, left in self.timers.items() if left == 0]
        self.timers = {name: left - 1 for name, left in self.timers.items() if left}
        self.ports.set(**{name: name in due for name in ENDS}, channels_quiet=self.quiet)
        self.ports.set(stuck=self.stuck is not None, stuck_channel=self.stuck or 0)
        self.accept = not next(self.side_stall)
        self.busy = max(0, self.busy - 1)
        self.ports.set(side__ready=self.accept, counters_idle=self.busy == 0)
        self.settling = max(0, self.settling - 1)
        self.ports.set(counters_busy=self.settling > 0, restoring="restoring" in self.timers)
        self.ports.junk(rng, *(rng.choice(BESIDE), "load_failed", "tokens_error"))
        if "traffic_valid" in due:
            self.ports.set(traffic_value=self.beats[self.kind][self.column])
        if "tokens_done" in due:
            self.ports.set(**self.outcome)
        if "load_done" in due:
            self.ports.set(load_failed=self.mode.get("load_failed", 0))
        if "beat_valid" in due:
            self.ports.set(beat=self.beat)
        if "finished" in due:
            cycles, decoding = self.passes.pop(0)
            self.ports.set(pass_cycles=cycles, decoding=decoding)
            self.after(*(("finished", 10) if self.passes else ("tokens_done", 3)))

    def sample(self):
        get = self.ports.get
        for name in STARTS:
            if get(name):
                self.log.append(name)
                self.count += 1
        answers = {"load_start": "load_done", "state_start": "state_done", "mailbox_start": "mailbox_done"}
        for start, end in answers.items():
            if get(start):
                self.after(end)
        if get("state_start"):
            self.log.append(StateAction(get("state_action")).name)
        if get("tokens_start"):
            self.after("finished" if self.passes else "tokens_done")
        if get("counters_clear"):
            self.settling, self.adds = 8, {}
        if get("restore"):
            self.mode["restored"] = tuple(get(f"restore_{n}") for n in ("position", "pending", "has_pending"))
            self.timers["restoring"] = 30
        if get("mailbox_start"):
            self.fields = get("fields")
        if get("traffic_request"):
            self.kind, self.column = get("traffic_index"), get("traffic_column")
            self.after("traffic_valid", self.bench.rng.randrange(ROUND_TRIP, ROUND_TRIP + 8))
        if get("add_valid"):
            self.busy = 5
            index = get("add_index")
            self.adds[index] = self.adds.get(index, 0) + get("add_amount")
        if get("side__valid") and self.accept:
            command = get("side__payload")
            assert (command["work"], command["io"], command["count"]) == (Work.DIRECT_READ.value, 1, 1)
            assert command["base"] == Io.PROMPT // ENGINE.beat_bytes and command["traffic"] == Traffic.IO
            self.log.append("side")
            self.after("beat_valid")
        self._faulty(get)

    def _faulty(self, get):
        """Abort holds until the channels have been quiet for long enough; then a reset of the units, long
        enough."""
        if get("abort"):
            self.aborted += 1
            self.quiet_run = self.quiet_run + 1 if self.quiet else 0
            self.timers.clear()
        if get("soft_reset"):
            if not self.total_reset:
                assert self.stuck is not None or self.quiet_run >= QUIET_CYCLES, (
                    f"reset after {self.quiet_run} quiet cycles"
                )
                self.log.append("soft_reset")
            self.total_reset += 1
        elif self.total_reset:
            self.resets.append(self.total_reset)
            self.total_reset, self.quiet_run = 0, 0


class Runs:
    """Runs of commands on the session."""

    def __init__(self, dut):
        self.bench = Bench(dut)
        self.ports = Ports(dut, Session(MANY), "session")
        self.units = Units(self.bench, self.ports)
        self.done = Watch(self.bench, self.ports, "done")
        self.fault = Strobes(
            self.bench, self.ports, "fault", ("fault_write", "fault_channel", "fault_address")
        )
        self.run_id = 0

    async def reset(self):
        self.ports.set(start=0)
        await self.bench.reset()

    async def start(self, command, *, flags=0, watchdog=0):
        self.run_id = self.bench.rng.getrandbits(32)
        self.args = {"command": command, "run_id": self.run_id, "flags": flags, "watchdog": watchdog}
        units = self.units
        units.log.clear()
        units.beats = [
            [self.bench.rng.getrandbits(40) for _column in range(MANY.joined)] for _kind in range(KINDS)
        ]
        self.words = {
            name: self.bench.rng.getrandbits(len(self.ports.handle(name)))
            for name in ("position", "pending", "has_pending", "passes", "n_tokens")
        }
        self.ports.set(args=self.args, start=1, **self.words)
        self.begin = self.bench.cycle
        await self.bench.step()
        self.ports.set(start=0)

    async def end(self):
        """To the mailbox; checks what every run has in common, and returns its fields."""
        before = self.done.count
        await self.bench.until(lambda: self.done.count > before, limit=5000)
        await self.bench.step()
        assert not self.ports.get("running")
        fields, adds = self.units.fields, self.units.adds
        assert fields["run_id"] == self.run_id
        assert {name: fields[name] for name in self.words} == self.words
        assert fields["status"] == (Status.ERROR if fields["error"] else Status.OK)
        beats = [adds.get(Counter.READ_BEATS + kind, 0) for kind in range(KINDS)]
        expected = [sum(columns) for columns in self.units.beats]
        assert beats == expected, f"beats {beats}, expected {expected}"
        total = adds[Counter.TOTAL_CYCLES]
        assert 0 < total <= self.bench.cycle - self.begin < total + 80, f"{total} cycles are counted"
        return fields

    async def run(self, command, expected, **options):
        """A whole run; `expected` is the log between the clearing of the counters and the mailbox."""
        await self.start(command, **options)
        fields = await self.end()
        wanted = ["counters_clear", *expected, "mailbox_start"]
        assert self.units.log == wanted, f"{self.units.log}, expected {wanted}"
        return fields

    async def load(self):
        fields = await self.run(Command.LOAD, ["load_start", "state_start", "SWEEP", "forget"])
        assert (fields["error"], fields["stop_reason"]) == (ErrorCode.NONE, StopReason.NONE)

    async def generate(self, reason=StopReason.LENGTH, error=ErrorCode.NONE, address=0, passes=()):
        self.units.passes = list(passes)
        self.units.outcome = {"tokens_reason": reason, "tokens_error": error, "tokens_address": address}
        fields = await self.run(Command.GENERATE, ["tokens_start"])
        assert (fields["stop_reason"], fields["error"], fields["error_address"]) == (
            reason,
            error,
            address,
        ), fields

    async def refused(self, command, error):
        fields = await self.run(command, [])
        assert (fields["stop_reason"], fields["error"]) == (StopReason.FAULT, error), fields

    async def finish(self):
        await self.bench.finish()
        assert self.units.count > 0 and self.done.count > 0
