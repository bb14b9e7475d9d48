"""Drafts of the text to come, out of the text so far: a chunk verifies them, so they never change a token."""

from collections.abc import Iterable

LONGEST, SHORTEST = 4, 2  # tokens at the end of the text that must have occurred before
MOST = 15  # drafted tokens: a pass over 16 tokens still costs little more than the weights that it reads
START = 4


class NgramDrafts:
    """Proposes what followed the newest tokens when they occurred last.

    Draft lengths follow success: they double while all of a draft is accepted, and shrink to what was.

    Attributes
    ----------
    proposed, accepted : int
        Tokens drafted so far, and those of them that the model chose, too.
    """

    def __init__(self):
        self.proposed = self.accepted = 0
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}  # n-gram -> where its last occurrence ends
        self._length = START

    def append(self, tokens: Iterable[int]) -> None:
        """The text goes on with these tokens."""
        for token in tokens:
            self._note()
            self._tokens.append(token)

    def replace_newest(self, token: int) -> None:
        """The newest token was another one."""
        if self._tokens:
            self._tokens[-1] = token

    def _note(self) -> None:
        """Remember where the n-grams at the end of the text are, before it grows."""
        end = len(self._tokens)
        for size in range(SHORTEST, LONGEST + 1):
            if end >= size:
                self._ends[tuple(self._tokens[-size:])] = end

    def propose(self, most: int) -> list[int]:
        """A draft of up to `most` tokens; empty when the newest tokens are new."""
        for size in range(LONGEST, SHORTEST - 1, -1):
            end = self._ends.get(tuple(self._tokens[-size:])) if len(self._tokens) >= size else None
            if end is not None:
                return self._continued(end, min(most, self._length))
        return []

    def _continued(self, end: int, count: int) -> list[int]:
        """`count` tokens from `end` on; behind the text comes the draft itself, so that a refrain goes on."""
        draft: list[int] = []
        for index in range(end, end + count):
            known = index < len(self._tokens)
            draft.append(self._tokens[index] if known else draft[index - len(self._tokens)])
        return draft

    def judge(self, proposed: int, accepted: int) -> None:
        """How a draft fared."""
        if not proposed:
            return
        self.proposed += proposed
        self.accepted += accepted
        self._length = min(2 * proposed, MOST) if accepted == proposed else max(1, accepted + 1)
