"""Saved sessions: an .npz image of a state, of how its tokens were chosen, and of the tokens themselves.

A file comes from outside, so nothing in it is believed: a record is read only if its header states what the
model requires, and no more bytes than that are read.
"""

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from symlight.base.errors import UserError, sentence
from symlight.base.files import write_whole

from .config import MAX_POSITION, ModelShape
from .sampling import SamplingOptions
from .state import ARRAYS, State

SCALARS = ("position", "pending")
SAMPLING, TOKENS = "sampling", "tokens"  # records that may be absent
HEADER_BYTES = 10_000  # of a record, as numpy bounds it
SAMPLING_BYTES = 4_096
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True, kw_only=True)
class SavedSession:
    """What a session file holds.

    Parameters
    ----------
    state : State
    sampling : SamplingOptions | None
        How the tokens were chosen; None where nobody said.
    tokens : list of int | None
        All tokens of the session, the pending one included; None where they are not known.
    """

    state: State
    sampling: SamplingOptions | None = None
    tokens: list[int] | None = None

    def to_bytes(self) -> bytes:
        """The .npz image, with the populated slots of the rings only."""
        state = self.state
        extra: dict[str, Any] = {}  # `savez` has an argument of another type among its arrays
        if self.sampling is not None:
            extra[SAMPLING] = np.frombuffer(json.dumps(self.sampling.to_json()).encode(), np.uint8)
        if self.tokens is not None:
            extra[TOKENS] = np.array(self.tokens, np.int32)
        extra = {name: np.ascontiguousarray(state.meaningful(name)) for name in ARRAYS} | extra
        written = io.BytesIO()
        np.savez(
            written,
            position=np.int64(state.position),
            pending=np.int64(-1 if state.pending is None else state.pending),
            **extra,
        )
        return written.getvalue()

    @classmethod
    def from_bytes(cls, shape: ModelShape, data: bytes, source: str = "session state") -> "SavedSession":
        """What `to_bytes` wrote; a `UserError` that names `source` where it is damaged or of another
        shape."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return _Reader(archive, shape, source).session()
        except UserError:
            raise
        except Exception as error:  # zipfile, zlib, numpy and json raise a dozen kinds on damaged data
            raise UserError(f"{source} is damaged and cannot be read ({error})") from error


def read_session(path: Path, shape: ModelShape) -> SavedSession:
    """The session in a file; every fault is a `UserError` that names the file."""
    limit = _most_bytes(shape)
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise UserError(f"cannot read the session state {path}: {error.strerror}") from error
    if len(data) > limit:
        raise UserError(
            f"{path} has more than {limit:,} bytes, which no session of this model has; it is not a session "
            "state, or it belongs to another model"
        )
    return SavedSession.from_bytes(shape, data, str(path))


def write_session(path: Path, session: SavedSession) -> None:
    """Write a session to a file in one step: an older file stays unless the new one is complete."""
    try:
        write_whole(path, session.to_bytes())
    except OSError as error:
        raise UserError(f"cannot write the session state to {sentence(error)}") from error


def _most_bytes(shape: ModelShape) -> int:
    """More than a session of this shape ever takes."""
    state = State.new(shape)
    records = len(ARRAYS) + len(SCALARS) + 2
    arrays = sum(getattr(state, name).nbytes for name in ARRAYS)
    return arrays + 4 * (MAX_POSITION + 1) + SAMPLING_BYTES + 2 * records * HEADER_BYTES


class _Reader:
    """The records of an archive, each against what the model requires."""

    def __init__(self, archive: zipfile.ZipFile, shape: ModelShape, source: str):
        self._archive, self._shape, self._source = archive, shape, source
        self._names = [info.filename.removesuffix(".npy") for info in archive.infolist()]

    def session(self) -> SavedSession:
        required = {*ARRAYS, *SCALARS}
        if not required <= set(self._names) <= required | {SAMPLING, TOKENS}:
            raise UserError(f"{self._source} holds {sorted(self._names)[:12]}, which is not a session state")
        if len(self._names) != len(set(self._names)):
            raise UserError(f"{self._source} is damaged: it holds a record twice")
        state = self._state()
        return SavedSession(state=state, sampling=self._sampling(), tokens=self._tokens(state))

    def _state(self) -> State:
        position, pending = (int(self._exactly(name, (), np.int64)) for name in SCALARS)
        if not 0 <= position <= MAX_POSITION:
            raise UserError(f"{self._source}: position {position} is outside 0..{MAX_POSITION}")
        if not -1 <= pending < self._shape.vocab:
            raise UserError(
                f"{self._source}: pending token {pending} is outside the vocabulary "
                f"0..{self._shape.vocab - 1}"
            )
        state = State.new(self._shape)
        state.position, state.pending = position, None if pending < 0 else pending
        for name in ARRAYS:
            target = state.meaningful(name)
            target[...] = self._exactly(name, target.shape, target.dtype)
        if min(state.ring_k.min(), state.ring_v.min()) < -127:
            raise UserError(f"{self._source}: a ring holds -128, which no event can be")
        return state

    def _sampling(self) -> SamplingOptions | None:
        if SAMPLING not in self._names:
            return None
        record = self._list(SAMPLING, np.uint8, SAMPLING_BYTES)
        try:
            values = json.loads(record.tobytes())
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{self._source} is damaged: its sampling options cannot be read ({error})"
            ) from error
        if not isinstance(values, dict):
            raise UserError(f"{self._source} is damaged: its sampling options are {values!r}")
        return SamplingOptions.from_json(values, self._source)

    def _tokens(self, state: State) -> list[int] | None:
        if TOKENS not in self._names:
            return None
        tokens = self._list(TOKENS, np.int32, MAX_POSITION + 1)
        count = state.position + (state.pending is not None)
        if len(tokens) != count:
            raise UserError(f"{self._source} is damaged: it holds {len(tokens)} tokens instead of {count}")
        if count and not 0 <= tokens.min() <= tokens.max() < self._shape.vocab:
            raise UserError(f"{self._source} is damaged: a token is outside the vocabulary")
        if state.pending is not None and tokens[-1] != state.pending:
            raise UserError(
                f"{self._source} is damaged: its newest token is {tokens[-1]}, {state.pending} is pending"
            )
        return tokens.tolist()

    def _exactly(self, name: str, shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
        return self._read(name, dtype, lambda found: found == shape, str(list(shape)))

    def _list(self, name: str, dtype: type, most: int) -> np.ndarray:
        return self._read(name, dtype, lambda found: len(found) == 1 and found[0] <= most, f"[0..{most}]")

    def _read(self, name: str, dtype, fits, wanted: str) -> np.ndarray:
        with self._archive.open(f"{name}.npy") as file:
            shape, by_columns, found = _HEADERS[np.lib.format.read_magic(file)](file)
            if not fits(shape) or found != dtype or by_columns:
                raise UserError(
                    f"{self._source}: {name} is {found} {list(shape)}, {np.dtype(dtype)} {wanted} is "
                    "required; it belongs to another model"
                )
            size = int(np.prod(shape, dtype=np.int64)) * found.itemsize
            content = file.read(size + 1)
        if len(content) != size:
            raise UserError(f"{self._source} is damaged: {name} does not have {size} bytes")
        return np.frombuffer(content, found).reshape(shape)
