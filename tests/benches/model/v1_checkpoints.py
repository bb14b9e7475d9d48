"""Writes V1 checkpoints as the public training code names them, in every accepted wrapping, with torch."""

import torch

from symlight.model.v1 import tensors as names

WRAPPINGS = ("model", "state-dict", "bare", "module", "compiled", "compiled-parts", "legacy")


def public_tensors(family, tensors):
    """The tensors of a checkpoint of `family` (with a small shape): public names, shapes and order."""
    shape, found = family.shape, {}
    for name, tensor in tensors.items():
        if name == names.PRIOR_WEIGHT:
            if family.prior_weight is None:
                found[name] = torch.tensor(tensor[0])
        elif name == names.INV_FREQ:
            for layer in range(shape.layers):
                found[f"blocks.{layer}.tcam.sparse_attn.rope.inv_freq"] = torch.tensor(tensor)
        else:
            found[name] = torch.tensor(tensor)
    if family.mask:
        i, j = torch.arange(shape.context)[:, None], torch.arange(shape.context)
        mask = (i >= j) & ((i - j <= shape.window) | (j < shape.anchors))
        for layer in range(shape.layers):
            found[f"blocks.{layer}.tcam.sparse_attn._cached_mask"] = mask
    return found


def public_config(shape):
    return {
        "vocab_size": shape.vocab,
        "embed_dim": shape.width,
        "n_layers": shape.layers,
        "n_heads": shape.heads,
        "head_dim": shape.head_width,
        "intermediate_dim": shape.ffn,
        "max_seq_len": shape.context,
        "sparse_attn_window": shape.window,
        "n_global_anchors": shape.anchors,
        "spike_threshold": shape.threshold,
        "leak_factor": shape.leak,
        "rope_theta": 10000.0,
        "enable_sparse_attn": True,
        "enable_dynamic_prior": True,
        "dropout": 0.1,
        "frontend_mode": "text",
    }


def write(path, family, tensors, wrapping="model", *, config=None, change=None):
    """Save a checkpoint; `change(dict)` edits the tensors before they are wrapped."""
    state = public_tensors(family, tensors)
    if change:
        change(state)
    config = public_config(family.shape) if config is None else config
    content = {"config": config, "model": state, "step": 7}
    if wrapping == "state-dict":
        content = {"config": config, "model_state_dict": state}
    elif wrapping == "bare":
        content = state
    elif wrapping == "module":
        content["model"] = {f"module.{name}": tensor for name, tensor in state.items()}
    elif wrapping == "compiled":
        content["model"] = {f"module._orig_mod.{name}": tensor for name, tensor in state.items()}
    elif wrapping == "compiled-parts":
        content["model"] = {
            name.replace(".tcam.", ".tcam._orig_mod.").replace(".ffn.", ".ffn._orig_mod."): tensor
            for name, tensor in state.items()
        } | {"spike_encoder._orig_mod.v_mem": torch.zeros(1, 2)}
    torch.save(content, path, _use_new_zipfile_serialization=wrapping != "legacy")
    return path
