"""States of texts that were ingested before: a request that begins with one goes on from there."""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symlight.model.state import State

_TOKEN = np.dtype("<i4")
_HASH_BYTES = 20  # nobody finds two texts with one hash, so a hash stands for its text


@dataclass
class _Entry:
    state: State
    length: int  # tokens


class PrefixCache:
    """States by the tokens that they have ingested, least recently used first out.

    An entry is found by a hash of its tokens. A look-up hashes the wanted text once, from its beginning, and
    stops at every length of which there is an entry. It compares no texts.

    Parameters
    ----------
    limit : int
        Bytes of all states together. All states have one size; if a single one is larger, none is kept.
    """

    def __init__(self, limit: int):
        self._limit, self.used = limit, 0
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._lengths: Counter[int] = Counter()
        self._useless = limit <= 0

    def __len__(self) -> int:
        return len(self._entries)

    def wants(self, tokens: Sequence[int]) -> bool:
        """Whether a state that has ingested `tokens` would be kept; one that is here counts as used."""
        if self._useless or not tokens:
            return False
        key = _hash(tokens)
        if key in self._entries:
            self._entries.move_to_end(key)
            return False
        return True

    def keep(self, tokens: Sequence[int], state: State) -> None:
        """Keep `state`, which has ingested `tokens` and has none pending. The cache owns it from now on."""
        count, size = len(tokens), state.nbytes
        assert state.pending is None and state.position == count, (state.pending, state.position, count)
        self._useless = self._useless or size > self._limit
        if not self.wants(tokens):
            return
        self._entries[_hash(tokens)] = _Entry(state, count)
        self._lengths[count] += 1
        self.used += size
        while self.used > self._limit:
            _, old = self._entries.popitem(last=False)
            self.used -= old.state.nbytes
            self._lengths[old.length] -= 1
            if not self._lengths[old.length]:
                del self._lengths[old.length]

    def longest(self, tokens: Sequence[int]) -> tuple[int, State] | None:
        """(tokens ingested, a copy of the state) of the longest entry that `tokens` begins with and goes
        beyond; None without one."""
        lengths = sorted(length for length in self._lengths if length < len(tokens))
        if not lengths:
            return None
        content, running, done, best = np.array(tokens, _TOKEN), _new_hash(), 0, None
        for length in lengths:
            running.update(content[done:length].data)
            done = length
            if (key := running.digest()) in self._entries:
                best = key
        if best is None:
            return None
        self._entries.move_to_end(best)
        entry = self._entries[best]
        return entry.length, entry.state.copy()


def _new_hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_HASH_BYTES)


def _hash(tokens: Sequence[int]) -> bytes:
    running = _new_hash()
    running.update(np.array(tokens, _TOKEN).data)
    return running.digest()
