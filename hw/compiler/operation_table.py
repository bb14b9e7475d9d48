"""The operation table and the header that LOAD reads: a model's pass as data (architecture, "Tasks of a
pass").

Six operations a layer (QKV, decay, attention, W_O, W_up, W_down), the embedding before, prior and head
behind.
"""

from symlight.model import ops
from symlight.model.weights import IntegerModel

from ..interface import MAILBOX_MAGIC, Phase, Traffic
from ..types import Header, OpEntry, Task, Work
from .layout import Layout, MatrixPlan


def header(layout: Layout, model: IntegerModel):
    """Constant of `types.Header`."""
    shape, ring, numerics = layout.shape, layout.ring, model.numerics
    return Header.const(
        {
            "magic": MAILBOX_MAGIC,
            "table_base": layout.table_base,
            "table_entries": layout.table_entries,
            "parameter_base": layout.parameter_base,
            "parameter_words": layout.parameter_words,
            "gelu_base": layout.gelu_base,
            "slope_base": layout.slope_base,
            "slope_beats": layout.slope_beats,
            "embed_base": layout.embed_base,
            "logit_base": layout.logit_base,
            "logit_beats": layout.head_logit_beats,
            "ring_shape": {
                "log_groups": ring.log_groups,
                "columns": ring.columns,
                "heads": ring.heads,
                "head_words": ring.head_words,
                "anchors": shape.anchors,
                "ring": shape.window + 1,
                "score_frac": numerics.score_frac,
            },
            "layers": shape.layers,
            "width": shape.width,
            "width_words": layout.width_words,
            "head_words": layout.head_words,
            "query_words": layout.query_words,
            "slots": shape.slots,
            "state_words": shape.layers * layout.query_words,
            "vocab": shape.vocab,
            "inv_width": ops.inv_width(shape.width),
            "lif_leak": numerics.lif_leak,
            "lif_threshold": numerics.lif_threshold,
            "lif_clamp": numerics.lif_clamp,
        }
    )


def _command(plan: MatrixPlan, base: int, traffic: Traffic, *, stream: bool, acc: int = 0) -> dict:
    return {
        "work": Work.MATRIX,
        "stream": stream,
        "base": base,
        "words": plan.in_words,
        "beats": plan.beats,
        "log_groups": plan.log_groups,
        "columns": plan.columns,
        "acc": acc,
        "traffic": traffic,
    }


def _drain(plan: MatrixPlan) -> dict:
    return {"words": plan.out_words, "slice": plan.beats, "columns": plan.columns, "has_command": 1}


def _event(scalars) -> dict:
    """Event scalars (T, M, sh) of the vector that the task broadcasts."""
    threshold, multiplier, shift = (int(v) for v in scalars)
    return {"threshold": threshold, "multiplier_a": multiplier, "shift_a": shift}


def _layer(layout: Layout, model: IntegerModel, layer: int) -> list[dict]:
    """The six operations of one block."""
    block, bases, ring = model.blocks[layer], layout.bases[layer], layout.ring
    q, w = layout.query_words, layout.width_words
    parameter = layer * layout.layer_parameters
    state = layer * q
    last = layer == layout.shape.layers - 1
    site = 4 * layer
    qkv = {
        "task": Task.QKV,
        "phase": Phase.QKV,
        "event": 1,
        "counted": 1,
        "statistic": site + 1,
        "parameter": parameter,
        "has_kv": 1,
        "kv_base": bases["ring"],
        "kv_stage": layout.stage(layer),
        "command": _command(layout.qkv, bases["qkv"], Traffic.QKV, stream=False),
        **_drain(layout.qkv),
    }
    decay = {
        "task": Task.DECAY,
        "phase": Phase.DECAY,
        "event": 1,
        "parameter": parameter + 3 * q,
        "state": state,
        "fence": 1,
        "command": _command(layout.decay, bases["decay"], Traffic.DECAY, stream=False, acc=layout.qkv.beats),
        **_drain(layout.decay),
    }
    gain_o, gain_h, shift = (int(v) for v in block.mix)
    attention = {
        "task": Task.MIX,
        "phase": Phase.ATTENTION,
        "state": state,
        "words": q,
        "slice": ring.heads * ring.head_words,
        "columns": ring.columns,
        "multiplier_a": gain_o,
        "multiplier_b": gain_h,
        "shift_a": shift,
        "threshold": block.out_threshold,
    }
    out_site = block.out_threshold > 0
    parameter += 4 * q
    norm_1, norm_2 = block.attention_norm.scalars, block.ffn_norm.scalars
    out = {
        "task": Task.NORM_U,
        "phase": Phase.OUT,
        "parameter": parameter,
        "norm": parameter + w,
        "gamma_shift": int(norm_1[0]),
        "epsilon": int(norm_1[1]),
        **_event(block.ffn_event),
        "counted": 1,
        "statistic": site + 2,
        "event": out_site,
        "command": _command(layout.out, bases["out"], Traffic.OUT, stream=not out_site),
        **_drain(layout.out),
    }
    parameter += 2 * w
    up = {
        "task": Task.STEP,
        "phase": Phase.UP,
        "event": 1,
        "counted": 1,
        "statistic": site + 3,
        "parameter": parameter,
        "command": _command(layout.up, bases["up"], Traffic.UP, stream=False),
        **_drain(layout.up),
    }
    parameter += layout.ffn_words
    following = (model.head.threshold, *model.head.input) if last else model.blocks[layer + 1].attention_event
    down = {
        "task": Task.NORM_C,
        "phase": Phase.DOWN,
        "event": 1,
        "counted": not last,
        "statistic": site + 4,
        "parameter": parameter,
        "norm": parameter + w,
        "gamma_shift": int(norm_2[0]),
        "epsilon": int(norm_2[1]),
        **_event(following),
        "to_head": last,
        # Its first sums come while the last words of W_up are still being drained.
        "command": _command(layout.down, bases["down"], Traffic.DOWN, stream=False, acc=layout.up.beats),
        **_drain(layout.down),
    }
    return [qkv, decay, attention, out, up, down]


def operation_table(layout: Layout, model: IntegerModel) -> list:
    """Constants of `types.OpEntry`, the last one `Task.END`."""
    embed = {
        "task": Task.EMBED,
        "phase": Phase.EMBED,
        "words": layout.width_words,
        "command": {
            "work": Work.DIRECT_READ,
            "traffic": Traffic.EMBED,
            "count": layout.embed_beats,
            "base": layout.embed_base,
        },
        "has_command": 1,
        "counted": 1,
        "statistic": 0,
        **_event(model.blocks[0].attention_event),
    }
    site = model.head.threshold > 0
    layers = [op for layer in range(layout.shape.layers) for op in _layer(layout, model, layer)]
    prior = {
        "task": Task.PRIOR,
        "phase": Phase.PRIOR,
        "head": 1,
        "parameter": layout.shape.layers * layout.layer_parameters,
        "event": site,
        "command": _command(layout.prior, layout.prior_base, Traffic.PRIOR, stream=not site),
        **_drain(layout.prior),
    }
    head = {
        "task": Task.HEAD,
        "phase": Phase.HEAD,
        "head": 1,
        "has_command": 1,
        "event": site,
        "columns": layout.engine.channels,
        "command": {
            "work": Work.HEAD,
            "stream": not site,
            "base": layout.head_base,
            "words": layout.head_words,
            "beats": 1,
            "columns": layout.engine.channels,
            "count": layout.tiles,
            "traffic": Traffic.HEAD,
        },
    }
    return [OpEntry.const(op) for op in (embed, *layers, prior, head, {"task": Task.END})]
