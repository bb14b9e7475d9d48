"""What a soak does: random conversations, each a function of the seed and its number alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

MOST_TOKENS = 24  # of a turn, prompt and new ones together
MOST_TURNS = 23  # of a conversation; 12 in the mean
_SEEDS = 1 << 64


class Before(Enum):
    """What happens to the session before a turn, and how many turns of a hundred it precedes."""

    NOTHING = 70
    SAVE = 12  # keep the session state
    LOAD = 9  # go back to the newest kept state
    RELOAD = 9  # save, reset, load: the session must go on as if nothing had happened


@dataclass(frozen=True)
class PlannedTurn:
    """One turn.

    Members
    -------
    before : Before
    prompt : list of int
        Token ids, 0 .. MOST_TOKENS of them.
    n_new : int
        Tokens to generate; with the prompt at most MOST_TOKENS.
    single : bool
        Token by token: every prompt token and every new token is a run. Otherwise one run.
    eos : float | None
        Which of the conversation's tokens ends the turn, as a share of those generated so far; None: none.
    """

    before: Before
    prompt: list[int]
    n_new: int
    single: bool
    eos: float | None


def conversation(seed: int, number: int, vocab: int) -> Iterator[PlannedTurn]:
    """The turns of conversation `number`, over tokens 0 .. `vocab` - 1.

    The first turn has a prompt and nothing before it; a later one may be empty.
    """
    rng = np.random.default_rng([seed % _SEEDS, number])
    actions = list(Before)
    shares = np.array([action.value for action in actions]) / sum(action.value for action in actions)
    for index in range(int(rng.integers(1, MOST_TURNS + 1))):
        first = index == 0
        tokens = int(rng.integers(first, MOST_TOKENS + 1))
        n_prompt = int(rng.integers(first, tokens + 1))
        drawn = actions[int(rng.choice(len(actions), p=shares))]
        yield PlannedTurn(
            before=Before.NOTHING if first else drawn,
            prompt=rng.integers(0, vocab, n_prompt).tolist(),
            n_new=tokens - n_prompt,
            single=bool(rng.integers(2)),
            eos=float(rng.random()) if rng.random() < 0.25 else None,
        )
