"""What event-driven hardware gains from sparse activations, by the analytic model of "Event-driven LM
sparsity" (equations 4 to 12).

A zero activation saves a row of multiply-accumulates and a packet between chips. In generation the layers
work one after the other, so the mean over the blocks counts; in pipelined prefill the slowest chip does.
This is a projection from a platform's dense measurements, not a measurement.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from symlight.base.errors import UserError
from symlight.base.json_file import read_object

from .config import ModelShape


@dataclass(frozen=True, kw_only=True)
class Platform:
    """Dense measurements of a platform.

    Parameters
    ----------
    name, source : str
    generate_rate, prefill_rate : float
        Dense tokens per second.
    generate_energy, prefill_energy : float
        Dense millijoules per token.
    communication : float
        Share of the dense time that goes into packets between chips, 0 .. 1 (equation 8: 0.2).
    layers_per_chip : int
        Consecutive blocks on one chip.
    """

    name: str
    source: str
    generate_rate: float
    prefill_rate: float
    generate_energy: float
    prefill_energy: float
    communication: float = 0.2
    layers_per_chip: int = 1

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in ("float", float) and not (isinstance(value, (int, float)) and value >= 0):
                raise UserError(f"platform {self.name}: {field.name} is {value!r}; a number >= 0 is required")
        if not 0 <= self.communication <= 1:
            raise UserError(f"platform {self.name}: communication is {self.communication}; it is in 0..1")
        if not isinstance(self.layers_per_chip, int) or self.layers_per_chip < 1:
            raise UserError(f"platform {self.name}: layers_per_chip is {self.layers_per_chip!r}; at least 1")

    @classmethod
    def from_json(cls, data: dict, source: str) -> "Platform":
        known = {field.name for field in fields(cls)}
        if not isinstance(data, dict) or set(data) - known:
            raise UserError(f"{source}: a platform has the fields {', '.join(sorted(known))}")
        try:
            return cls(**data)
        except TypeError as error:
            raise UserError(f"{source}: {error}") from error


LOIHI2 = Platform(
    name="loihi2",
    source="370M dense MMFreeLM on 24 chips, table I of the paper",
    generate_rate=41.5,
    prefill_rate=6632.0,
    generate_energy=405.0,
    prefill_energy=3.7,
)
PLATFORMS = {LOIHI2.name: LOIHI2}


def read_platform(name: str) -> Platform:
    """A platform by name, or from a JSON file of its fields."""
    if name in PLATFORMS:
        return PLATFORMS[name]
    try:
        data = read_object(Path(name), f"give {', '.join(PLATFORMS)}, or a JSON file of a platform")
    except OSError as error:
        raise UserError(
            f"the platform {name!r} is neither {', '.join(PLATFORMS)} nor a JSON file ({error})"
        ) from error
    return Platform.from_json(data, name)


@dataclass(frozen=True)
class Projection:
    """A matrix: its input and output width, and the share of nonzero inputs."""

    inputs: int
    outputs: int
    density: float

    @property
    def macs(self) -> int:
        return self.inputs * self.outputs


def mac_density(projections: Sequence[Projection]) -> float:
    """Executed over dense multiply-accumulates, r of equation 7."""
    return sum(p.density * p.macs for p in projections) / sum(p.macs for p in projections)


def communication_speedup(density: float, share: float = LOIHI2.communication) -> float:
    """Equation 8: what is gained between chips when a share `density` of the packets is sent."""
    return 1 / (1 - share + share * density)


@dataclass(frozen=True)
class Gain:
    """A projected mode of a platform. `density`, `packets`: r and rho_com that count in this mode."""

    density: float
    packets: float
    speedup: float
    rate: float
    energy: float

    def to_json(self) -> dict:
        return asdict(self)


def gain(rate: float, energy: float, density: float, packets: float, share: float) -> Gain:
    """Equations 10 to 12, and energy at constant power."""
    if not 0 < density <= 1 or not 0 <= packets <= 1:
        raise UserError(f"densities are {density} and {packets}; they are in 0..1, and the first above 0")
    speedup = communication_speedup(packets, share) / density
    return Gain(density, packets, speedup, rate * speedup, energy / speedup)


def generate_gain(platform: Platform, density: Sequence[float], packets: Sequence[float]) -> Gain:
    """Fall-through mode (equation 12): means over the blocks."""
    return gain(
        platform.generate_rate,
        platform.generate_energy,
        float(np.mean(density)),
        float(np.mean(packets)),
        platform.communication,
    )


def prefill_gain(platform: Platform, density: Sequence[float], packets: Sequence[float]) -> Gain:
    """Pipelined mode (equation 11): the slowest chip, with the packets that enter it."""
    count = platform.layers_per_chip
    chips = [range(first, min(first + count, len(density))) for first in range(0, len(density), count)]
    work = [sum(density[block] for block in chip) for chip in chips]
    slowest = int(np.argmax(work))
    return gain(
        platform.prefill_rate,
        platform.prefill_energy,
        work[slowest] / max(map(len, chips)),
        float(packets[chips[slowest][0]]),
        platform.communication,
    )


def block_projections(shape: ModelShape, densities: Sequence[float], out: float = 1.0) -> list[Projection]:
    """Matrices of a SymbolicLight V2 block; `densities` by SITES (qkv, decay, up, down).

    W_O is dense, unless its input is an event site, of density `out`.
    """
    qkv, decay, up, down = map(float, densities)
    return [
        Projection(shape.width, 3 * shape.width, qkv),
        Projection(shape.width, shape.width, decay),
        Projection(shape.width, shape.width, out),
        Projection(shape.width, shape.ffn, up),
        Projection(shape.ffn, shape.width, down),
    ]


def head_projections(shape: ModelShape, head: tuple[float, float] = (1.0, 1.0)) -> list[Projection]:
    """Matrices of the decoding head: dense, unless its input is an event site; `head`: densities of a, g."""
    a, g = head
    return [
        Projection(shape.width, shape.bottleneck, a),
        Projection(shape.width, shape.vocab, a),
        Projection(shape.bottleneck, shape.vocab, g),
    ]
