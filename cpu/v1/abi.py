"""The structures that Python and the V1 kernels share."""

from ctypes import c_float, c_int32, c_int64, c_uint8

from symlight.cpu.interface import Interface

V1 = Interface("symlight::v1", mutable={"Session", "Chunk"})
Matrix = V1.structure(
    "Matrix",
    data=[c_uint8],  # by row: [padded outputs][stride bytes]; by input: [inputs][stride bytes]
    scale=[c_float],  # [outputs]; null: none
    stride=c_int64,
    inputs=c_int32,
    outputs=c_int32,
    single=c_int32,  # float32 weights instead of int8
    by_input=c_int32,
)
Norm = V1.structure("Norm", gamma=[c_float], beta=[c_float])  # padded to whole vectors
Block = V1.structure(
    "Block",
    tcam=Matrix,
    qkv=Matrix,  # outputs: all of q, then k, then v
    out=Matrix,
    up=Matrix,
    down=Matrix,
    tcam_norm=Norm,
    ffn_norm=Norm,
    alpha=[c_float],  # [heads]
    gate=c_float,
    unused=c_float,
)
Model = V1.structure(
    "Model",
    head=Matrix,
    prior_in=Matrix,
    prior_out=Matrix,
    encoder_norm=Norm,
    blocks=[Block],
    layers=c_int32,
    width=c_int32,
    heads=c_int32,
    head_width=c_int32,
    ffn=c_int32,
    vocab=c_int32,
    bottleneck=c_int32,
    window=c_int32,
    anchors=c_int32,
    leak=c_float,
    threshold=c_float,
    bound=c_float,
    epsilon=c_float,
    scale=c_float,  # of a score
    prior_weight=c_float,
    unused=c_float,
)
Session = V1.structure(
    "Session",
    membrane=[c_float],  # [D]
    decay=[c_float],  # [L][D]
    keys=[c_float],  # [L][H][d][padded slots]
    values=[c_float],  # [L][H][padded slots][d]
    spikes=[c_uint8],  # [L][padded slots]
    position=c_int64,
    slots=c_int64,  # padded
)
Chunk = V1.structure(
    "Chunk",
    embedding=[c_float],  # [count][D]
    cosine=[c_float],  # [count][d / 2]
    sine=[c_float],
    logits=[c_float],  # [count - first][rows]
    active=[c_int64],  # [L][2]: spikes into tcam and down, added
    nanoseconds=[c_int64],  # [phases]: added; thread 0
    count=c_int32,
    first=c_int32,  # position of the chunk from which logits are wanted
    rows=c_int32,  # of the vocabulary that are wanted
    unused=c_int32,
)
PHASES = ("encode", "qkv+tcam", "attention", "out", "up", "down", "norm", "head")
