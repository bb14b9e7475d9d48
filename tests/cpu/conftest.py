"""What the tests of the CPU engine share."""

import numpy as np
import pytest
from hypothesis import settings

from symlight.cpu.engine import Engine, Feed, Session, Want
from symlight.cpu.weights import Weights
from symlight.model.reference import Reference

settings.register_profile("cpu", deadline=None, max_examples=40, print_blob=True)
settings.load_profile("cpu")


class Beside:
    """An engine's session and the reference's, advanced by the same tokens and compared in everything."""

    def __init__(self, engine: Engine, model):
        self.engine, self.session, self.reference = engine, Session.new(model.shape), Reference(model)

    def feed(self, tokens: list[int]) -> None:
        """One feed with logits everywhere."""
        fed = self.engine.run([Feed(self.session, tokens, Want.ALL, logits=True)])[0]
        for i, token in enumerate(tokens):
            expected = self.reference.ingest(token, want_logits=True)
            np.testing.assert_array_equal(fed.active[i], expected.active)
            np.testing.assert_array_equal(fed.optional[i], [*expected.out_active, *expected.head_active])
            np.testing.assert_array_equal(fed.logits[i], expected.logits)
            assert fed.tokens[i] == expected.token
        difference = self.session.state.first_difference(self.reference.state)
        assert difference is None, difference


@pytest.fixture
def beside():
    """`beside(model, ...)` packs a model and puts an engine beside the reference; further arguments are the
    engine's."""
    engines = []

    def make(model, threads: int = 1, by_row=None, **options) -> Beside:
        weights = Weights.pack(model) if by_row is None else Weights.pack(model, by_row)
        engines.append(Engine(weights, threads, **options))
        return Beside(engines[-1], model)

    yield make
    for engine in engines:
        engine.close()
