"""Names and shapes of a V1 model's tensors."""

from .config import V1Shape

EMBEDDING = "spike_encoder.frontend.text_embedding.weight"
ENCODER_NORM = "spike_encoder.norm"
TCAM, OUT, QUERY, KEY, VALUE, UP, DOWN = (
    "tcam.tcam_proj",
    "tcam.out_proj",
    "tcam.sparse_attn.q_proj",
    "tcam.sparse_attn.k_proj",
    "tcam.sparse_attn.v_proj",
    "ffn.up",
    "ffn.down",
)
TCAM_NORM, FFN_NORM, DECAY, GATE = "tcam.norm", "ffn.norm", "tcam.decay_raw", "tcam.attn_gate"
HEAD, PRIOR_IN, PRIOR_OUT = "output_head.output_proj", "output_head.prior_net.0", "output_head.prior_net.2"
PRIOR_WEIGHT = "output_head.prior_weight"
INV_FREQ = "rope.inv_freq"  # one for all blocks
SPIKE_CONDITIONED = (TCAM, DOWN)  # their inputs are spikes; all other matrices have dense inputs


def block(layer: int, name: str) -> str:
    """The name of a block's tensor."""
    return f"blocks.{layer}.{name}"


def block_matrices(shape: V1Shape) -> dict[str, tuple[int, int]]:
    """Matrices of a block without `.weight`: (outputs, inputs)."""
    square = (shape.width, shape.width)
    matrices = dict.fromkeys((TCAM, OUT, QUERY, KEY, VALUE), square)
    return matrices | {UP: (shape.ffn, shape.width), DOWN: (shape.width, shape.ffn)}


def head_matrices(shape: V1Shape) -> dict[str, tuple[int, int]]:
    """Matrices of the head without `.weight`: (outputs, inputs)."""
    return {
        HEAD: (shape.vocab, shape.width),
        PRIOR_IN: (shape.bottleneck, shape.width),
        PRIOR_OUT: (shape.vocab, shape.bottleneck),
    }


def matrices(shape: V1Shape) -> dict[str, tuple[int, int]]:
    """All matrices that a package may hold as int8, without `.weight`: (outputs, inputs)."""
    blocks = {
        block(layer, name): size
        for layer in range(shape.layers)
        for name, size in block_matrices(shape).items()
    }
    return blocks | head_matrices(shape)


def vectors(shape: V1Shape) -> dict[str, tuple[int, ...]]:
    """All tensors that stay float32, but the embedding."""
    found: dict[str, tuple[int, ...]] = {}
    for norm in (ENCODER_NORM, *(block(i, n) for i in range(shape.layers) for n in (TCAM_NORM, FFN_NORM))):
        found |= {f"{norm}.weight": (shape.width,), f"{norm}.bias": (shape.width,)}
    for layer in range(shape.layers):
        found |= {block(layer, DECAY): (shape.heads,), block(layer, GATE): (1,)}
    return found | {INV_FREQ: (shape.head_width // 2,), PRIOR_WEIGHT: (1,)}
