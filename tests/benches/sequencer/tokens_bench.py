"""Passes, prompt and tokens around hw.sequencer.tokens."""

from symlight.base.errors import UserError
from symlight.hw.channel.logits import LOGIT_HEADS
from symlight.hw.interface import NO_EOS, ErrorCode, Io, StopReason, Traffic
from symlight.hw.sequencer.tokens import TokenLoop
from symlight.hw.types import Work
from symlight.model.reference import STOP_EOS, PassResult, Reference
from tests.benches.bench import Agent, Bench, stalls
from tests.benches.sequencer.sequencer_bench import ENGINE, Ports, Strobes, Watch, tiny

LAYOUT, MODEL, HEADER, TABLE = tiny(ENGINE)
SHAPE = MODEL.shape
PER_BEAT = ENGINE.lanes // 4
EOS = 7


class Script(Reference):
    """The reference's session, with passes that only say which token comes next."""

    def __init__(self, rng):
        super().__init__(MODEL)
        self.rng, self.next_tokens, self.passes, self.restored = rng, [], [], False

    def ingest(self, token, want_logits=False, trace=None):
        self._check_token(token)
        position = self.state.position
        best = (
            self.next_tokens.pop(0)
            if want_logits and self.next_tokens
            else self.rng.randrange(8, SHAPE.vocab)
        )
        self.passes.append(
            {
                "token": token,
                "head": int(want_logits),
                "position": position,
                "slot": SHAPE.slot(position),
                "populated": min(position, SHAPE.slots),
                "restored": int(self.restored),
                "best": best,
            }
        )
        self.restored = False
        self.state.position += 1
        return PassResult(position, active=0, out_active=0, token=best if want_logits else None)


class Passes(Agent):
    """Ends each pass after a while, with the scripted best token, which is junk until then."""

    def __init__(self, bench, ports):
        super().__init__(bench)
        self.ports, self.bests, self.left, self.infos, self.decoding = ports, [], None, [], []

    def idle(self):
        self.left = None
        self.ports.set(finished=0)

    def drive(self):
        finished = self.left == 0
        self.ports.set(finished=finished)
        if self.left is not None:
            self.left = None if finished else self.left - 1
            if finished:
                self.ports.set(best=self.bests.pop(0) if self.bests else 0)
            else:
                self.ports.junk(self.bench.rng, "best")

    def sample(self):
        if self.ports.get("go"):
            assert self.left is None, "a pass starts while another runs"
            head, logits = self.ports.get("head_pass"), self.ports.get("logit_base")
            self.infos.append(self.ports.get("info") | {"head_pass": head, "logits": logits})
            self.decoding.append(self.ports.get("decoding"))
            self.left = self.bench.rng.randrange(1, 12)
            self.count += 1

    def check_empty(self):
        assert self.left is None and not self.bests


class Prompt(Agent):
    """The dispatcher's side and the memory: takes a DIRECT_READ command of one beat and answers the prompt's
    beat."""

    def __init__(self, bench, ports, stall):
        super().__init__(bench)
        self.ports, self.stall, self.prompt, self.beats = ports, stalls(bench.rng, stall), [], []
        self.accept, self.answers = False, Strobes(bench, ports, "beat_valid", ("beat",))

    def idle(self):
        self.ports.set(side__ready=0)

    def drive(self):
        self.accept = not next(self.stall)
        self.ports.set(side__ready=self.accept)

    def sample(self):
        if self.ports.get("side__valid") and self.accept:
            command = self.ports.get("side__payload")
            beat = command["base"] - Io.PROMPT // ENGINE.beat_bytes
            assert (command["work"], command["io"], command["count"]) == (Work.DIRECT_READ.value, 1, 1)
            assert command["traffic"] == Traffic.IO and command["channel"] == 0
            rng, words = self.bench.rng, self.prompt[beat * PER_BEAT : (beat + 1) * PER_BEAT]
            assert words, f"beat {beat} of the prompt holds no token"
            words = words + [rng.getrandbits(32) for _ in range(PER_BEAT - len(words))]
            beat_bits = sum(word << 32 * i for i, word in enumerate(words))
            self.answers.send([{"beat": beat_bits}], wait=rng.randrange(1, 20))
            self.beats.append(beat)
            self.count += 1


class Tokens(Agent):
    """Takes the generated tokens."""

    def __init__(self, bench, ports, stall):
        super().__init__(bench)
        self.ports, self.stall, self.seen, self.accept = ports, stalls(bench.rng, stall), [], False

    def idle(self):
        self.ports.set(token__ready=0)

    def drive(self):
        self.accept = not next(self.stall)
        self.ports.set(token__ready=self.accept)

    def sample(self):
        if self.ports.get("token__valid") and self.accept:
            self.seen.append(self.ports.get("token__payload"))
            self.count += 1


