"""The integer reference: one token a pass, exactly as docs/arithmetic.md says.

    token -> encoder -> block 0 -> .. -> block L-1 -> (head -> argmax, or a draw)

Hardware must equal it bit for bit. Matrix products run in float32 or float64 BLAS, whichever is exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from symlight.base.errors import UserError
from symlight.base.optional import present

from . import ops
from .config import MAX_POSITION
from .sampling import SamplerSettings, choose
from .state import State
from .weights import BlockWeights, IntegerModel

SITES = ("qkv", "decay", "up", "down")  # event sites: the four matrix inputs whose zeros are skipped
STOP_LENGTH = "length"  # the budget of new tokens is used up
STOP_EOS = "eos"  # the end-of-sequence token was generated


class ExactMatrix:
    """A weight matrix [out, in] for exact integer products with inputs of a known bound."""

    def __init__(self, *weights: np.ndarray, input_bound: int = 127):
        worst = weights[0].shape[1] * 127 * input_bound
        # every partial sum, in any order, is below `worst`: no rounding happens
        self._dtype: type[np.floating] = np.float32 if worst < 1 << 24 else np.float64
        self._transposed = np.concatenate([w.T for w in weights], axis=1).astype(self._dtype)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return (x.astype(self._dtype) @ self._transposed).astype(np.int64)


class PreparedBlock:
    """Weights of a block in the form that the passes use: fused Q/K/V, exact matrices, plain integers."""

    def __init__(self, block: BlockWeights):
        qkv = (block.q, block.k, block.v)
        self.attention_event = tuple(map(int, block.attention_event))
        self.qkv = ExactMatrix(*(p.weight for p in qkv))
        self.qkv_event = tuple(
            np.concatenate([getattr(p, name) for p in qkv]).astype(np.int64)
            for name in ("threshold", "multiplier", "shift")
        )
        self.decay = ExactMatrix(block.decay.weight, input_bound=1)
        self.decay_scale = _scale(block.decay)
        self.decay_beta = block.decay_beta.astype(np.int64)
        self.mix = (*map(int, block.mix), block.out_threshold)
        self.out = ExactMatrix(block.out.weight)
        self.out_scale = _scale(block.out)
        self.attention_norm = _norm(block.attention_norm)
        self.ffn_event = tuple(map(int, block.ffn_event))
        self.up = ExactMatrix(block.up.weight)
        self.up_threshold = block.up.threshold.astype(np.int64)
        self.down = ExactMatrix(block.down.weight, input_bound=1)
        self.down_scale = _scale(block.down)
        self.ffn_norm = _norm(block.ffn_norm)
        self.spike_threshold = block.spike_threshold.astype(np.int64)


def _scale(projection) -> tuple[np.ndarray, np.ndarray]:
    return projection.multiplier.astype(np.int64), projection.shift.astype(np.int64)


def _norm(norm) -> tuple:
    return norm.gamma.astype(np.int64), norm.beta.astype(np.int64), int(norm.scalars[0]), int(norm.scalars[1])


class PreparedHead:
    """The decoding head on rows of the last residual stream."""

    def __init__(self, model: IntegerModel):
        head = model.head
        self.input = (*map(int, head.input), head.threshold)
        self.prior = ExactMatrix(head.prior.weight)
        self.prior_scale = _scale(head.prior)
        self.gelu_table = head.gelu_table
        self.fused = ExactMatrix(head.fused_weight)
        self.fused_scale = head.fused_scale.astype(np.int64)

    def __call__(self, c: np.ndarray, trace: dict | None = None) -> np.ndarray:
        """Logits of c [..., D]."""
        a = ops.head_input(c, *self.input)
        t = ops.gelu_index(self.prior(a), *self.prior_scale)
        g = ops.gelu(t, self.gelu_table)
        logits = ops.head_logits(self.fused(np.concatenate([a, g], axis=-1)), self.fused_scale)
        if trace is not None:
            trace.update({"head.a": a, "head.t": t, "head.g": g, "head.logits": logits})
        return logits


@dataclass(frozen=True)
class PassResult:
    """One pass; `active` [L, 4] counts nonzero inputs by SITES, `out_active` [L] those of W_O.

    `token` (the argmax), `logits` and `head_active` (nonzero elements of the head's inputs a and g) are None
    unless the head was asked for.
    """

    position: int
    active: np.ndarray
    out_active: np.ndarray
    token: int | None = None
    logits: np.ndarray | None = None
    head_active: tuple[int, int] | None = None


@dataclass
class Run:
    """One run: the generated tokens, why it stopped, and the counts of all its passes."""

    tokens: list[int] = field(default_factory=list)
    stop_reason: str = STOP_LENGTH
    passes: int = 0
    head_evaluations: int = 0
    active: np.ndarray | None = None  # [L, 4] nonzero inputs by SITES, summed over the passes


class Reference:
    """A model with a session: `ingest` runs one pass, `generate` a run."""

    def __init__(self, model: IntegerModel, state: State | None = None):
        self.model = model
        self.shape = model.shape
        self.state = state if state is not None else State.new(model.shape)
        self._blocks = [PreparedBlock(block) for block in model.blocks]
        self._head = PreparedHead(model)

    def reset(self) -> None:
        """Start a new session."""
        self.state = State.new(self.shape)

    def ingest(self, token: int, want_logits: bool = False, trace: dict | None = None) -> PassResult:
        """One pass over `token`; with `want_logits` the head too. `trace` collects every vector by name
        (`x`, `membrane`, `s`, `block.N.<name>` with the names of docs/arithmetic.md, `head.<name>`)."""
        self._check_token(token)
        state = self.state
        if state.position >= MAX_POSITION:
            raise UserError(f"the session is full: {MAX_POSITION} positions are used; start a new session")
        x = self.model.embedding_table[token].astype(np.int64)
        membrane, s = ops.lif_step(state.membrane, x, self.model.numerics)
        state.membrane[:] = membrane
        if trace is not None:
            trace.update({"x": x, "membrane": membrane, "s": s})
        c = x
        active = np.zeros((self.shape.layers, len(SITES)), np.int64)
        out_active = np.zeros(self.shape.layers, np.int64)
        for layer, block in enumerate(self._blocks):
            names: dict[str, np.ndarray] = {}
            c, s = self._block(layer, block, c, s, names)
            active[layer] = [np.count_nonzero(names[name]) for name in ("e", "s", "e_u", "f")]
            out_active[layer] = np.count_nonzero(names["m"])
            if trace is not None:
                trace.update({f"block.{layer}.{name}": value for name, value in names.items()})
        position = state.position
        state.position += 1
        if not want_logits:
            return PassResult(position, active, out_active)
        seen: dict[str, np.ndarray] = {}
        logits = self._head(c, seen)
        if trace is not None:
            trace.update(seen)
        head_active = int(np.count_nonzero(seen["head.a"])), int(np.count_nonzero(seen["head.g"]))
        return PassResult(position, active, out_active, ops.argmax(logits), logits, head_active)

    def _block(self, layer: int, block: PreparedBlock, c, s, names: dict):
        """docs/arithmetic.md section 3; every intermediate vector goes to `names`."""
        state, width, position = self.state, self.shape.width, self.state.position
        e = ops.event(c, *block.attention_event)
        qkv = ops.event(block.qkv(e), *block.qkv_event)
        q, k, v = qkv[:width], qkv[width : 2 * width], qkv[2 * width :]
        z = ops.decay_input(block.decay(s), *block.decay_scale)
        h = ops.decay_step(state.decay[layer], z, block.decay_beta)
        slot = self.shape.slot(position)
        state.decay[layer] = h
        state.ring_k[layer, slot] = k
        state.ring_v[layer, slot] = v
        o = ops.attention(
            q,
            state.ring_k[layer],
            state.ring_v[layer],
            position,
            self.shape,
            self.model.slopes,
            self.model.numerics.score_frac,
        )
        m = ops.mix(o, h, *block.mix)
        pre_1 = ops.residual_sum(c, ops.requantise(block.out(m), *block.out_scale))
        u = ops.layer_norm(pre_1, *block.attention_norm)
        e_u = ops.event(u, *block.ffn_event)
        f = ops.step(block.up(e_u) - block.up_threshold)
        pre_2 = ops.residual_sum(u, ops.requantise(block.down(f), *block.down_scale))
        c_out = ops.layer_norm(pre_2, *block.ffn_norm)
        s_out = ops.step(c_out - block.spike_threshold)
        names.update(
            s=s,
            e=e,
            q=q,
            k=k,
            v=v,
            z=z,
            h=h,
            o=o,
            m=m,
            pre_1=pre_1,
            u=u,
            e_u=e_u,
            f=f,
            pre_2=pre_2,
            c=c_out,
            s_out=s_out,
        )
        return c_out, s_out

    def generate(
        self,
        prompt: Sequence[int],
        n_new: int,
        eos: int | None = None,
        on_token: Callable[[int], None] | None = None,
        on_pass: Callable[[PassResult], None] | None = None,
        settings: SamplerSettings | None = None,
        all_logits: bool = False,
    ) -> Run:
        """A run as docs/arithmetic.md section 7 says; a bad one is refused before anything changes.

        Tokens are drawn with `settings`, without them they are the argmax. `all_logits` evaluates the head in
        every pass, so that `on_pass` sees the logits of prompt positions too.
        """
        state = self.state
        inputs = [] if state.pending is None else [state.pending]
        inputs += [int(token) for token in prompt]
        if not inputs:
            raise UserError("nothing to run: the prompt is empty and no token is pending")
        for token in inputs:
            self._check_token(token)
        if n_new < 0:
            raise UserError(f"the number of new tokens is {n_new}; it must not be negative")
        # the newest token stays pending, so the worst case ingests one token less than there are
        if state.position + len(inputs) + n_new - 1 > MAX_POSITION:
            raise UserError(
                f"the run needs position {state.position + len(inputs) + n_new - 2}; "
                f"a session has {MAX_POSITION} positions"
            )
        run = Run(active=np.zeros((self.shape.layers, len(SITES)), np.int64))

        def one_pass(token: int, want_token: bool) -> int | None:
            result = self.ingest(token, want_token or all_logits)
            run.passes += 1
            run.head_evaluations += want_token or all_logits
            run.active += result.active
            if on_pass is not None:
                on_pass(result)
            if settings is None or not want_token:
                return result.token
            return choose(present(result.logits), settings, state.position)

        for token in inputs[:-1]:
            one_pass(token, False)
        newest = inputs[-1]
        state.pending = newest
        while len(run.tokens) < n_new and run.stop_reason != STOP_EOS:
            newest = present(one_pass(newest, True))
            state.pending = newest
            run.tokens.append(newest)
            if on_token is not None:
                on_token(newest)
            if newest == eos:
                run.stop_reason = STOP_EOS
        return run

    def _check_token(self, token: int) -> None:
        if not 0 <= token < self.shape.vocab:
            raise UserError(f"token {token} is outside the vocabulary 0..{self.shape.vocab - 1}")
