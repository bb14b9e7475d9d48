"""States of texts that were ingested before: a request that begins with one goes on from there."""

from collections import OrderedDict
from collections.abc import Sequence

from symlight.model.state import State


class PrefixCache:
    """States by the tokens that they have ingested, least recently used first out.

    Parameters
    ----------
    limit : int
        Bytes of all states together; a larger single state is not kept.
    """

    def __init__(self, limit: int):
        self._limit, self.used = limit, 0
        self._entries: OrderedDict[tuple[int, ...], State] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def keep(self, tokens: Sequence[int], state: State) -> None:
        """Keep `state`, which has ingested `tokens` and has none pending. The cache owns it from now on."""
        key, size = tuple(tokens), state.nbytes
        assert state.pending is None and state.position == len(key), (state.pending, state.position, len(key))
        if not key or size > self._limit:
            return
        if key in self._entries:
            self._entries.move_to_end(key)
            return
        self._entries[key] = state
        self.used += size
        while self.used > self._limit:
            _, old = self._entries.popitem(last=False)
            self.used -= old.nbytes

    def longest(self, tokens: Sequence[int]) -> tuple[int, State] | None:
        """(tokens ingested, a copy of the state) of the longest entry that `tokens` begins with and goes
        beyond; None without one."""
        wanted = tuple(tokens)
        fitting = [key for key in self._entries if len(key) < len(wanted) and wanted[: len(key)] == key]
        if not fitting:
            return None
        best = max(fitting, key=len)
        self._entries.move_to_end(best)
        return len(best), self._entries[best].copy()
