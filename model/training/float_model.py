"""SymbolicLight V2 in PyTorch: the float model that training shapes and the quantiser reads.

One block, in the paper's order (c, u: residual stream; s: binary spikes; h: decay state):

    e = event(c)                                shared by Q, K and V
    q, k, v = event(W_q e), event(W_k e), event(W_v e)
    z = W_T s;  h_t = a h_(t-1) + (1-a) z_t     a = sigmoid(decay_raw), one a head
    o = attention(q, k, v)                      ReLU-L1 with ALiBi over anchors and window
    u = LN1(c + W_O [g o + (1-g) h])            g = sigmoid(attn_gate), one a layer
    c' = LN2(u + W_down H(W_up event(u) - tau));  s' = H(c' - tau')

Input: c = LayerNorm(embedding), s = LIF(c). Output: logits = W_out c + 0.1 W_p2 GELU(W_p1 c).

The model takes whole sequences from a fresh state; running token by token is the integer reference's work.
Every tensor is float32, and the state dict's names are the checkpoint's. The gradients that training uses in
place of the derivative of a threshold are in `surrogates.py`.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional

from symlight.base.errors import UserError

from ..config import OPTIONAL_SITES, ModelShape
from ..shapes import integers_from_json
from .surrogates import Event, Lif, ReluL1Attention
from .thresholds import Keep, Shares, event, hold_threshold, record, spikes


@dataclass(frozen=True, kw_only=True)
class FloatConstants:
    """Numbers of the float model that are not learned; the quantiser turns them into integers."""

    event_threshold: float = 1.175  # theta of e(c) and e(u); 24 % of a unit Gaussian lies beyond
    qkv_event_threshold: float = 1.0  # theta of the projected q, k and v
    spike_threshold: float = 1.0  # tau of the feed-forward spikes and of s'
    lif_leak: float = 0.95  # share of the membrane that a token keeps
    lif_threshold: float = 1.0  # membrane at which a spike comes
    lif_clamp: float = 3.0  # membrane bound, +-
    prior_scale: float = 0.1  # factor of the prior net in the logits
    norm_epsilon: float = 1e-5  # added to the variance in every LayerNorm
    event_sites: tuple[str, ...] = ()  # of OPTIONAL_SITES
    trained_thresholds: bool = False  # the thresholds of the event sites are parameters
    out_threshold: float = 0.05  # of W_O's input at the start of training
    head_threshold: float = 0.1  # of the head's input
    hidden_threshold: float = 0.02  # of the prior net's hidden values, where the head is an event site

    def __post_init__(self):
        if any(site not in OPTIONAL_SITES for site in self.event_sites):
            raise UserError(f"event sites are {self.event_sites}; known: {', '.join(OPTIONAL_SITES)}")

    def to_json(self) -> dict:
        return asdict(self) | {"event_sites": list(self.event_sites)}

    @classmethod
    def from_json(cls, data: dict) -> "FloatConstants":
        return cls(**data | {"event_sites": tuple(data.get("event_sites", ()))})


class SparseAttention(nn.Module):
    """Projections and event thresholds of q, k, v, and the ReLU-L1 attention over them."""

    def __init__(self, shape: ModelShape, constants: FloatConstants):
        super().__init__()
        self.shape = shape
        for name in "qkv":
            setattr(self, f"{name}_proj", _linear(shape.width, shape.width))
            self.register_buffer(f"{name}_event_threshold", torch.tensor(constants.qkv_event_threshold))

    def events(self, e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v events [batch, heads, time, head_width] of the input events e [batch, time, width]."""
        batch, time, _ = e.shape
        return tuple(
            Event.apply(getattr(self, f"{name}_proj")(e), getattr(self, f"{name}_event_threshold"))
            .view(batch, time, self.shape.heads, -1)
            .transpose(1, 2)
            for name in "qkv"
        )

    def forward(self, e: Tensor, bias: Tensor, watch: dict | None = None) -> Tensor:
        """Attention output [batch, time, width]; `bias` [heads, time, time] from `attention_bias`."""
        q, k, v = self.events(e)
        output = ReluL1Attention.apply(q, k, v, bias)
        if watch is not None:
            watch.update(q=_density(q), k=_density(k), v=_density(v))
            scores = q @ k.transpose(-1, -2) / math.sqrt(self.shape.head_width) + bias
            watch["zero_sum"] = float((scores.amax(-1) <= 0).float().mean())
        return output.transpose(1, 2).flatten(2)


