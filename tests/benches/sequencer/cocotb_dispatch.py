"""Bench of hw.sequencer.dispatch: commands of a pass against the operation table of the tiny model."""

import cocotb

from symlight.hw.sequencer.dispatch import SPACING, Dispatcher
from symlight.hw.sequencer.store import OperationTable
from symlight.hw.types import ChannelCommand, Task, Work
from tests.benches.bench import Agent, Bench, Source, stalls
from tests.benches.sequencer.sequencer_bench import ENGINE, IDLE, LIMIT, Delayed, Ports, Watch, plain, tiny

LAYOUT, MODEL, HEADER, TABLE = tiny(ENGINE)
ENTRIES = [plain(entry) for entry in TABLE]
SHAPE = MODEL.shape


class Rooms(Agent):
    """Drives both `room`s; a command is only allowed after a cycle with room."""

    def __init__(self, bench, ports, pattern):
        super().__init__(bench)
        self.ports = ports
        self.patterns = {name: stalls(bench.rng, pattern) for name in ("command", "kv")}
        self.room = dict.fromkeys(self.patterns, False)

    def idle(self):
        self.room = dict.fromkeys(self.patterns, False)
        self.ports.set(command_room=0, kv_room=0)

    def drive(self):
        self.before = dict(self.room)
        for name, pattern in self.patterns.items():
            self.room[name] = not next(pattern)
            self.ports.set(**{f"{name}_room": self.room[name]})

    def sample(self):
        for name in self.room:
            assert self.before[name] or not self.ports.get(f"{name}_valid"), f"{name} without room"


class Setup:
    """The dispatcher `name` with its table, rooms and watchers."""

    def __init__(self, dut, name="dispatch", room="never", idle="never"):
        self.bench = Bench(dut)
        self.name = name
        self.ports = Ports(dut, Dispatcher(ENGINE), name)
        self.table = Delayed(
            self.bench, self.ports, "index", "entry", lambda index: TABLE[index], OperationTable.LATENCY
        )
        self.rooms = Rooms(self.bench, self.ports, room)
        self.order = []
        self.commands = Watch(self.bench, self.ports, "command_valid", ("command",), self.order.append)
        self.kvs = Watch(self.bench, self.ports, "kv_valid", ("kv",), self.order.append)
        self.side = Source(self.bench, f"{name}__side", ChannelCommand, idle)

    async def reset(self):
        self.ports.set(go=0, header=HEADER)
        await self.bench.reset()

    async def start(self, position, token, head, dense, full_kv, logits=0, restored=0):
        """One pass; returns what came out of it, in order."""
        self.order.clear()
        info = {
            "token": token,
            "head": head,
            "position": position,
            "slot": SHAPE.slot(position),
            "populated": min(position, SHAPE.slots),
            "restored": restored,
        }
        self.ports.set(
            dense=dense, full_kv=full_kv, logits=logits & 1, candidates=logits >> 1, go=1, info=info
        )
        await self.bench.step()
        self.ports.set(go=0)
        self.ports.junk(self.bench.rng, "info")
        await self.bench.step()
        await self.bench.until(lambda: self.ports.get("idle"), limit=20_000)
        await self.bench.step(2)

    def check_spacing(self):
        gaps = [b - a for a, b in zip(self.commands.cycles, self.commands.cycles[1:], strict=False)]
        assert min(gaps) >= SPACING, f"commands {min(gaps)} cycles apart"


def expected(position, token, head, dense, full_kv, logits=0, restored=0, resident=False) -> list[dict]:
    """Commands and KV commands of a pass in order, as the layout and the model's ring say."""
    out = []
    for entry in ENTRIES:
        if not entry["has_command"] or (entry["head"] and not head):
            continue
        command = dict(entry["command"])
        if entry["has_kv"]:
            populated = min(position, SHAPE.slots)
            if resident:
                load = populated if restored else 0
            else:
                load = SHAPE.slots if full_kv else populated
            out.append(
                {
                    "kv": {
                        "base": entry["kv_base"],
                        "stage": entry["kv_stage"],
                        "load": load,
                        "attend": SHAPE.populated(position),
                        "slot": SHAPE.slot(position),
                        "position": position,
                    }
                }
            )
        if entry["event"]:
            command["stream"] = dense
        if entry["task"] == Task.HEAD.value:
            command["logits"], command["candidates"] = logits & 1, logits >> 1
        if entry["task"] == Task.EMBED.value:
            command["channel"], command["base"] = LAYOUT.embed_place(token)
        out.append({"command": command})
        if entry["fence"]:
            out.append({"command": command | {"work": Work.FENCE.value}})
    return out


