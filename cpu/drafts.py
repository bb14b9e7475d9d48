"""Drafts of the text to come, out of the text so far: a chunk verifies them, so they never change a token.

What followed the newest tokens when they occurred before is a guess, whether it is drafted or not. The more
tokens agree, the better the guess; how good it is is learnt from the text itself, where every token that
comes shows whether the guess was right. A draft goes on while all of it is likely enough to be accepted.
"""

from collections.abc import Iterable, Sequence

SHORTEST, LONGEST = 2, 8  # tokens at the end of the text that must agree; more than LONGEST count as LONGEST
MOST = 15  # drafted tokens
PLACES = 4  # earlier ones of the same two tokens that are remembered
LIKELY = 0.45  # that a draft is accepted as a whole: about the time of a token in a pass over that of a pass
FIRST_GUESS = {2: 0.5, 3: 0.6, 4: 0.7, 5: 0.7, 6: 0.75, 7: 0.75, 8: 0.8}  # chances by tokens that agree
WEIGHT, MEMORY = 4.0, 24.0  # of the first guess, and of all that was learnt, in tokens


class NgramDrafts:
    """Proposes what followed the newest tokens when they occurred before."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._places: dict[tuple[int, int], list[int]] = {}  # pair of tokens -> lengths of the text behind it
        self._next = self._agree = 0  # the guess is _tokens[_next], of so many tokens that agree; 0: none
        self._seen = dict.fromkeys(FIRST_GUESS, WEIGHT)
        self._right = {agree: chance * WEIGHT for agree, chance in FIRST_GUESS.items()}

    def append(self, tokens: Iterable[int]) -> None:
        """The text goes on with these tokens."""
        text = self._tokens
        for token in tokens:
            if self._agree:
                right = text[self._next] == token
                self._learn(right)
                self._next, self._agree = (self._next + 1, self._agree + 1) if right else (0, 0)
            text.append(token)
            if len(text) >= SHORTEST:
                self._remember(text)

    def replace_newest(self, token: int) -> None:
        """The newest token was another one."""
        text = self._tokens
        if text:
            if len(text) >= SHORTEST:
                self._places[text[-2], text[-1]].pop()
            text[-1] = token
            self._next = self._agree = 0
            if len(text) >= SHORTEST:
                self._remember(text)

    def _remember(self, text: list[int]) -> None:
        """Look for a better guess, and note where the newest pair of tokens is."""
        places = self._places.setdefault((text[-2], text[-1]), [])
        if self._agree < LONGEST:
            for place in reversed(places):
                agree = SHORTEST
                while agree < min(LONGEST, place) and text[place - 1 - agree] == text[-1 - agree]:
                    agree += 1
                if agree > self._agree:
                    self._next, self._agree = place, agree
        places.append(len(text))
        if len(places) > PLACES:
            del places[0]

    def _learn(self, right: bool) -> None:
        agree = min(self._agree, LONGEST)
        self._seen[agree] += 1
        self._right[agree] += right
        if self._seen[agree] > MEMORY:  # older tokens fade
            self._seen[agree] /= 2
            self._right[agree] /= 2

    def propose(self, most: int) -> list[int]:
        """A draft of up to `most` tokens; empty where the newest tokens are new, or drafts fare badly."""
        draft: list[int] = []
        if not self._agree:
            return draft
        text, whole = self._tokens, 1.0
        for index in range(min(most, MOST)):
            agree = min(self._agree + index, LONGEST)
            whole *= self._right[agree] / self._seen[agree]
            if whole < LIKELY:
                break
            place = self._next + index  # behind the text comes the draft itself, so that a refrain goes on
            draft.append(text[place] if place < len(text) else draft[place - len(text)])
        return draft


class KnownDrafts:
    """Proposes tokens that somebody else has chosen already, until the model chooses another one."""

    def __init__(self, tokens: Sequence[int], most: int):
        self._tokens, self._most, self._at = list(tokens), most, 0

    def append(self, tokens: Iterable[int]) -> None:
        """The model chose these tokens."""
        for token in tokens:
            if self._at < len(self._tokens) and self._tokens[self._at] == token:
                self._at += 1
            else:
                self._tokens, self._at = [], 0

    def propose(self, most: int) -> list[int]:
        """The next of them, up to `most`."""
        return self._tokens[self._at : self._at + min(most, self._most)]
