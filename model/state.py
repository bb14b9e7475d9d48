"""The state of a session (docs/arithmetic.md section 7): everything a later run depends on."""

import io
import json
import zipfile
from dataclasses import dataclass

import numpy as np

from symlight.base.errors import UserError

from .config import MAX_POSITION, ModelShape
from .sampling import SamplingOptions

_SAMPLING = "sampling"  # JSON of the options that the session was saved with, as bytes; may be absent
_ARRAYS = ("membrane", "decay", "ring_k", "ring_v")


@dataclass(eq=False)
class State:
    """Membrane [D] int16, decay state [L, D] int16, rings [L, slots, D] int8, next position, pending token.

    Only the populated slots of the rings mean anything; a new session has none.
    """

    shape: ModelShape
    membrane: np.ndarray
    decay: np.ndarray
    ring_k: np.ndarray
    ring_v: np.ndarray
    position: int = 0
    pending: int | None = None

    @classmethod
    def new(cls, shape: ModelShape) -> "State":
        """A new session: all zero, position 0, no pending token."""
        ring = (shape.layers, shape.slots, shape.width)
        return cls(
            shape,
            np.zeros(shape.width, np.int16),
            np.zeros((shape.layers, shape.width), np.int16),
            np.zeros(ring, np.int8),
            np.zeros(ring, np.int8),
        )

    @property
    def populated(self) -> int:
        """Ring slots written so far; they are slots 0 .. populated - 1."""
        return min(self.position, self.shape.slots)

    def copy(self) -> "State":
        """An independent copy."""
        arrays = [getattr(self, name).copy() for name in _ARRAYS]
        return State(self.shape, *arrays, position=self.position, pending=self.pending)

    def _meaningful(self, name: str) -> np.ndarray:
        array = getattr(self, name)
        return array[:, : self.populated] if name.startswith("ring") else array

    def first_difference(self, other: "State") -> str | None:
        """None when equal, else one readable line about the first place that differs."""
        for name in ("shape", "position", "pending"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                return f"{name}: {ours} != {theirs}"
        for name in _ARRAYS:
            ours, theirs = self._meaningful(name), other._meaningful(name)
            different = np.argwhere(ours != theirs)
            if len(different):
                index = tuple(map(int, different[0]))
                place, count = f"{name}{list(index)}", len(different)
                return f"{place}: {ours[index]} != {theirs[index]} ({count} elements differ)"
        return None

    def __eq__(self, other) -> bool:
        return isinstance(other, State) and self.first_difference(other) is None

    def to_bytes(self, sampling: SamplingOptions | None = None) -> bytes:
        """An .npz image with the populated slots only, and how the session's tokens were chosen if given."""
        buffer = io.BytesIO()
        extra = {}
        if sampling is not None:
            extra[_SAMPLING] = np.frombuffer(json.dumps(sampling.to_json()).encode(), np.uint8)
        pending = -1 if self.pending is None else self.pending
        np.savez(
            buffer,
            position=np.int64(self.position),
            pending=np.int64(pending),
            **{name: self._meaningful(name) for name in _ARRAYS},
            **extra,
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, shape: ModelShape, data: bytes, source: str = "session state") -> "State":
        """The state that `to_bytes` wrote; a `UserError` naming `source` when it does not fit `shape`."""
        values = _read(data, source)
        values.pop(_SAMPLING, None)
        if set(values) != {*_ARRAYS, "position", "pending"}:
            raise UserError(f"{source} holds {sorted(values)}, which is not a session state")
        position, pending = (cls._scalar(values.pop(name), name, source) for name in ("position", "pending"))
        if not 0 <= position <= MAX_POSITION:
            raise UserError(f"{source}: position {position} is outside 0..{MAX_POSITION}")
        if not -1 <= pending < shape.vocab:
            raise UserError(
                f"{source}: pending token {pending} is outside the vocabulary 0..{shape.vocab - 1}"
            )
        state = cls.new(shape)
        state.position, state.pending = position, None if pending < 0 else pending
        for name in _ARRAYS:
            target, value = state._meaningful(name), values[name]
            if value.shape != target.shape or value.dtype != target.dtype:
                raise UserError(
                    f"{source}: {name} is {value.dtype} {list(value.shape)}, "
                    f"{target.dtype} {list(target.shape)} is required; it belongs to another model"
                )
            target[...] = value
        if min(state.ring_k.min(), state.ring_v.min()) < -127:
            raise UserError(f"{source}: a ring holds -128, which no event can be")
        return state

    @staticmethod
    def _scalar(value: np.ndarray, name: str, source: str) -> int:
        if value.shape != () or value.dtype != np.int64:
            raise UserError(f"{source}: {name} is {value.dtype} {list(value.shape)}, a number is required")
        return int(value)


def _read(data: bytes, source: str) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as image:
            return {name: image[name] for name in image.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{source} is damaged and cannot be read ({error})") from error


def saved_sampling(data: bytes, source: str = "session state") -> SamplingOptions | None:
    """How the tokens of a saved session were chosen; None when the state does not say."""
    record = _read(data, source).get(_SAMPLING)
    if record is None:
        return None
    try:
        values = json.loads(record.tobytes())
    except (ValueError, AttributeError) as error:
        raise UserError(f"{source} is damaged: its sampling options cannot be read ({error})") from error
    if not isinstance(values, dict):
        raise UserError(f"{source} is damaged: its sampling options are {values!r}")
    return SamplingOptions.from_json(values, source)