def same(seen, wanted):
    """Equal, but of a FENCE only the kind of work means anything."""
    assert len(seen) == len(wanted), f"{len(seen)} commands, expected {len(wanted)}"
    for got, want in zip(seen, wanted, strict=True):
        if want.get("command", {}).get("work") == Work.FENCE.value:
            assert got.get("command", {}).get("work") == Work.FENCE.value, f"{got} instead of a fence"
        else:
            assert got == want, f"command {got}, expected {want}"


@cocotb.test(**LIMIT)
@cocotb.parametrize(room=IDLE, dense=[0, 1])
async def passes(dut, room, dense):
    """Filling and full ring, with and without head, all embedding channels, both KV modes."""
    setup = Setup(dut, room=room)
    await setup.reset()
    positions = [
        0,
        1,
        SHAPE.anchors,
        SHAPE.slots - 2,
        SHAPE.slots - 1,
        SHAPE.slots,
        SHAPE.slots + 7,
        (1 << 20) - 1,
    ]
    total = 0
    for i, position in enumerate(positions):
        token = setup.bench.rng.randrange(SHAPE.vocab) & ~3 | i & 3
        bits = setup.bench.rng.getrandbits
        run = (position, token, i & 1, dense, i >> 1 & 1, bits(2), bits(1))
        await setup.start(*run)
        same(setup.order, expected(*run))
        total += len(setup.order)
    setup.check_spacing()
    await setup.bench.finish()
    assert total == setup.commands.count + setup.kvs.count > 0


@cocotb.test(**LIMIT)
async def resident(dut):
    """A build with the ring on chip reads no KV, whatever the mode, but what was restored."""
    setup = Setup(dut, "resident", room="random")
    await setup.reset()
    passes = ((0, 1, 0), (5, 0, 0), (30, 1, 0), (0, 0, 1), (5, 1, 1), (30, 0, 1))
    for position, full_kv, restored in passes:
        run = (position, 3, 1, 0, full_kv, 1, restored)
        await setup.start(*run)
        same(setup.order, expected(*run, resident=True))
    assert setup.kvs.count == len(passes) * SHAPE.layers


@cocotb.test(**LIMIT)
@cocotb.parametrize(room=["never", "random"], idle=IDLE)
async def side_commands(dut, room, idle):
    """Pass through while nothing is dispatched; not one in the middle of a pass; none is lost around a
    start."""
    setup = Setup(dut, room=room, idle=idle)
    await setup.reset()
    rng, mark = setup.bench.rng, 31  # a channel that no pass names
    sides = [
        {
            "work": Work.DIRECT_READ.value,
            "io": rng.getrandbits(1),
            "base": rng.getrandbits(24),
            "count": rng.getrandbits(12),
            "channel": mark,
        }
        for _ in range(40)
    ]
    setup.side.send(sides)
    out = []
    for i in range(4):
        await setup.bench.until(lambda least=setup.side.count + 3: setup.side.count >= least, limit=5000)
        await setup.bench.step(rng.randrange(8))
        out += setup.order
        run = (i, 10 + i, 1, 0, 0)
        await setup.start(*run)  # clears the order; a command taken just before comes first
        ours = [o.get("command", {}).get("channel") != mark for o in setup.order]
        first, last = ours.index(True), len(ours) - ours[::-1].index(True)
        same(setup.order[first:last], expected(*run))
        out += setup.order[:first] + setup.order[last:]
        setup.order.clear()
    await setup.bench.until(lambda: not setup.side.queue, limit=5000)
    await setup.bench.step(3)
    out += setup.order
    assert [{key: o["command"][key] for key in sides[0]} for o in out] == sides, (
        "side commands lost or out of order"
    )
    setup.check_spacing()
    await setup.bench.finish()
