"""SymbolicLight V1 once more, one number at a time in Python: what `float_model` is compared with.

It keeps every position for ever and asks for each whether it is visible.
"""

import math

import numpy as np


def run(shape, tensors, tokens):
    """(logits [T][V], number of positions without any spike in some block) of a sequence."""
    get = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    membrane = [0.0] * shape.width
    keys = [[] for _ in range(shape.layers)]  # (position, key, value)
    state = [[0.0] * shape.width for _ in range(shape.layers)]
    logits, idle = [], 0
    for position, token in enumerate(tokens):
        c = norm(
            get["spike_encoder.frontend.text_embedding.weight"][token],
            get["spike_encoder.norm.weight"],
            get["spike_encoder.norm.bias"],
        )
        spikes = []
        for i in range(shape.width):
            v = max(-3.0, min(3.0, membrane[i] * shape.leak + c[i]))
            spikes.append(v >= shape.threshold)
            membrane[i] = 0.0 if spikes[i] else v
        for layer in range(shape.layers):
            idle += not any(spikes)
            c, spikes = block(shape, get, f"blocks.{layer}", c, spikes, position, keys[layer], state[layer])
        prior = [gelu(x) for x in get["output_head.prior_net.0.weight"] @ c]
        logits.append(
            get["output_head.output_proj.weight"] @ c
            + get["output_head.prior_weight"][0] * (get["output_head.prior_net.2.weight"] @ prior)
        )
    return np.array(logits), idle


def block(shape, get, name, c, spikes, position, keys, state):
    tcam, attn = f"{name}.tcam", f"{name}.tcam.sparse_attn"
    z = sum(
        (get[f"{tcam}.tcam_proj.weight"][:, i] for i in range(shape.width) if spikes[i]),
        np.zeros(shape.width),
    )
    for i in range(shape.width):
        alpha = sigmoid(get[f"{tcam}.decay_raw"][i // shape.head_width])
        state[i] = alpha * state[i] + (1 - alpha) * z[i]
    attended = np.zeros(shape.width)
    if any(spikes):
        q, k, v = (get[f"{attn}.{which}_proj.weight"] @ c for which in "qkv")
        keys.append((position, turn(shape, get, k, position), v))
        q = turn(shape, get, q, position)
        seen = [entry for entry in keys if position - entry[0] <= shape.window or entry[0] < shape.anchors]
        for head in range(shape.heads):
            part = slice(head * shape.head_width, (head + 1) * shape.head_width)
            scores = [q[part] @ key[part] / math.sqrt(shape.head_width) for _, key, _ in seen]
            weights = [math.exp(score - max(scores)) for score in scores]
            for weight, (_, _, value) in zip(weights, seen, strict=True):
                attended[part] += weight / sum(weights) * value[part]
    gate = sigmoid(get[f"{tcam}.attn_gate"][0])
    mixed = gate * attended + (1 - gate) * np.array(state)
    u = norm(c + get[f"{tcam}.out_proj.weight"] @ mixed, get[f"{tcam}.norm.weight"], get[f"{tcam}.norm.bias"])
    fired = get[f"{name}.ffn.up.weight"] @ u >= shape.threshold
    down = get[f"{name}.ffn.down.weight"] @ fired.astype(np.float64)
    c = norm(u + down, get[f"{name}.ffn.norm.weight"], get[f"{name}.ffn.norm.bias"])
    return c, [x >= shape.threshold for x in c]


def turn(shape, get, x, position):
    half = shape.head_width // 2
    out = x.copy()
    for start in range(0, shape.width, shape.head_width):
        for i in range(half):
            angle = position * get["rope.inv_freq"][i]
            a, b = x[start + i], x[start + half + i]
            out[start + i] = a * math.cos(angle) - b * math.sin(angle)
            out[start + half + i] = b * math.cos(angle) + a * math.sin(angle)
    return out


def norm(x, gamma, beta):
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return (x - mean) / math.sqrt(variance + 1e-5) * gamma + beta


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def gelu(x):
    return x * (1 + math.erf(x / math.sqrt(2))) / 2
