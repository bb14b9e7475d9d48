"""The integer tensors of a model by their places; `model.tensors` is the table that names them.

Field names of the dataclasses below follow the last parts of the tensor names.
"""

from dataclasses import dataclass, field

import numpy as np

from symlight.base.errors import UserError

from .config import OPTIONAL_SITES, ModelShape, Numerics
from .tensors import BLOCK_TENSORS, HEAD_TENSORS, TensorSpec, sites_of, tensor_names


@dataclass(frozen=True, eq=False)
class Projection:
    """A matrix [out, in] whose accumulators are requantised: multiplier and shift a channel."""

    weight: np.ndarray
    multiplier: np.ndarray
    shift: np.ndarray


@dataclass(frozen=True, eq=False)
class EventProjection:
    """A matrix [out, in] whose accumulators become events: threshold, multiplier and shift a channel."""

    weight: np.ndarray
    threshold: np.ndarray
    multiplier: np.ndarray
    shift: np.ndarray


@dataclass(frozen=True, eq=False)
class SpikeProjection:
    """A matrix [out, in] whose accumulators become spikes: 1 where acc >= threshold."""

    weight: np.ndarray
    threshold: np.ndarray


@dataclass(frozen=True, eq=False)
class Norm:
    """Layer normalisation; scalars = (gamma_shift, epsilon)."""

    gamma: np.ndarray
    beta: np.ndarray
    scalars: np.ndarray


def _no_site() -> np.ndarray:
    """The threshold of an input that is no event site."""
    return np.zeros(1, np.int32)


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """One block; events are (T, M, sh), mix is (G_o, G_h, sh_m).

    `out_event` is (T_m,): 0 where the input of W_O is no event site.
    """

    attention_event: np.ndarray
    q: EventProjection
    k: EventProjection
    v: EventProjection
    decay: Projection
    decay_beta: np.ndarray
    mix: np.ndarray
    out: Projection
    attention_norm: Norm
    ffn_event: np.ndarray
    up: SpikeProjection
    down: Projection
    ffn_norm: Norm
    spike_threshold: np.ndarray
    out_event: np.ndarray = field(default_factory=_no_site)

    @property
    def out_threshold(self) -> int:
        """T_m, 0 where the input of W_O is no event site."""
        return int(self.out_event[0])


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """Decoding head; input = (M_h, sh_h), fused = [W_out, 0.1 W_p2] with one scale a vocabulary row.

    `event` is (T_h,): 0 where the head's input is no event site.
    """

    input: np.ndarray
    prior: Projection
    gelu_table: np.ndarray
    fused_weight: np.ndarray
    fused_scale: np.ndarray
    event: np.ndarray = field(default_factory=_no_site)

    @property
    def threshold(self) -> int:
        """T_h, 0 where the head's input is no event site."""
        return int(self.event[0])


_PARTS = {
    "q": EventProjection,
    "k": EventProjection,
    "v": EventProjection,
    "decay": Projection,
    "out": Projection,
    "up": SpikeProjection,
    "down": Projection,
    "attention_norm": Norm,
    "ffn_norm": Norm,
    "prior": Projection,
}


def _build(cls, specs: list[TensorSpec], tensors: dict[str, np.ndarray], layer: int | None = None):
    """A dataclass of the table's rows, nested parts included."""
    fields: dict = {}
    for spec in specs:
        name = spec.name if layer is None else spec.name.replace(".N.", f".{layer}.")
        if spec.site is not None and name not in tensors:
            continue  # the default says that there is no such site
        value = tensors[name]
        part, _, leaf = spec.place.partition(".")
        if leaf:
            fields.setdefault(part, {})[leaf] = value
        else:
            fields[part] = value
    return cls(
        **{
            name: _PARTS[name](**value) if isinstance(value, dict) else value
            for name, value in fields.items()
        }
    )


def _lookup(owner, place: str) -> np.ndarray:
    for part in place.split("."):
        owner = getattr(owner, part)
    return owner


@dataclass(frozen=True, eq=False)
class IntegerModel:
    """All tensors of a model, checked against the table when built."""

    shape: ModelShape
    numerics: Numerics
    embedding_table: np.ndarray
    slopes: np.ndarray
    blocks: tuple[BlockWeights, ...]
    head: HeadWeights

    @classmethod
    def from_tensors(
        cls, shape: ModelShape, numerics: Numerics, tensors: dict[str, np.ndarray]
    ) -> "IntegerModel":
        """Build from named tensors; a missing, unknown or ill-formed one is a `UserError`."""
        expected = dict(tensor_names(shape, sites_of(tensors)))
        missing = [name for name in expected if name not in tensors]
        unknown = sorted(set(tensors) - set(expected))
        if missing:
            raise UserError(f"tensor {missing[0]} is missing ({len(missing)} missing in all)")
        if unknown:
            raise UserError(f"tensor {unknown[0]} is unknown ({len(unknown)} unknown in all)")
        for name, spec in expected.items():
            spec.check(name, tensors[name], shape)
        return cls(
            shape=shape,
            numerics=numerics,
            embedding_table=tensors["spike_encoder.embedding_table"],
            slopes=tensors["attention.slopes"],
            blocks=tuple(
                _build(BlockWeights, BLOCK_TENSORS, tensors, layer) for layer in range(shape.layers)
            ),
            head=_build(HeadWeights, HEAD_TENSORS, tensors),
        )

    @property
    def event_sites(self) -> tuple[str, ...]:
        """Those of OPTIONAL_SITES that this model has; `out` when any layer has it."""
        out = any(block.out_threshold for block in self.blocks)
        return tuple(
            site for site, has in zip(OPTIONAL_SITES, (out, self.head.threshold), strict=True) if has
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """Every tensor by name, in table order; the arrays themselves, not copies."""
        result = {}
        for name, spec in tensor_names(self.shape, self.event_sites):
            owner = self
            if spec in BLOCK_TENSORS:
                owner = self.blocks[int(name.split(".")[1])]
            elif spec in HEAD_TENSORS:
                owner = self.head
            result[name] = _lookup(owner, spec.place)
        return result
