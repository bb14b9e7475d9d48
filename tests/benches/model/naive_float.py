"""SymbolicLight V2 in float64 numpy, a token at a time, from the paper's equations (1) to (7).

And a random checkpoint for it.
"""

import math

import numpy as np

from symlight.model.training.quantise import Checkpoint

CONSTANTS = {
    "lif_leak": 0.95,
    "lif_threshold": 1.0,
    "lif_clamp": 3.0,
    "prior_scale": 0.1,
    "norm_epsilon": 1e-5,
}


def random_checkpoint(shape, seed) -> Checkpoint:
    """Weights like those of a fresh training, with every learned scalar moved off its default.

    Each row is 127 steps of one size, so that INT8 holds it exactly: thresholds make the network chaotic, and
    rounded weights alone would hide what the tests look for.
    """
    rng = np.random.default_rng(seed)
    width, ffn = shape.width, shape.ffn

    def matrix(rows, columns, gain=1.0):
        values = rng.normal(0, gain / math.sqrt(columns), (rows, columns))
        steps = np.abs(values).max(axis=1, keepdims=True) / 127
        return np.rint(values / steps) * steps

    def vector(size, mean):
        return rng.normal(mean, 0.1, size).astype(np.float32)

    tensors = {
        "spike_encoder.frontend.text_embedding.weight": matrix(shape.vocab, width),
        "spike_encoder.norm.weight": vector(width, 1),
        "spike_encoder.norm.bias": vector(width, 0),
        "output_head.output_proj.weight": matrix(shape.vocab, width),
        "output_head.prior_net.0.weight": matrix(shape.bottleneck, width),
        "output_head.prior_net.2.weight": matrix(shape.vocab, shape.bottleneck),
    }
    for layer in range(shape.layers):
        block = f"blocks.{layer}"
        for letter in "qkv":
            tensors[f"{block}.tcam.sparse_attn.{letter}_proj.weight"] = matrix(width, width)
            tensors[f"{block}.tcam.sparse_attn.{letter}_event_threshold"] = np.float32(rng.uniform(0.8, 1.1))
        for part in ("tcam", "ffn"):
            tensors[f"{block}.{part}.norm.weight"] = vector(width, 1)
            tensors[f"{block}.{part}.norm.bias"] = vector(width, 0)
            tensors[f"{block}.{part}.event_threshold"] = np.float32(rng.uniform(1, 1.3))
        tensors |= {
            f"{block}.tcam.tcam_proj.weight": matrix(width, width, 2),
            f"{block}.tcam.out_proj.weight": matrix(width, width),
            f"{block}.tcam.decay_raw": np.linspace(0, 4, shape.heads, dtype=np.float32),
            f"{block}.tcam.attn_gate": np.float32(rng.normal()),
            f"{block}.ffn.up.weight": matrix(ffn, width),
            f"{block}.ffn.down.weight": matrix(width, ffn),
            f"{block}.ffn.spike_threshold": np.float32(0.9),
            f"{block}.spike_threshold": np.float32(1.1),
        }
    return Checkpoint(tensors, shape, dict(CONSTANTS), "random checkpoint")


def event(x, theta):
    """Equation (1)."""
    return np.where(np.abs(x) >= theta, np.clip(np.round(x / theta), -127, 127), 0)


def layer_norm(x, weight, bias):
    return (x - x.mean()) / np.sqrt(x.var() + CONSTANTS["norm_epsilon"]) * weight + bias


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class NaiveFloat:
    """A session of a checkpoint."""

    def __init__(self, checkpoint):
        self.p, self.shape = checkpoint, checkpoint.shape
        width, layers = self.shape.width, range(self.shape.layers)
        self.v, self.h = np.zeros(width), [np.zeros(width) for _ in layers]
        self.past = [[] for _ in layers]

    def logits(self, token):
        p, constants = self.p, self.p.constants
        c = layer_norm(
            p["spike_encoder.frontend.text_embedding.weight"][token],
            p["spike_encoder.norm.weight"],
            p["spike_encoder.norm.bias"],
        )
        self.v = np.clip(constants["lif_leak"] * self.v + c, -constants["lif_clamp"], constants["lif_clamp"])
        s = (self.v >= constants["lif_threshold"]) * 1.0
        self.v = np.where(s == 1, 0, self.v)
        for layer in range(self.shape.layers):
            c, s = self.block(layer, c, s)
        hidden = p["output_head.prior_net.0.weight"] @ c
        gelu = np.array([0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in hidden])
        prior = p["output_head.prior_net.2.weight"] @ gelu
        return p["output_head.output_proj.weight"] @ c + constants["prior_scale"] * prior

    def block(self, layer, c, s):
        p, t, f = self.p, f"blocks.{layer}.tcam", f"blocks.{layer}.ffn"
        e = event(c, p[f"{t}.event_threshold"])
        q, k, v = (
            event(p[f"{t}.sparse_attn.{x}_proj.weight"] @ e, p[f"{t}.sparse_attn.{x}_event_threshold"])
            for x in "qkv"
        )
        alpha = np.repeat(sigmoid(p[f"{t}.decay_raw"]), self.shape.head_width)
        self.h[layer] = alpha * self.h[layer] + (1 - alpha) * (p[f"{t}.tcam_proj.weight"] @ s)
        self.past[layer].append((k, v))
        gate = sigmoid(p[f"{t}.attn_gate"])
        mixed = gate * self.attention(layer, q) + (1 - gate) * self.h[layer]
        u = layer_norm(c + p[f"{t}.out_proj.weight"] @ mixed, p[f"{t}.norm.weight"], p[f"{t}.norm.bias"])
        hidden = p[f"{f}.up.weight"] @ event(u, p[f"{f}.event_threshold"]) >= p[f"{f}.spike_threshold"]
        c = layer_norm(u + p[f"{f}.down.weight"] @ hidden, p[f"{f}.norm.weight"], p[f"{f}.norm.bias"])
        return c, (c >= p[f"blocks.{layer}.spike_threshold"]) * 1.0

    def attention(self, layer, q):
        shape, past = self.shape, self.past[layer]
        i, d, output = len(past) - 1, shape.head_width, np.zeros(shape.width)
        for head in range(shape.heads):
            part, slope = slice(head * d, (head + 1) * d), 2.0 ** (-8 * (head + 1) / shape.heads)
            weights = {
                j: max(0.0, float(q[part] @ past[j][0][part]) / math.sqrt(d) - slope * (i - j))
                for j in range(i + 1)
                if j < shape.anchors or i - j <= shape.window
            }
            total = sum(weights.values())
            if total > 0:
                output[part] = sum(w * past[j][1][part] for j, w in weights.items()) / total
        return output
