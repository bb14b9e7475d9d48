"""Bench of hw.sequencer.state_transfer: sweep, dump, restore, and the way there and back."""

import cocotb

from symlight.hw.interface import Io, Traffic
from symlight.hw.mailbox import io_write_layout
from symlight.hw.sequencer.state_transfer import StateAction, StateUnit
from symlight.hw.types import ChannelCommand, Work
from symlight.hw.vector.words import Route
from tests.benches.bench import Agent, Bench, Sink, stalls
from tests.benches.sequencer.sequencer_bench import ENGINE, IDLE, LIMIT, Ports, Watch

BEAT_BITS = 8 * ENGINE.beat_bytes
WORD_BITS = 2 * BEAT_BITS
LATENCY = 3  # of a dumped word
BASE = Io.STATE // ENGINE.beat_bytes


class Memories(Agent):
    """The vector unit's two memories and the io buffer of a channel, with words as bit patterns."""

    def __init__(self, bench, ports, side, pattern):
        super().__init__(bench)
        self.ports, self.side, self.pattern = ports, side, stalls(bench.rng, pattern)
        self.words, self.io, self.answers = {}, {}, {}
        self.beats, self.taken, self.wait, self.driven = [], 0, 0, False

    def idle(self):
        self.answers.clear()
        self.beats.clear()
        self.ports.set(word_valid=0, beat_valid=0, start=0)

    def drive(self):
        word = self.answers.pop(self.bench.cycle, None)
        self.wait = max(0, self.wait - 1)
        self.driven = bool(self.beats) and not self.wait and not next(self.pattern)
        self.ports.set(word_valid=word is not None, beat_valid=self.driven)
        self.ports.junk(self.bench.rng, "word", "beat")
        if word is not None:
            self.ports.handle("word").value = word
        if self.driven:
            self.ports.handle("beat").value = self.io[self.beats.pop(0)]

    def sample(self):
        get = self.ports.get
        if get("op_valid"):
            op = get("op")
            route = Route(op["route"])
            key = ("state", op["state"]) if route is Route.STATE else ("membrane", op["index"])
            assert route in (Route.STATE, Route.MEMBRANE)
            self.answers[self.bench.cycle + LATENCY] = self.words[key]
            self.count += 1
        for name in ("membrane", "state"):
            if get(f"{name}_valid"):
                self.words[name, get("address")] = int(self.ports.handle("value").value)
                self.count += 1
        while self.taken < len(self.side.received):
            command = self.side.received[self.taken]
            self.taken += 1
            assert (command["work"], command["io"], command["channel"]) == (Work.DIRECT_READ.value, 1, 0)
            assert command["traffic"] == Traffic.IO and not self.beats
            self.beats = [command["base"] + i for i in range(command["count"])]
            self.wait = self.bench.rng.randrange(1, 20)

    def check_empty(self):
        assert not self.beats and not self.answers


class Setup:
    def __init__(self, dut, membrane, state, idle="never", stall="never"):
        self.bench = Bench(dut)
        self.ports = Ports(dut, StateUnit(ENGINE), "state")
        self.membrane, self.state = membrane, state
        self.keys = [("membrane", i) for i in range(membrane)] + [("state", i) for i in range(state)]
        self.side = Sink(self.bench, "state__side", ChannelCommand, stall)
        self.write = Sink(self.bench, "state__write", io_write_layout(ENGINE), stall)
        self.memories = Memories(self.bench, self.ports, self.side, idle)
        self.done = Watch(self.bench, self.ports, "done")

    async def reset(self):
        self.ports.set(start=0, header={"width_words": self.membrane, "state_words": self.state})
        await self.bench.reset()

    async def run(self, action):
        self.ports.set(start=1, action=action.value)
        await self.bench.step()
        self.ports.set(start=0)
        self.ports.junk(self.bench.rng, "action")
        await self.bench.until(lambda count=self.done.count: self.done.count > count, limit=60_000)
        await self.bench.step(5)

    def fill(self):
        rng = self.bench.rng
        self.memories.words = {key: rng.getrandbits(WORD_BITS) for key in self.keys}
        return dict(self.memories.words)

    def image(self, words):
        """The state region: membrane, then decay state, two beats a word, low half first."""
        halves = [
            half
            for key in self.keys
            for half in (words[key] & ((1 << BEAT_BITS) - 1), words[key] >> BEAT_BITS)
        ]
        return {BASE + i: half for i, half in enumerate(halves)}


SIZES = [(2, 4), (1, 1), (8, 64), (3, 600)]  # the last: more than one command, and not a multiple


@cocotb.test(**LIMIT)
@cocotb.parametrize(
    (("idle", "size"), [*((idle, size) for idle in IDLE for size in range(3)), ("random", 3)])
)
async def there_and_back(dut, idle, size):
    """A dump, written to where the host looks for it; a restore from it; a second dump is the same."""
    setup = Setup(dut, *SIZES[size], idle, "random" if idle != "never" else "never")
    await setup.reset()
    words = setup.fill()
    await setup.run(StateAction.DUMP)
    image = setup.image(words)
    assert [(w["address"], w["word"]) for w in setup.write.received] == sorted(image.items())
    setup.memories.io = image
    setup.memories.words.clear()
    await setup.run(StateAction.RESTORE)
    assert setup.memories.words == words, "the restored words are not the dumped ones"
    assert sum(command["count"] for command in setup.side.received) == len(image)
    await setup.bench.finish()
    assert setup.done.count == 2


@cocotb.test(**LIMIT)
async def sweep(dut):
    """Zero in every word that the kernel has, also those that this model does not use; nothing is written
    beyond."""
    setup = Setup(dut, 2, 4)
    await setup.reset()
    for _ in range(2):
        setup.fill()
        await setup.run(StateAction.SWEEP)
        wanted = [("membrane", i) for i in range(ENGINE.width_words)] + [
            ("state", i) for i in range(ENGINE.state_words)
        ]
        assert setup.memories.words == dict.fromkeys(wanted, 0)
    await setup.bench.finish()


@cocotb.test(**LIMIT)
async def after_a_reset(dut):
    """A reset in the middle of a dump and of a restore; both are whole afterwards."""
    setup = Setup(dut, 3, 10, "random", "random")
    await setup.reset()
    words = setup.fill()
    setup.memories.io = setup.image(words)
    for action in (StateAction.DUMP, StateAction.RESTORE):
        for cycles in (3, 20, 40):
            setup.ports.set(start=1, action=action.value)
            await setup.bench.step()
            setup.ports.set(start=0)
            await setup.bench.step(cycles)
            await setup.reset()
            setup.write.received.clear()
            setup.memories.words = dict(words)
            await setup.run(StateAction.DUMP)
            assert {w["address"]: w["word"] for w in setup.write.received} == setup.memories.io
            setup.memories.words.clear()
            await setup.run(StateAction.RESTORE)
            assert setup.memories.words == words
    await setup.bench.finish()