class TemporalMixer(nn.Module):
    """Both temporal paths of a block: decay state of the spikes, attention of the events; then LN1."""

    def __init__(self, shape: ModelShape, constants: FloatConstants):
        super().__init__()
        self.shape = shape
        self.tcam_proj = _linear(shape.width, shape.width, gain=2.0)
        self.sparse_attn = SparseAttention(shape, constants)
        self.out_proj = _linear(shape.width, shape.width, gain=0.5)
        # a = .5 ... .982 over the heads: some must start with a long memory to find a use for it.
        self.decay_raw = nn.Parameter(torch.linspace(0.0, 4.0, shape.heads))
        self.attn_gate = nn.Parameter(torch.zeros(()))
        self.norm = nn.LayerNorm(shape.width, eps=constants.norm_epsilon)
        trained = constants.trained_thresholds
        hold_threshold(self, "event_threshold", constants.event_threshold, trained)
        self.is_site = "out" in constants.event_sites
        if self.is_site:
            hold_threshold(self, "out_threshold", constants.out_threshold, trained)

    def decay(self, s: Tensor) -> Tensor:
        """Decay states h [batch, time, width] of the spikes s [batch, time, width], from h = 0."""
        batch, time, width = s.shape
        z = self.tcam_proj(s).view(batch, time, self.shape.heads, -1)
        steps = torch.arange(time, device=s.device)
        age = steps[:, None] - steps
        log_alpha = functional.logsigmoid(self.decay_raw)[:, None, None]
        # The recurrence as one matrix product a head: h_i = (1-a) sum over j <= i of a^(i-j) z_j.
        kernel = torch.exp(log_alpha * age.clamp(min=0)) * (age >= 0) * (1 - log_alpha.exp())
        h = kernel @ z.permute(2, 1, 0, 3).reshape(self.shape.heads, time, -1)
        return h.view(self.shape.heads, time, batch, -1).permute(2, 1, 0, 3).reshape(batch, time, width)

    def forward(
        self,
        c: Tensor,
        s: Tensor,
        bias: Tensor,
        watch: dict | None = None,
        shares: Shares | None = None,
        layer: int = 0,
    ) -> Tensor:
        """u [batch, time, width] of the residual c and the spikes s, both [batch, time, width]."""
        e = event(c, self.event_threshold)
        record(shares, "qkv", layer, c, self.event_threshold, True)
        if watch is not None:
            watch.update(qkv_in=_density(e), decay_in=_density(s))
        o = self.sparse_attn(e, bias, watch)
        h = self.decay(s)
        mixed = torch.lerp(h, o, self.attn_gate.sigmoid())
        if self.is_site:
            record(shares, "out", layer, mixed, self.out_threshold, True)
            mixed = Keep.apply(mixed, self.out_threshold)
        if watch is not None:
            watch["out_in"] = _density(mixed)
        return self.norm(c + self.out_proj(mixed))


class FeedForward(nn.Module):
    """Event-driven feed-forward with binary hidden spikes, then LN2."""

    def __init__(self, shape: ModelShape, constants: FloatConstants):
        super().__init__()
        self.up = _linear(shape.width, shape.ffn)
        self.down = _linear(shape.ffn, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=constants.norm_epsilon)
        hold_threshold(self, "event_threshold", constants.event_threshold, constants.trained_thresholds)
        hold_threshold(self, "spike_threshold", constants.spike_threshold, constants.trained_thresholds)

    def forward(
        self, u: Tensor, watch: dict | None = None, shares: Shares | None = None, layer: int = 0
    ) -> Tensor:
        """c' [batch, time, width] of u [batch, time, width]."""
        e = event(u, self.event_threshold)
        record(shares, "up", layer, u, self.event_threshold, True)
        membrane = self.up(e)
        f = spikes(membrane, self.spike_threshold)
        record(shares, "down", layer, membrane, self.spike_threshold, False)
        if watch is not None:
            watch.update(up_in=_density(e), down_in=_density(f))
            watch["ffn_active"] = float((f.flatten(0, -2).amax(0) > 0).float().mean())
        return self.norm(u + self.down(f))


class Block(nn.Module):
    """One layer: (c, s) -> (c', s')."""

    def __init__(self, shape: ModelShape, constants: FloatConstants, layer: int = 0):
        super().__init__()
        self.layer, self.last = layer, layer == shape.layers - 1
        self.tcam = TemporalMixer(shape, constants)
        self.ffn = FeedForward(shape, constants)
        # nothing takes the spikes of the last block
        trained = constants.trained_thresholds and not self.last
        hold_threshold(self, "spike_threshold", constants.spike_threshold, trained)

    def forward(
        self,
        c: Tensor,
        s: Tensor,
        bias: Tensor,
        watch: dict | None = None,
        shares: Shares | None = None,
    ) -> tuple[Tensor, Tensor]:
        c = self.ffn(self.tcam(c, s, bias, watch, shares, self.layer), watch, shares, self.layer)
        if not self.last:
            record(shares, "decay", self.layer + 1, c, self.spike_threshold, False)
        return c, spikes(c, self.spike_threshold)


class SpikeEncoder(nn.Module):
    """Token ids -> (LayerNorm of the embedding, LIF spikes of it)."""

    def __init__(self, shape: ModelShape, constants: FloatConstants):
        super().__init__()
        self.constants = constants
        self.frontend = nn.Module()
        self.frontend.text_embedding = nn.Embedding(shape.vocab, shape.width)
        nn.init.normal_(self.frontend.text_embedding.weight, std=0.02)
        self.norm = nn.LayerNorm(shape.width, eps=constants.norm_epsilon)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """c and s [batch, time, width] of the token ids [batch, time]."""
        c = self.norm(self.frontend.text_embedding(tokens))
        lif = self.constants
        return c, Lif.apply(c, lif.lif_leak, lif.lif_threshold, lif.lif_clamp)


