"""What is computed: the shape of a model and the constants of its number formats.

Everything that hardware, simulator, host and package need to know about a model derives from `ModelShape` and
`Numerics`. JSON out, JSON in (`config.json` of a package); presets by name in `PRESETS`.
"""

from dataclasses import asdict, dataclass, fields, replace

from symlight.base.errors import UserError

RESIDUAL_FRAC = 11  # fraction bits of the residual stream, the embedding table and the membrane (Q4.11)
PRE_FRAC = 12  # fraction bits of a pre-LayerNorm sum
PRE_BITS = 18  # its saturated width
STATE_FRAC = 12  # fraction bits of the decay state (Q3.12)
OUTPUT_FRAC = 6  # fraction bits of the attention output
NORM_FRAC = 17  # fraction bits of a normalised element
SCORE_LIMIT = 32767  # upper bound of an attention weight
MULTIPLIER_BITS = 15  # requantisation multipliers are in [0, 2^15 - 1]
MAX_SHIFT = 47  # requantisation shifts are in [1, 47]
MAX_POSITION = 1 << 20  # positions of a session
# Event sites that a package may have beside those of the paper: the inputs of W_O, and of the head.
OPTIONAL_SITES = ("out", "head")


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Dimensions of a SymbolicLight V2 model (paper section 2.4; counts, no units)."""

    layers: int  # blocks
    width: int  # elements of the residual stream
    heads: int  # attention heads
    head_width: int  # elements of a head; heads * head_width == width
    ffn: int  # feed-forward neurons
    vocab: int  # vocabulary rows of the head
    bottleneck: int  # hidden neurons of the context-conditioned prior
    anchors: int = 4  # first positions that stay visible for ever
    window: int = 475  # lookback distance of local attention

    def __post_init__(self):
        limits = {
            "layers": (1, 64),
            "width": (1, 2048),
            "heads": (1, 64),
            "head_width": (1, 256),
            "ffn": (1, 4096),
            "vocab": (2, 65536),
            "bottleneck": (1, 1024),
            "anchors": (0, 64),
            "window": (1, 508),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise UserError(f"model shape: {name} = {value!r} is outside {low}..{high}")
        if self.heads * self.head_width != self.width:
            raise UserError(
                f"model shape: heads * head_width = {self.heads} * {self.head_width} "
                f"is not the width {self.width}"
            )
        if self.slots > 512:
            raise UserError(f"model shape: {self.slots} ring slots are more than 512")
        if self.width + self.bottleneck > 4096:
            raise UserError(
                f"model shape: width + bottleneck = {self.width + self.bottleneck} is more than 4096"
            )

    @property
    def slots(self) -> int:
        """Slots of the KV ring: anchors, the lookback window and the current token."""
        return self.anchors + self.window + 1

    @property
    def head_rows(self) -> int:
        """Input rows of the fused decoding head: residual width and bottleneck."""
        return self.width + self.bottleneck

    def slot(self, position: int) -> int:
        """Ring slot of `position` (architecture: anchors never move, the window wraps)."""
        if position < self.anchors:
            return position
        return self.anchors + (position - self.anchors) % (self.window + 1)

    def populated(self, position: int) -> int:
        """Populated slots once `position` has been written; they are slots 0 .. populated - 1."""
        return min(position + 1, self.slots)

    def to_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "ModelShape":
        known = {f.name for f in fields(cls)}
        unknown, missing = set(data) - known, known - set(data)
        if unknown or missing:
            raise UserError(
                f"model shape: unknown fields {sorted(unknown)}, missing fields {sorted(missing)}"
            )
        return cls(**data)


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """Constants of the integer arithmetic that a package may choose (docs/arithmetic.md)."""

    score_frac: int = 6  # fraction bits of an attention score, 0..6
    lif_leak: int = 31130  # Q0.15 membrane leak (0.95)
    lif_threshold: int = 2048  # Q4.11 spike threshold of the input encoder (1.0)
    lif_clamp: int = 6144  # Q4.11 membrane bound (3.0)

    def __post_init__(self):
        limits = {
            "score_frac": (0, 6),
            "lif_leak": (0, 32767),
            "lif_threshold": (1, 32767),
            "lif_clamp": (1, 32767),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise UserError(f"numerics: {name} = {value!r} is outside {low}..{high}")

    def to_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Numerics":
        known = {f.name for f in fields(cls)}
        if set(data) != known:
            raise UserError(f"numerics: fields {sorted(data)} are not {sorted(known)}")
        return cls(**data)


_FULL = ModelShape(layers=12, width=768, heads=12, head_width=64, ffn=4096, vocab=48000, bottleneck=192)
_DEMO = ModelShape(layers=4, width=128, heads=4, head_width=32, ffn=512, vocab=1024, bottleneck=48, window=59)

PRESETS = {
    "194m": _FULL,
    "demo": _DEMO,
    # A quarter of the layers and a third of the width of 194m: guards the cycle budget within the test suite.
    "mid": replace(_FULL, layers=3, width=256, heads=4, ffn=1024, vocab=4096, bottleneck=64, window=123),
    "tiny": ModelShape(
        layers=2, width=64, heads=2, head_width=32, ffn=96, vocab=160, bottleneck=16, window=11
    ),
    # Nothing is a multiple of a beat, heads are narrower than a beat, the ring has 8 slots.
    "odd": ModelShape(
        layers=1, width=60, heads=5, head_width=12, ffn=77, vocab=131, bottleneck=9, anchors=2, window=5
    ),
    # Heads wider than a beat, one layer, no anchors.
    "wide": ModelShape(
        layers=2, width=144, heads=3, head_width=48, ffn=130, vocab=97, bottleneck=20, anchors=0, window=7
    ),
}


def preset(name: str) -> ModelShape:
    """The shape called `name`; a `UserError` lists the known ones."""
    if name not in PRESETS:
        raise UserError(f"no model preset is called {name!r}; known: {', '.join(PRESETS)}")
    return PRESETS[name]
