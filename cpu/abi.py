"""The structures that Python and the kernels share; `V2.header()` is abi.h."""

from ctypes import c_double, c_float, c_int8, c_int16, c_int32, c_int64, c_uint8, c_uint16, c_uint64

from symlight.model import sampling

from .interface import Interface

# What the time of a pass is divided into; `lists` finds the nonzero events of the matrices stored by row.
OPERATIONS = ("embed", "lists", "qkv", "decay", "attention", "out", "norm", "up", "down", "prior", "head")
WANTS = ("nothing", "last", "all")
READ_BYTES = 4096  # `symlight_read` takes multiples

V2 = Interface(
    "symlight",
    mutable={"Part", "Slice", "Sums"},
    enums={
        "Operation": [f"k{name.capitalize()}Time" for name in OPERATIONS],
        "Wanted": [f"kWant{name.capitalize()}" for name in WANTS],
    },
    constants={  # of model/sampling.py, for sampler.h
        "kCandidates": sampling.CANDIDATES,
        "kWeightFrac": sampling.WEIGHT_FRAC,
        "kExpIndexBits": sampling.EXP_INDEX_BITS,
        "kExpFrac": sampling.EXP_FRAC,
        "kOctavesBits": sampling.OCTAVES_BITS,
        "kDistanceBits": sampling.DISTANCE_BITS,
        "kProbabilityFrac": sampling.PROBABILITY_FRAC,
        "kRotations": sampling.ROTATIONS,
        "kParity": sampling.PARITY,
        "kRounds": sampling.ROUNDS,
    },
)
Matrix = V2.structure(
    "Matrix",
    "Weights by row, `stride` bytes apart, or by output (cpu.layout).",
    data=[c_uint8],
    stride=c_int64,
    inputs=c_int32,
    outputs=c_int32,
    by_row=c_int32,
)
Requantiser = V2.structure(
    "Requantiser",
    "Of an event site. A `scale` is always multiplier / 2^shift.",
    scale=c_double,
    threshold=c_int32,
)
Norm = V2.structure(
    "Norm",
    "Layer normalisation.",
    gamma=[c_int16],
    beta=[c_int16],
    gamma_shift=c_int32,
    epsilon=c_int32,
)
Block = V2.structure(
    "Block",
    "A block; the names of model.weights.BlockWeights.",
    qkv=Matrix,
    decay=Matrix,
    out=Matrix,
    up=Matrix,
    down=Matrix,
    qkv_threshold=[c_int32],
    qkv_scale=[c_float],
    decay_scale=[c_float],
    decay_beta=[c_double],
    out_scale=[c_float],
    up_threshold=[c_int32],
    down_scale=[c_float],
    spike_threshold=[c_int16],
    attention_norm=Norm,
    ffn_norm=Norm,
    attention_event=Requantiser,
    ffn_event=Requantiser,
    mix_o=c_double,
    mix_h=c_double,
    mix_threshold=c_int32,
)
Head = V2.structure(
    "Head",
    "The decoding head.",
    prior=Matrix,
    fused=Matrix,
    prior_scale=[c_float],
    fused_scale=[c_uint16],
    gelu_table=[c_int8],
    input=Requantiser,
)
Model = V2.structure(
    "Model",
    """Everything that a pass reads. `every_row`: rows of zero events are read, too (to measure what skipping
    them brings).""",
    head=Head,
    blocks=[Block],
    embedding=[c_int16],
    slopes=[c_int32],
    rsqrt=[c_int32],
    inv_width=c_int64,
    layers=c_int32,
    width=c_int32,
    heads=c_int32,
    head_width=c_int32,
    ffn=c_int32,
    vocab=c_int32,
    bottleneck=c_int32,
    anchors=c_int32,
    window=c_int32,
    slots=c_int32,
    score_frac=c_int32,
    lif_leak=c_int32,
    lif_threshold=c_int32,
    lif_clamp=c_int32,
    every_row=c_int32,
)
Sampler = V2.structure(
    "Sampler",
    "How a token is drawn: `model.sampling.SamplerSettings`, and the table of `exp_table()`.",
    exp_table=[c_int32],
    multiplier=c_int64,
    min_weight=c_int64,
    top_p=c_int64,
    seed=c_uint64,
    shift=c_int32,
    top_k=c_int32,
)
Part = V2.structure(
    "Part",
    """Tokens of one session in a pass: where they go to, what is wanted, and the results.

    `tokens`, `position`: `count` tokens, the first at `position`. `want`: an index of WANTS; `best` (what
    `sampler` draws; where it is null, the largest logit) and `logits` (int64, may be null) have a row for
    every wanted token, `active` [L, 4] one for every token, and so has `optional` [L + 2]: nonzero inputs of
    W_O by layer, and of a and g where the head was evaluated.
    Pointers that may be null: the `undo_*` of a part that may be taken back: membrane [D] and decay state
    [L, D] after every token, and what it overwrites in the rings [L, D].
    """,
    membrane=[c_int16],
    decay=[c_int16],
    ring_k=[c_int8],
    ring_v=[c_int8],
    logits=[c_int64],
    active=[c_int32],
    optional=[c_int32],
    best=[c_int32],
    undo_membrane=[c_int16],
    undo_decay=[c_int16],
    undo_k=[c_int8],
    undo_v=[c_int8],
    sampler=[Sampler],
    tokens=[c_int32],
    position=c_int64,
    count=c_int32,
    want=c_int32,
)
Slice = V2.structure(
    "Slice",
    """Several passes of one session: `due` tokens that are known, then those that the engine chooses itself.

    `tokens` [due]; `chosen` [most], of which `made` are there so far; most 0: the head is not evaluated.
    `end`: a token after which none is chosen; -1: none. `position` is that of the first token due, and
    afterwards of the next one. After a pass `due` is 0, and the newest token chosen is not in the session.
    `sampler` null: the largest logit is chosen.
    """,
    membrane=[c_int16],
    decay=[c_int16],
    ring_k=[c_int8],
    ring_v=[c_int8],
    tokens=[c_int32],
    chosen=[c_int32],
    sampler=[Sampler],
    position=c_int64,
    due=c_int32,
    most=c_int32,
    made=c_int32,
    end=c_int32,
)
Sums = V2.structure(
    "Sums",
    "Of passes over slices, added up: nonzero inputs [L, 4], tokens, evaluations of the head.",
    active=[c_int64],
    passes=c_int64,
    heads=c_int64,
)
Profile = V2.structure(
    "Profile",
    "Sums over all passes by OPERATIONS: nanoseconds of thread 0, bytes of weights that all threads read.",
    nanoseconds=c_int64 * len(OPERATIONS),
    bytes=c_int64 * len(OPERATIONS),
)
