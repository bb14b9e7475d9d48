"""The CPU engine as a machine: `--device cpu`, or `cpu:THREADS`."""

from collections.abc import Sequence

import numpy as np

from symlight.base.optional import present
from symlight.cpu.drafts import MOST, KnownDrafts, NgramDrafts
from symlight.cpu.engine import CHUNK, Engine, Fed, Feed, Session, Undo, Want
from symlight.model.config import ModelShape
from symlight.model.reference import SITES
from symlight.model.sampling import choose
from symlight.model.state import State

from .choosing import Logits, RunOptions, logit_row
from .host_machine import HostMachine, Outcome
from .machine import Drafts, OnToken

COUNTS = 256  # of passes that are kept until they are added up: an addition costs as much as a small pass


class Run:
    """One run: the prompt in chunks, then passes over the newest token and its draft; and what it gathers.

    Tokens that were drafted and not chosen leave no trace: the session is as if they had never been ingested,
    and neither their passes nor their events are counted.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        options: RunOptions,
        drafts: NgramDrafts | KnownDrafts | None = None,
        undo: Undo | None = None,
    ):
        self._engine, self._session, self._options = engine, session, options
        self._drafts, self._undo = drafts, undo
        self._whole = options.settings is not None or options.logits is not Logits.NONE
        self.tokens: list[int] = []
        self.passes = 0
        self.rows: list[np.ndarray] = []
        self._active = np.zeros((engine.shape.layers, len(SITES)), np.int64)
        self._counts: list[np.ndarray] = []  # of passes that are not in _active yet
        self._verifications = self._proposed = self._accepted = 0

    @property
    def active(self) -> np.ndarray:
        """Nonzero inputs [L, 4] by SITES, over all passes."""
        self._add_counts()
        return self._active

    @property
    def drafts(self) -> Drafts | None:
        """How the drafts of this run fared."""
        if self._drafts is None:
            return None
        return Drafts(self._verifications, self._proposed, self._accepted)

    def ingest(self, tokens: list[int]) -> None:
        """Tokens whose successors are known."""
        want = Want.ALL if self._options.logits is Logits.ALL else Want.NOTHING
        for first in range(0, len(tokens), CHUNK):
            part = tokens[first : first + CHUNK]
            fed = self._engine.run([Feed(self._session, part, want, logits=want is Want.ALL)])[0]
            self._keep(fed, len(part))

    def generate(self, n_new: int, eos: int | None, on_token: OnToken | None) -> str:
        """Up to `n_new` tokens after the pending one; gives the stop reason."""
        state = self._session.state
        while len(self.tokens) < n_new:
            draft = [] if self._drafts is None else self._drafts.propose(n_new - len(self.tokens) - 1)
            for token in self._verified(draft, eos):
                state.pending = token
                self.tokens.append(token)
                if on_token is not None:
                    on_token(token)
                if token == eos:
                    return "eos"
        return "length"

    def _verified(self, draft: list[int], eos: int | None) -> list[int]:
        """The next tokens, one at least: a pass over the pending token and a draft of what follows."""
        state = self._session.state
        fed_tokens = [present(state.pending), *draft]
        undo = self._undo if draft else None
        feed = Feed(self._session, fed_tokens, Want.ALL, logits=self._whole, undo=undo)
        fed = self._engine.run([feed])[0]
        first = state.position - len(fed_tokens)
        chosen: list[int] = []
        for index in range(len(fed_tokens)):
            chosen.append(self._chosen(fed, index, first + index + 1))
            if chosen[-1] == eos or index == len(draft) or chosen[-1] != draft[index]:
                break
        if undo is not None:
            undo.take_back(state, len(fed_tokens), len(chosen))
            self._proposed += len(draft)
            self._accepted += sum(a == b for a, b in zip(chosen, draft, strict=False))
        if self._drafts is not None:
            self._drafts.append(chosen)
        self._verifications += 1
        self._keep(fed, len(chosen))
        return chosen

    def _chosen(self, fed: Fed, index: int, position: int) -> int:
        settings = self._options.settings
        if settings is None:
            return fed.tokens[index]
        return choose(present(fed.logits)[index], settings, position)

    def _keep(self, fed: Fed, count: int) -> None:
        """Count the first `count` tokens of a feed."""
        self.passes += count
        self._counts.append(fed.active[:count])
        if len(self._counts) == COUNTS:
            self._add_counts()
        if fed.logits is not None and self._options.logits is not Logits.NONE:
            self.rows += [logit_row(row, self._options.logits) for row in fed.logits[:count]]

    def _add_counts(self) -> None:
        if self._counts:
            self._active += np.concatenate(self._counts).sum(axis=0)
            self._counts.clear()


class CpuMachine(HostMachine):
    """A `host.device.machine.Machine` on an engine: the tokens and states of the reference.

    Parameters
    ----------
    engine : Engine
        Closed together with the machine.
    name : str
        As the user typed it.
    drafts : bool
        Guess tokens from the text that this machine has seen, and verify several in a pass. Runs give the
        same tokens, counts and states, only sooner where the text repeats itself.
    """

    shape: ModelShape

    def __init__(self, engine: Engine, name: str = "cpu", drafts: bool = False):
        self.engine, self.name, self.shape = engine, name, engine.shape
        self._undo = Undo(engine.shape, MOST + 1) if drafts else None
        self._guess: list[int] = []
        self.reset()

    @property
    def _state(self) -> State:
        return self._session.state

    def reset(self) -> None:
        self._start(State.new(self.shape))

    def _start(self, state: State) -> None:
        self._begin()
        self._session = Session(state)
        self._drafts = None if self._undo is None else NgramDrafts()
        if self._drafts is not None and state.pending is not None:
            self._drafts.append([state.pending])

    def _advance(
        self, prompt: list[int], n_new: int, eos: int | None, on_token: OnToken | None, options: RunOptions
    ) -> Outcome:
        inputs = [*([] if self.pending is None else [self.pending]), *prompt]
        drafts: NgramDrafts | KnownDrafts | None = self._drafts
        undo, known = self._undo, self._guess
        self._guess = []
        if known and self._drafts is None:
            drafts, undo = KnownDrafts(known, CHUNK - 1), Undo(self.shape, min(CHUNK, len(known) + 1))
        run = Run(self.engine, self._session, options, drafts, undo)
        run.ingest(inputs[:-1])
        self._session.state.pending = inputs[-1]
        if self._drafts is not None:
            self._drafts.append(prompt)
        reason = run.generate(n_new, eos, on_token)
        fared = None if self._drafts is None else run.drafts
        return Outcome(run.tokens, reason, run.passes, run.active, run.rows, fared)

    def guess(self, tokens: Sequence[int]) -> None:
        """As the base says: passes over many of these tokens at once verify them, as they do drafts."""
        self._guess = [token for token in tokens if 0 <= token < self.shape.vocab]

    def replace_pending(self, token: int) -> None:
        super().replace_pending(token)
        if self._drafts is not None:
            self._drafts.replace_newest(token)

    def read_state(self) -> State:
        return self._session.state.copy()

    def write_state(self, state: State) -> None:
        self._start(state.copy())

    def close(self) -> None:
        self.engine.close()