class OutputHead(nn.Module):
    """Logits = W_out c + 0.1 W_p2 GELU(W_p1 c), GELU with the exact error function."""

    def __init__(self, shape: ModelShape, constants: FloatConstants):
        super().__init__()
        self.prior_scale = constants.prior_scale
        self.output_proj = _linear(shape.width, shape.vocab, gain=0.5)
        self.prior_net = nn.Sequential(
            _linear(shape.width, shape.bottleneck), nn.GELU(), _linear(shape.bottleneck, shape.vocab)
        )
        self.is_site = "head" in constants.event_sites
        if self.is_site:
            hold_threshold(self, "threshold", constants.head_threshold, constants.trained_thresholds)
            hold_threshold(self, "hidden_threshold", constants.hidden_threshold, constants.trained_thresholds)

    def forward(self, c: Tensor, watch: list[dict] | None = None, shares: Shares | None = None) -> Tensor:
        """Logits [..., vocab] in nats of c [..., width]."""
        if self.is_site:
            record(shares, "head", 0, c, self.threshold, True)
            c = Keep.apply(c, self.threshold)
        inner, gelu, outer = self.prior_net
        g = gelu(inner(c))
        if self.is_site:
            record(shares, "head_g", 0, g, self.hidden_threshold, True)
            g = Keep.apply(g, self.hidden_threshold)
        if watch is not None:
            for seen in watch:
                seen.update(head_in=_density(c), head_g=_density(g))
        return self.output_proj(c) + self.prior_scale * outer(g)


class FloatModel(nn.Module):
    """The whole model: token ids -> logits."""

    def __init__(self, shape: ModelShape, constants: FloatConstants = FloatConstants()):
        super().__init__()
        self.shape, self.constants = shape, constants
        self.spike_encoder = SpikeEncoder(shape, constants)
        self.blocks = nn.ModuleList(Block(shape, constants, layer) for layer in range(shape.layers))
        self.output_head = OutputHead(shape, constants)
        self._bias = attention_bias(shape, 0)  # the longest so far; depends on the shape only

    def forward(
        self, tokens: Tensor, watch: list[dict] | None = None, shares: Shares | None = None
    ) -> Tensor:
        """Logits [batch, time, vocab] (float32, nats) of the token ids [batch, time] from a fresh state.

        A list given as `watch` gets one dict a layer: the density (share of nonzero elements, 0..1) at each
        event site, `zero_sum` (share of attention rows without a positive score) and `ffn_active` (share of
        feed-forward channels that spike at least once). The head's densities stand in all of them. A list
        given as `shares` gets the differentiable shares that a sparsity objective weighs.
        """
        time = tokens.shape[1]
        if time > self._bias.shape[-1]:
            self._bias = attention_bias(self.shape, time)
        bias = self._bias = self._bias.to(tokens.device)
        bias = bias[:, :time, :time]
        c, s = self.spike_encoder(tokens)
        for block in self.blocks:
            seen: dict = {}
            c, s = block(c, s, bias, None if watch is None else seen, shares)
            if watch is not None:
                watch.append(seen)
        return self.output_head(c, watch, shares)

    def thresholds(self) -> list[nn.Parameter]:
        """The thresholds that training moves."""
        return [parameter for name, parameter in self.named_parameters() if name.endswith("threshold")]


def load(path: Path) -> FloatModel:
    """The model in a checkpoint (*.safetensors) that `training.train` wrote; its metadata hold the shape."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["model"])
            shape = integers_from_json(ModelShape, about["shape"], str(path))
            model = FloatModel(shape, FloatConstants.from_json(about["constants"]))
            model.load_state_dict({name: file.get_tensor(name) for name in file.keys()})
    except FileNotFoundError as error:
        raise UserError(f"there is no checkpoint {path}") from error
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{path} is not a checkpoint of a float model: {error}") from error
    return model


def attention_bias(shape: ModelShape, time: int) -> Tensor:
    """ALiBi and visibility [heads, time, time]: -slope * distance, or -inf where row i must not see column j.

    Visible are j <= i with i - j <= window or j < anchors. The slope of head h is 2^(-8 (h + 1) / heads);
    distances are true ones, to anchors too.
    """
    distance = torch.arange(time)[:, None] - torch.arange(time)
    visible = (distance >= 0) & ((distance <= shape.window) | (torch.arange(time) < shape.anchors))
    slopes = 2.0 ** (-8.0 * torch.arange(1, shape.heads + 1) / shape.heads)
    return (-slopes[:, None, None] * distance).masked_fill(~visible, -math.inf)


def _linear(inputs: int, outputs: int, *, gain: float = 1.0) -> nn.Linear:
    """A projection without bias, weights of standard deviation gain / sqrt(inputs).

    A smaller start (.02) would leave q, k and v below their event threshold: attention that never wakes up.
    """
    linear = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(linear.weight, std=gain / math.sqrt(inputs))
    return linear


def _density(x: Tensor) -> float:
    return float((x != 0).float().mean())
