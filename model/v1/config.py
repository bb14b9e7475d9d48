"""Shapes of SymbolicLight V1, and how the two public sizes differ."""

import math
from dataclasses import asdict, dataclass, fields, replace

from symlight.base.errors import UserError

MEMBRANE_BOUND = 3.0  # the membrane of the encoder stays in [-3, 3]
NORM_EPSILON = 1e-5  # added to the variance in every LayerNorm
MAX_POSITION = 1 << 20  # positions of a session: float32 angles of later ones are too coarse

_COUNTS = {
    "layers": (1, 256),
    "width": (1, 16384),
    "heads": (1, 256),
    "head_width": (2, 512),
    "ffn": (1, 65536),
    "vocab": (2, 1 << 20),
    "bottleneck": (1, 16384),
    "window": (1, MAX_POSITION),
    "anchors": (0, 4096),
    "context": (1, MAX_POSITION),
}


@dataclass(frozen=True, kw_only=True)
class V1Shape:
    """Dimensions and constants of a V1 model."""

    layers: int  # blocks
    width: int  # elements of the residual stream
    heads: int  # attention heads; heads * head_width == width
    head_width: int  # elements of a head, even: rotary positions turn pairs
    ffn: int  # feed-forward neurons
    vocab: int  # vocabulary rows of embedding and head
    bottleneck: int  # hidden neurons of the prior net
    window: int  # lookback distance of attention: a query sees the `window` positions before it, and itself
    anchors: int  # first positions that stay visible for ever
    context: int  # positions of a training sequence; later positions are extrapolated
    leak: float = 0.95  # of the encoder's membrane, a position
    threshold: float = 1.0  # of every spike

    def __post_init__(self):
        for name, (low, high) in _COUNTS.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise UserError(f"V1 shape: {name} = {value!r} is outside {low}..{high}")
        for name in ("leak", "threshold"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
                raise UserError(f"V1 shape: {name} = {value!r} is not a number from 0 on")
        if self.heads * self.head_width != self.width:
            raise UserError(
                f"V1 shape: heads * head_width = {self.heads} * {self.head_width} "
                f"is not the width {self.width}"
            )
        if self.head_width % 2:
            raise UserError(f"V1 shape: head_width = {self.head_width} is odd")

    @property
    def slots(self) -> int:
        """Positions whose keys and values are kept: anchors, the window and the current one."""
        return self.anchors + self.window + 1

    @property
    def head_rows(self) -> int:
        """Inputs of a vocabulary row: residual width and bottleneck."""
        return self.width + self.bottleneck

    @property
    def multiply_accumulates(self) -> int:
        """Of a decode pass that skips nothing."""
        block = 5 * self.width**2 + 2 * self.width * self.ffn
        head = self.vocab * self.head_rows + self.width * self.bottleneck
        return self.layers * block + head

    def to_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "V1Shape":
        known = {f.name for f in fields(cls)}
        unknown, missing = set(data) - known, known - set(data)
        if unknown or missing:
            raise UserError(f"V1 shape: unknown fields {sorted(unknown)}, missing fields {sorted(missing)}")
        return cls(**data)


@dataclass(frozen=True, kw_only=True)
class Family:
    """One of the public sizes: what its checkpoints contain besides the tensors that both have."""

    name: str
    shape: V1Shape  # the defaults where a checkpoint has no configuration
    prior_weight: float | None  # fixed weight of the prior; None: the scalar `output_head.prior_weight`
    mask: bool  # every block has a visibility mask, a buffer that follows from window and anchors


V1_194M = Family(
    name="194m",
    prior_weight=0.1,
    mask=False,
    shape=V1Shape(
        layers=12,
        width=768,
        heads=12,
        head_width=64,
        ffn=4096,
        vocab=48000,
        bottleneck=192,
        window=256,
        anchors=4,
        context=2048,
    ),
)
V1_08B = Family(
    name="0.8b",
    prior_weight=None,
    mask=True,
    shape=V1Shape(
        layers=22,
        width=1536,
        heads=24,
        head_width=64,
        ffn=6144,
        vocab=57344,
        bottleneck=384,
        window=512,
        anchors=4,
        context=512,
    ),
)
FAMILIES = {family.name: family for family in (V1_194M, V1_08B)}


def small(family: Family, **changes: int) -> Family:
    """`family` with the dimensions of a test: everything else as in the public size."""
    sizes = dict(layers=2, width=32, heads=2, head_width=16, ffn=48, vocab=96, bottleneck=8, window=6)
    return replace(family, shape=replace(family.shape, **(sizes | {"anchors": 2, "context": 16} | changes)))
