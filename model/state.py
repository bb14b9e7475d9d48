"""The state of a session (docs/arithmetic.md section 7): everything a later run depends on."""

from dataclasses import dataclass

import numpy as np

from .config import ModelShape

ARRAYS = ("membrane", "decay", "ring_k", "ring_v")


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
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(getattr(self, name).nbytes for name in ARRAYS)

    @property
    def populated(self) -> int:
        """Ring slots written so far; they are slots 0 .. populated - 1."""
        return min(self.position, self.shape.slots)

    def copy(self) -> "State":
        """An independent copy of what the state holds: little work and memory where the text is short."""
        made = State.new(self.shape)  # pages of zeros that nobody writes take neither
        made.position, made.pending = self.position, self.pending
        for name in ARRAYS:
            made.meaningful(name)[:] = self.meaningful(name)
        return made

    def meaningful(self, name: str) -> np.ndarray:
        """A view of what an array of `ARRAYS` holds: of a ring, the populated slots."""
        array = getattr(self, name)
        return array[:, : self.populated] if name.startswith("ring") else array

    def first_difference(self, other: "State") -> str | None:
        """None when equal, else one readable line about the first place that differs."""
        for name in ("shape", "position", "pending"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                return f"{name}: {ours} != {theirs}"
        for name in ARRAYS:
            ours, theirs = self.meaningful(name), other.meaningful(name)
            different = np.argwhere(ours != theirs)
            if len(different):
                index = tuple(map(int, different[0]))
                place, count = f"{name}{list(index)}", len(different)
                return f"{place}: {ours[index]} != {theirs[index]} ({count} elements differ)"
        return None

    def __eq__(self, other) -> bool:
        return isinstance(other, State) and self.first_difference(other) is None
