"""Many sessions that advance by several tokens in one call, and choose these tokens on the way.

slices = [SessionSlice(session, sampler=None, end=eos), ..]
slices[0].due(prompt, most=1); slices[1].due([token], most=8)
work = advance(engine, slices, seconds=0.001)
slices[1].chosen()        # 1 to 8 tokens
"""

import ctypes
from collections.abc import Sequence
from ctypes import c_int32, c_void_p

import numpy as np

from symlight.base.errors import UserError
from symlight.model.config import MAX_POSITION
from symlight.model.reference import SITES

from . import abi
from .engine import CHUNK, Engine, Session
from .sampler import Sampler

MOST = 32  # tokens of a session that a call chooses


class SessionSlice:
    """A session's part in calls of `advance`.

    Parameters
    ----------
    session : Session
        Its state is advanced in place.
    sampler : Sampler | None
        Of the tokens; None takes the largest logit.
    end : int | None
        A token after which none is chosen.
    """

    def __init__(self, session: Session, sampler: Sampler | None = None, end: int | None = None):
        self._session, self._sampler = session, sampler
        self._tokens, self._chosen = (c_int32 * CHUNK)(), (c_int32 * MOST)()
        self._record = abi.Slice(
            *session.pointers,
            tokens=ctypes.addressof(self._tokens),
            chosen=ctypes.addressof(self._chosen),
            sampler=None if sampler is None else sampler.address,
            end=-1 if end is None else end,
        )
        self.address = ctypes.addressof(self._record)

    def due(self, tokens: Sequence[int], most: int) -> int:
        """What the next call does: 1 to CHUNK known `tokens`, then up to `most` <= MOST that are chosen.

        0 in `most` evaluates no head. Gives the number of tokens.
        """
        count, position = len(tokens), self._session.state.position
        if position + count > MAX_POSITION:
            raise UserError(
                f"the session is full: {position} of {MAX_POSITION} positions are used; start a new session"
            )
        self._tokens[:count] = list(tokens)
        record = self._record
        record.position, record.due, record.made = position, count, 0
        record.most = min(most, MOST, MAX_POSITION - position - count + 1)
        return count

    def chosen(self) -> list[int]:
        """The tokens that the last call chose; the newest of them is not in the session yet."""
        tokens: list[int] = self._chosen[: self._record.made]
        return tokens

    def finish(self) -> None:
        """The call is over."""
        self._session.state.position = self._record.position


class Work:
    """What a call of `advance` did: nonzero inputs [L, 4], passes of a token, evaluations of the head."""

    def __init__(self, layers: int):
        self.active = np.zeros((layers, len(SITES)), np.int64)
        self._sums = abi.Sums(active=self.active.ctypes.data)
        self.address = ctypes.addressof(self._sums)

    @property
    def passes(self) -> int:
        count: int = self._sums.passes
        return count

    @property
    def heads(self) -> int:
        count: int = self._sums.heads
        return count


def advance(engine: Engine, slices: Sequence[SessionSlice], seconds: float) -> Work:
    """Passes over all `slices` at once, until each has its tokens, or until `seconds` are over; at least one.

    The tokens due are CHUNK at most, those of all slices together. A session takes part once. The tokens are
    those of the vocabulary.
    """
    addresses = (c_void_p * len(slices))(*[one.address for one in slices])
    work = Work(engine.shape.layers)
    if engine.run_slices(addresses, int(seconds * 1e9), work.address):
        raise UserError("out of memory in a pass; serve fewer requests at a time")
    for one in slices:
        one.finish()
    return work
