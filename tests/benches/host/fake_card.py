"""A card made of the integer reference: the kernel's contract with its io buffer and ring, word by word.

`FakeCard` is the hardware and says what shall go wrong; `fake_pyxrt.make_api` puts pyxrt's names over it.
"""

import numpy as np

from symlight.hw.channel.logits import LOGIT_HEADS
from symlight.hw.compiler.image import build_images
from symlight.hw.compiler.layout import Layout
from symlight.hw.config import Engine
from symlight.hw.interface import (
    MAILBOX,
    MAILBOX_MAGIC,
    NO_EOS,
    Command,
    Counter,
    ErrorCode,
    Flag,
    Io,
    Phase,
    Status,
    StopReason,
    Traffic,
    arguments,
)
from symlight.model.reference import Reference
from symlight.model.sampling import CANDIDATES, SamplerSettings
from symlight.model.state import State
from symlight.model.weights import IntegerModel
from tests.benches.host.fake_pyxrt import FakeState

CYCLES_A_PASS = 1000
BYTE = np.uint8


class FakeCard:
    """One card.

    Attributes that a test may set
    ------------------------------
    fault : ErrorCode | None
        The next run ends so.
    hang : bool
        Runs never end.
    run_state : FakeState | None
        What the next wait returns instead.
    model : IntegerModel
        What the card computes; exchange it to make the card compute wrongly.
    tokens : list | None
        What the next runs claim to have generated.
    after_pass : callable(State) | None
        May damage the session after a run.
    """

    def __init__(self, engine: Engine, model: IntegerModel, build_id: int):
        self.engine, self.model, self.build_id = engine, model, build_id
        self.layout = Layout(engine, model.shape)
        self.arguments = arguments(engine.channels)
        self.expected_images = None  # checked at LOAD when set
        self.fault = self.run_state = self.after_pass = self.tokens = None
        self.hang = self.running = False
        self.loaded = self.broken = False
        self.reference = Reference(model)
        self.commands: list[Command] = []
        self.scalars: dict[str, int] = {}
        self.buffers: dict[str, np.ndarray] = {}
        self.opened = 0
        self.waits = 0
        self.logit_error = 0  # added to every logit of channel 1

    # ---- the kernel ----------------------------------------------------------------------------------------

    def start(self, values: dict) -> None:
        if self.running:
            raise RuntimeError("bad command state, can't launch")
        self.scalars = {a.name: values[i] for i, a in enumerate(self.arguments) if not a.port}
        self.buffers = {a.name: values[i].card for i, a in enumerate(self.arguments) if a.port}
        self.commands.append(Command(self.scalars["command"]))
        self.running = True
        self._steps = self._execute()

    def wait(self) -> FakeState:
        self.waits += 1
        if self.run_state is not None:
            return self.run_state
        if self.hang:
            return FakeState.ERT_CMD_STATE_TIMEOUT
        if next(self._steps, None) is None:
            self.running = False
            return FakeState.ERT_CMD_STATE_COMPLETED
        return FakeState.ERT_CMD_STATE_TIMEOUT

    def _execute(self):
        """Yields True while the run goes on; the mailbox comes last."""
        command = Command(self.scalars["command"])
        report = {"status": Status.OK, "stop_reason": StopReason.NONE}
        counters = np.zeros(128, "<u8")
        if self.fault is not None:
            report = self._failed(self.fault, channel=1, address=0x1234560)
            self.fault, self.broken = None, True
        elif command is Command.LOAD:
            self._check_images()
            self.loaded, self.broken = True, False
            self.reference.state = State.new(self.model.shape)
        elif not self.loaded:
            report = self._failed(ErrorCode.NOT_LOADED)
        elif command is Command.RESET:
            self.broken = False
            self.reference.state = State.new(self.model.shape)
        elif self.broken and command is not Command.RESTORE:
            report = self._failed(ErrorCode.NEEDS_RESET)
        elif command is Command.GENERATE:
            yield from self._generate(report, counters)
        elif command is Command.DUMP:
            self._state_words()[:] = self._flat(self.reference.state)
        elif command is Command.RESTORE:
            self.broken = False
            self._restore()
        self._mailbox(report, counters)

    def _failed(self, error: ErrorCode, channel: int = 0, address: int = 0) -> dict:
        return {
            "status": Status.ERROR,
            "stop_reason": StopReason.FAULT,
            "error": error,
            "error_channel": channel,
            "error_address": address,
        }

    def _check_images(self) -> None:
        if self.expected_images is None:
            self.expected_images = build_images(self.layout, self.model)
        first, last = self.layout.ring_region[0], self.layout.channel_size
        ours = slice(first * self.engine.beat_bytes, last * self.engine.beat_bytes)
        for k, image in enumerate(self.expected_images):
            image[ours] = self.buffers[f"hbm{k:02d}"][ours]  # runs write the ring and the logits after it
            assert np.array_equal(self.buffers[f"hbm{k:02d}"][: image.size], image), (
                f"channel {k} was uploaded wrongly"
            )

    def _generate(self, report: dict, counters: np.ndarray):
        scalars, io = self.scalars, self.buffers["io"]
        prompt = io[Io.PROMPT : Io.PROMPT + 4 * scalars["n_prompt"]].view("<u4")
        flags = Flag(scalars["flags"])
        if Flag.REPLACE_PENDING in flags:
            self.reference.state.pending = None
        before = self.reference.state.pending is not None
        run = self.reference = Reference(self.model, self.reference.state)
        eos = None if scalars["eos"] == NO_EOS else scalars["eos"]
        settings = self._sampler_settings() if Flag.SAMPLE in flags else None
        self._heads = 0  # whose logits or candidates were written
        write = {Flag.LOGITS: self._write_logits, Flag.CANDIDATES: self._write_candidates}.get(
            flags & (Flag.LOGITS | Flag.CANDIDATES)
        )
        result = run.generate(
            [int(token) for token in prompt],
            scalars["n_new"],
            eos,
            on_pass=write,
            settings=settings,
            all_logits=Flag.EVERY_HEAD in flags,
        )
        if self.tokens is not None:
            result.tokens = self.tokens
        if self.after_pass is not None:
            self.after_pass(run.state)
        self._store_ring(run.state)
        yield True
        per_beat = self.engine.beat_bytes // 4
        for i in range(len(result.tokens)):  # whole beats, zeros after the newest token
            first = i // per_beat * per_beat
            beat = np.zeros(per_beat, "<u4")
            beat[: i - first + 1] = result.tokens[first : i + 1]
            offset = Io.TOKENS + 4 * first
            io[offset : offset + 4 * per_beat] = beat.view(BYTE)
            yield True
        report |= {
            "stop_reason": StopReason.EOS if result.stop_reason == "eos" else StopReason.LENGTH,
            "n_tokens": len(result.tokens),
            "passes": result.passes,
        }
        prompt_passes = min(result.passes, len(prompt) + before)
        counters[Counter.PHASE_CYCLES : Counter.PHASE_CYCLES + 2 * len(Phase)] = 50 * result.passes
        counters[Counter.TOTAL_CYCLES] = CYCLES_A_PASS * result.passes + 100
        counters[Counter.PROMPT_CYCLES] = CYCLES_A_PASS * prompt_passes
        counters[Counter.DECODE_CYCLES] = CYCLES_A_PASS * (result.passes - prompt_passes)
        counters[Counter.READ_BEATS : Counter.READ_BEATS + len(Traffic)] = 10 * result.passes
        active = result.active.reshape(-1)
        counters[Counter.ACTIVE : Counter.ACTIVE + len(active)] = active

    def _sampler_settings(self) -> SamplerSettings:
        """As docs/kernel-interface.md places the fields."""
        values = self.scalars
        scale, top = values["sample_scale"], values["sample_top"]
        return SamplerSettings(
            multiplier=scale % 2**17,
            shift=scale // 2**17 % 64,
            top_k=top // 2**17,
            min_weight=values["sample_limit"],
            top_p=top % 2**17,
            seed=values["seed_low"] + (values["seed_high"] << 31) + (scale // 2**23 << 62),
        )

    def _write_logits(self, result) -> None:
        """Each logit to its place, one by one; a run without the flag leaves the place alone."""
        if result.logits is None:
            return
        lanes, channels = self.engine.lanes, self.engine.channels
        for row, logit in enumerate(result.logits):
            tile, rest = divmod(row, lanes * channels)
            channel, lane = divmod(rest, lanes)
            first = self.layout.logit_base + self._heads % LOGIT_HEADS * self.layout.head_logit_beats
            offset = first * self.engine.beat_bytes + 8 * (tile * lanes + lane)
            value = np.array([int(logit) + self.logit_error * (channel == 1)], "<i8")
            self.buffers[f"hbm{channel:02d}"][offset : offset + 8] = value.view(BYTE)
        self._heads += 1

    def _write_candidates(self, result) -> None:
        """The largest logits in order, a word each: the logit in 48 bits, the id above it."""
        if result.logits is None:
            return
        rows = sorted((-int(logit), row) for row, logit in enumerate(result.logits))[:CANDIDATES]
        words = [(-negated & (1 << 48) - 1) | row << 48 for negated, row in rows]
        words += [2**64 - 1] * (CANDIDATES - len(words))  # the kernel writes anything there
        offset = Io.CANDIDATES + 8 * CANDIDATES * (self._heads % Io.CANDIDATE_TOKENS)
        self.buffers["io"][offset : offset + 8 * CANDIDATES] = np.array(words, "<u8").view(BYTE)
        self._heads += 1

    def _mailbox(self, report: dict, counters: np.ndarray) -> None:
        words = np.zeros(16, "<u4")
        state = self.reference.state
        report = {
            "magic": MAILBOX_MAGIC,
            "run_id": self.scalars["run_id"],
            "position": state.position,
            "pending": state.pending or 0,
            "has_pending": state.pending is not None,
            **report,
        }
        for name, value in report.items():
            words[MAILBOX[name]] = value
        for i in range(4):
            words[MAILBOX["build_id"] + i] = self.build_id >> 32 * i & 0xFFFFFFFF
        self.buffers["io"][:64] = words.view(BYTE)
        self.buffers["io"][64 : 64 + counters.nbytes] = counters.view(BYTE)

    # ---- session state in memory, written with loops: the driver's array work is checked against them

    def _head_place(self, element: int) -> int:
        head, rest = divmod(element, self.model.shape.head_width)
        return head * self.layout.ring.head_words * self.engine.lanes + rest

    def _flat(self, state: State) -> np.ndarray:
        lanes, shape = self.engine.lanes, self.model.shape
        words = [0] * (self.layout.width_words * lanes)
        words[: shape.width] = state.membrane.tolist()
        for layer in range(shape.layers):
            part = [0] * (self.layout.query_words * lanes)
            for element in range(shape.width):
                part[self._head_place(element)] = int(state.decay[layer, element])
            words += part
        return np.array(words, "<i2")

    def _state_words(self) -> np.ndarray:
        count = (
            self.layout.width_words + self.model.shape.layers * self.layout.query_words
        ) * self.engine.lanes
        return self.buffers["io"][Io.STATE : Io.STATE + 2 * count].view("<i2")

    def _ring_bytes(self, layer: int, slot: int, head: int, value: bool) -> np.ndarray:
        """The bytes of one head's k or v."""
        ring, beat = self.layout.ring, self.engine.beat_bytes
        group, column = slot % (1 << ring.log_groups), head // ring.heads
        first = (
            self.layout.bases[layer]["ring"] + (slot >> ring.log_groups) * 2 * ring.heads * ring.head_words
        )
        first += (value * ring.heads + head % ring.heads) * ring.head_words
        buffer = self.buffers[f"hbm{group * ring.columns + column:02d}"]
        return buffer[first * beat : first * beat + self.model.shape.head_width].view(np.int8)

    def _ring_parts(self, state: State):
        shape = self.model.shape
        for layer in range(shape.layers):
            for slot in range(state.populated):
                for head in range(shape.heads):
                    part = slice(head * shape.head_width, (head + 1) * shape.head_width)
                    for value, ring in ((False, state.ring_k), (True, state.ring_v)):
                        yield ring[layer, slot, part], self._ring_bytes(layer, slot, head, value)

    def _store_ring(self, state: State) -> None:
        for values, memory in self._ring_parts(state):
            memory[:] = values

    def _restore(self) -> None:
        state = State.new(self.model.shape)
        words = self.buffers["io"][Io.PROMPT : Io.PROMPT + 12].view("<u4")
        state.position, state.pending = int(words[0]), int(words[1]) if words[2] else None
        flat, lanes = self._state_words(), self.engine.lanes
        state.membrane[:] = flat[: self.model.shape.width]
        decay = flat[self.layout.width_words * lanes :].reshape(self.model.shape.layers, -1)
        for element in range(self.model.shape.width):
            state.decay[:, element] = decay[:, self._head_place(element)]
        for values, memory in self._ring_parts(state):
            values[:] = memory
        self.reference.state = state