class Loop:
    """The token loop beside the reference: every run on both."""

    def __init__(self, dut, stall="never"):
        self.bench = Bench(dut)
        self.ports = Ports(dut, TokenLoop(ENGINE), "tokens")
        self.prompt, self.tokens = (
            Prompt(self.bench, self.ports, stall),
            Tokens(self.bench, self.ports, stall),
        )
        self.passes = Passes(self.bench, self.ports)
        self.done = Watch(self.bench, self.ports, "done", ("stop_reason", "error", "error_address"))
        self.script = Script(self.bench.rng)

    async def reset(self):
        self.ports.set(header=HEADER, start=0, forget=0, restore=0, finished=0)
        await self.bench.reset()

    async def forget(self):
        self.ports.set(forget=1)
        await self.bench.step()
        self.ports.set(forget=0)
        self.script.reset()
        self.script.restored = False

    async def restore(self, position, pending):
        self.ports.set(
            restore=1,
            restore_position=position,
            restore_pending=pending or 0,
            restore_has_pending=pending is not None,
        )
        await self.bench.step()
        self.ports.set(restore=0)
        await self.bench.until(lambda: not self.ports.get("restoring"), limit=position + 2)
        self.script.state.position, self.script.state.pending = position, pending
        self.script.restored = True

    async def start(self, prompt, n_new, eos, replace=False, every=False):
        self.prompt.prompt = list(prompt)
        self.ports.set(
            n_prompt=len(prompt),
            n_new=n_new,
            eos=NO_EOS if eos is None else eos,
            replace_pending=replace,
            every_head=every,
            start=1,
        )
        await self.bench.step()
        self.ports.set(start=0)
        await self.bench.until(lambda count=self.done.count: self.done.count > count, limit=20_000)
        return self.done.seen[-1]

    async def run(self, prompt, n_new, eos=None, then=(), replace=False, every=False):
        """A run on both; `then` are its first generated tokens, the others are random. With `replace` the
        pending token is forgotten; with `every` each pass has its head."""
        if replace:
            self.script.state.pending = None
        for part in (
            self.passes.infos,
            self.passes.decoding,
            self.tokens.seen,
            self.prompt.beats,
            self.script.passes,
        ):
            part.clear()
        self.script.next_tokens = list(then)
        run = self.script.generate(prompt, n_new, eos)
        wanted = self.script.passes
        self.passes.bests = [p["best"] for p in wanted]
        done = await self.start(prompt, n_new, eos, replace, every)
        reason = (
            StopReason.NONE
            if n_new == 0
            else StopReason.EOS
            if run.stop_reason == STOP_EOS
            else StopReason.LENGTH
        )
        assert done == {"stop_reason": reason, "error": ErrorCode.NONE, "error_address": 0}, done
        expected = [{k: v for k, v in p.items() if k != "best"} for p in wanted]
        heads = 0
        for one in expected:
            one["head"] = one["head_pass"] = int(one["head"] or every)
            one["logits"] = LAYOUT.logit_base + heads % LOGIT_HEADS * LAYOUT.head_logit_beats
            heads += one["head"]
        assert self.passes.infos == expected, f"passes {self.passes.infos}, expected {expected}"
        inputs = run.passes - max(0, run.head_evaluations - 1)
        assert self.passes.decoding == [int(i >= inputs) for i in range(run.passes)]
        assert self.tokens.seen == run.tokens, f"tokens {self.tokens.seen}, expected {run.tokens}"
        assert self.prompt.beats == list(range(-(-len(prompt) // PER_BEAT)))
        assert self.ports.get("passes") == run.passes
        self.check_session()
        return run

    def check_session(self):
        state = self.script.state
        assert self.ports.get("position") == state.position, f"position is {self.ports.get('position')}"
        pending = self.ports.get("pending") if self.ports.get("has_pending") else None
        assert pending == state.pending, f"pending is {pending}, expected {state.pending}"

    async def refused(self, prompt, n_new, error, address=None, passes=0):
        """A bad run: both refuse it, and the session stays as it was unless `passes` were made."""
        state, restored = self.script.state.copy(), self.script.restored
        try:
            self.script.generate(prompt, n_new)
        except UserError:
            self.script.state, self.script.restored = state, restored and not passes
        else:
            raise AssertionError("the reference takes the run")
        self.passes.bests = [0] * passes
        before = self.passes.count
        done = await self.start(prompt, n_new, None)
        assert (done["stop_reason"], done["error"]) == (StopReason.FAULT, error), done
        assert address is None or done["error_address"] == address, done
        assert self.passes.count - before == passes
        if not passes:
            self.check_session()

    async def finish(self):
        await self.bench.finish()
        assert self.passes.count > 0 and self.done.count > 0


def words(rng, count):
    return [rng.randrange(8, SHAPE.vocab) for _ in range(count)]
