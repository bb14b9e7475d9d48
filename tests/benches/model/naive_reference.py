"""The model once more, in plain Python integers and loops, written from docs/arithmetic.md.

Slow and obvious; the tests compare the fast reference with it. The ring is a dictionary of all positions, and
visibility is decided by distance, so a wrong slot rule cannot agree by accident.
"""

import math
from fractions import Fraction


def round_away(value: Fraction) -> int:
    """Nearest integer, halves away from zero."""
    magnitude = math.floor(abs(value) + Fraction(1, 2))
    return magnitude if value >= 0 else -magnitude


def rnd(x, s):
    return round_away(Fraction(int(x), 1 << int(s)))


def clamp(x, low, high):
    return min(max(x, low), high)


def sat(x, bits):
    return clamp(x, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def requantise(acc, multiplier, shift):
    return sat(rnd(acc * int(multiplier), shift), 18)


def event(acc, threshold, multiplier, shift):
    return clamp(requantise(acc, multiplier, shift), -127, 127) if abs(acc) >= threshold else 0


def dot(row, x):
    return sum(int(w) * v for w, v in zip(row, x, strict=True))


def divide(num, den):
    if den == 0:
        return 0
    n = den.bit_length()
    return rnd((num << (24 - n)) * (2 ** (n + 16) // den), 34)


def layer_norm(pre, norm):
    gamma_shift, epsilon = map(int, norm.scalars)
    width = len(pre)
    mean = round_away(Fraction(sum(pre) * ((2**33 + width) // (2 * width)), 2**32))
    spread = sum((x - mean) ** 2 for x in pre) + epsilon
    e = 0
    while 4 ** (e + 1) <= spread:
        e += 1
    index = spread * 64 // 4**e
    root = 0  # largest integer with root^2 <= 2^41 / (2 i + 1)
    for bit in reversed(range(20)):
        if (root + (1 << bit)) ** 2 * (2 * index + 1) <= 2**41:
            root += 1 << bit
    r = min(65535, (root + 1) // 2)
    return [
        sat(rnd(sat(rnd((x - mean) * r, e - 1), 19) * int(g), gamma_shift) + int(b), 16)
        for x, g, b in zip(pre, norm.gamma, norm.beta, strict=True)
    ]


class NaiveModel:
    """One session of an IntegerModel."""

    def __init__(self, model):
        self.model, self.shape = model, model.shape
        self.membrane = [0] * self.shape.width
        self.h = [[0] * self.shape.width for _ in model.blocks]
        self.keys = [{} for _ in model.blocks]
        self.values = [{} for _ in model.blocks]
        self.position = 0

    def logits(self, token: int) -> list[int]:
        """One pass with the head."""
        numerics = self.model.numerics
        x = [int(value) for value in self.model.embedding_table[token]]
        spikes = []
        for i, value in enumerate(x):
            v = rnd(self.membrane[i] * numerics.lif_leak, 15) + value
            v = clamp(v, -numerics.lif_clamp, numerics.lif_clamp)
            spikes.append(1 if v >= numerics.lif_threshold else 0)
            self.membrane[i] = 0 if spikes[-1] else v
        c = x
        for layer in range(self.shape.layers):
            c, spikes = self.block(layer, c, spikes)
        self.position += 1
        return self.head(c)

    def block(self, layer, c, s):
        block, shape = self.model.blocks[layer], self.shape
        e = [event(value, *map(int, block.attention_event)) for value in c]
        q, k, v = (
            [
                event(dot(row, e), int(t), m, sh)
                for row, t, m, sh in zip(p.weight, p.threshold, p.multiplier, p.shift, strict=True)
            ]
            for p in (block.q, block.k, block.v)
        )
        z = [sat(value, 16) for value in self.project(block.decay, s)]
        beta = [int(block.decay_beta[i // shape.head_width]) for i in range(shape.width)]
        h = [h + rnd((z - h) * b, 16) for h, z, b in zip(self.h[layer], z, beta, strict=True)]
        self.h[layer] = h
        self.keys[layer][self.position], self.values[layer][self.position] = k, v
        o = [value for head in range(shape.heads) for value in self.attend(layer, head, q)]
        g_o, g_h, sh_m = map(int, block.mix)
        m = [clamp(rnd(a * g_o + b * g_h, sh_m), -127, 127) for a, b in zip(o, h, strict=True)]
        pre = [sat(2 * a + b, 18) for a, b in zip(c, self.project(block.out, m), strict=True)]
        u = layer_norm(pre, block.attention_norm)
        e = [event(value, *map(int, block.ffn_event)) for value in u]
        f = [
            1 if dot(row, e) >= int(t) else 0
            for row, t in zip(block.up.weight, block.up.threshold, strict=True)
        ]
        pre = [sat(2 * a + b, 18) for a, b in zip(u, self.project(block.down, f), strict=True)]
        c = layer_norm(pre, block.ffn_norm)
        return c, [1 if a >= int(tau) else 0 for a, tau in zip(c, block.spike_threshold, strict=True)]

    def project(self, part, x):
        return [
            requantise(dot(row, x), m, sh)
            for row, m, sh in zip(part.weight, part.multiplier, part.shift, strict=True)
        ]

    def attend(self, layer, head, q):
        shape, i = self.shape, self.position
        span = range(head * shape.head_width, (head + 1) * shape.head_width)
        visible = [p for p in range(i + 1) if p < shape.anchors or i - p <= shape.window]
        den, num = 0, [0] * shape.head_width
        for p in visible:
            score = sum(q[n] * self.keys[layer][p][n] for n in span) * 2**self.model.numerics.score_frac
            weight = clamp(score - int(self.model.slopes[head]) * (i - p), 0, 32767)
            den += weight
            num = [a + weight * self.values[layer][p][n] for a, n in zip(num, span, strict=True)]
        return [divide(a, den) for a in num]

    def head(self, c):
        head = self.model.head
        multiplier, shift = map(int, head.input)
        a = [clamp(rnd(value * multiplier, shift), -127, 127) for value in c]
        g = [int(head.gelu_table[sat(value, 8) + 128]) for value in self.project(head.prior, a)]
        return [
            dot(row, a + g) * int(scale)
            for row, scale in zip(head.fused_weight, head.fused_scale, strict=True)
        ]
