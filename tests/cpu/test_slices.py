"""Sessions that advance by several tokens in a call: tokens, counts and states of the reference."""

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.cpu.engine import CHUNK, Engine, Session
from symlight.cpu.sampler import Sampler
from symlight.cpu.slices import MOST, SessionSlice, advance
from symlight.cpu.weights import Weights
from symlight.model.config import MAX_POSITION, preset
from symlight.model.reference import Reference
from symlight.model.sampling import SamplerSettings, choose
from symlight.model.synthetic import random_model

pytestmark = pytest.mark.timeout(120)
SEED = 11
LONG = 60.0  # seconds that no call needs
MODEL = random_model(preset("tiny"), SEED)


class Expected:
    """What one session does: the reference, alone."""

    def __init__(self, settings: SamplerSettings | None = None):
        self.reference, self._settings = Reference(MODEL), settings
        self.active, self.passes, self.heads = 0, 0, 0

    def advance(self, tokens, most, end=None) -> list[int]:
        chosen: list[int] = []
        for index, token in enumerate(tokens):
            fed = self._ingest(token)
        for _ in range(most):
            if chosen:
                if chosen[-1] == end:
                    break
                fed = self._ingest(chosen[-1])
            self.heads += 1
            chosen.append(choose(fed.logits, self._settings, self.reference.state.position))
        return chosen

    def _ingest(self, token):
        fed = self.reference.ingest(token, want_logits=True)
        self.active, self.passes = self.active + fed.active, self.passes + 1
        return fed


def settings_of(seed: int) -> SamplerSettings:
    logits = Reference(MODEL).ingest(3, want_logits=True).logits
    shift = int(np.ptp(logits)).bit_length() + 6  # a spread of some octaves
    return SamplerSettings(
        multiplier=1 << 17 - 1, shift=shift, top_k=40, min_weight=3, top_p=60000, seed=seed
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_sessions_go_on_by_themselves_as_they_do_alone(threads):
    rng = np.random.default_rng(SEED)
    settings = [None, settings_of(1), None, settings_of(2), settings_of(3)]
    expected = [Expected(one) for one in settings]
    with Engine(Weights.pack(MODEL), threads) as engine:
        sessions = [Session.new(MODEL.shape) for _ in settings]
        slices = [
            SessionSlice(session, None if one is None else Sampler(one))
            for session, one in zip(sessions, settings, strict=True)
        ]
        due = [rng.integers(0, MODEL.shape.vocab, count).tolist() for count in (1, 3, 20, 9, 1)]
        seen = []
        for turn in range(12):
            most = [int(rng.integers(1, MOST + 1)) for _ in slices]
            most[turn % 5] = 0 if turn == 3 else 1
            for one, tokens, count in zip(slices, due, most, strict=True):
                one.due(tokens, count)
            work = advance(engine, slices, LONG)
            chosen = [one.chosen() for one in slices]
            sums = [(one.active, one.passes, one.heads) for one in expected]
            wanted = [
                one.advance(tokens, count) for one, tokens, count in zip(expected, due, most, strict=True)
            ]
            assert chosen == wanted
            for session, one in zip(sessions, expected, strict=True):
                assert session.state == one.reference.state
            done = [
                (one.active - a, one.passes - p, one.heads - h)
                for one, (a, p, h) in zip(expected, sums, strict=True)
            ]
            active, passes, heads = (sum(parts) for parts in zip(*done, strict=True))
            np.testing.assert_array_equal(work.active, active)
            assert (work.passes, work.heads) == (passes, heads)
            due = [tokens[-1:] or [5] for tokens in chosen]
            seen += sum(chosen, [])
        assert len(set(seen)) > 20, "the texts are too dull to show a mistake"


def test_the_end_token_ends_it():
    expected = Expected()
    text = expected.advance([3], 20)
    end = next((token for token in text if text.index(token) > 2), None)
    assert end is not None, "the text repeats its beginning: no test"
    with Engine(Weights.pack(MODEL), 1) as engine:
        session = Session.new(MODEL.shape)
        ended = SessionSlice(session, end=end)
        ended.due([3], 20)
        work = advance(engine, [ended], LONG)
        kept = text[: text.index(end) + 1]
        assert ended.chosen() == kept
        assert session.state.position == work.passes == len(kept)  # the end itself is not ingested


def test_time_ends_it_after_one_pass():
    with Engine(Weights.pack(MODEL), 1) as engine:
        one = SessionSlice(Session.new(MODEL.shape))
        one.due([3, 4], MOST)
        assert advance(engine, [one], 0.0).passes == 2 and len(one.chosen()) == 1


def test_limits():
    with Engine(Weights.pack(MODEL), 1) as engine:
        session = Session.new(MODEL.shape)
        one = SessionSlice(session)
        one.due([3], 10 * MOST)
        advance(engine, [one], LONG)
        assert len(one.chosen()) == MOST
        session.state.position = MAX_POSITION - 3
        one.due([3], MOST)
        advance(engine, [one], LONG)
        assert session.state.position == MAX_POSITION and len(one.chosen()) == 3
        with pytest.raises(UserError, match="the session is full"):
            one.due([3], 1)
        session.state.position = 0
        one.due([3] * CHUNK, 1)
        assert advance(engine, [one], LONG).passes == CHUNK
