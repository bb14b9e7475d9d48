"""model.evaluate: losses, agreement, densities."""

import math

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.model.config import preset
from symlight.model.evaluate import evaluate, weighted_density
from symlight.model.reference import Reference
from symlight.model.synthetic import random_model


def test_loss_is_the_token_by_token_one():
    model, scale = random_model(preset("odd"), 4), 1e-9
    tokens = np.random.default_rng(4).integers(0, model.shape.vocab, 50)
    result = evaluate(model, scale, tokens, sequence=20, batch=2)
    loss, hits = 0.0, 0
    for start in (0, 20, 40):
        reference = Reference(model)
        for i in range(start, min(start + 20, 49)):
            step = reference.ingest(int(tokens[i]), True)
            real = step.logits * scale
            loss -= real[tokens[i + 1]] - math.log(np.exp(real - real.max()).sum()) - real.max()
            hits += step.token == tokens[i + 1]
    assert result.predictions == 49
    assert result.loss == pytest.approx(loss / 49, rel=1e-9) and result.accuracy == hits / 49
    assert result.bits_per_byte(50, 100) == pytest.approx(result.loss / math.log(2) / 2)


def test_indifferent_model_has_the_loss_of_a_die():
    model = random_model(preset("odd"), 4)
    model.head.fused_scale[...] = 0
    assert evaluate(model, 1e-9, np.arange(30)).perplexity == pytest.approx(model.shape.vocab)


def test_agreement_with_given_choices():
    model = random_model(preset("odd"), 4)
    tokens = np.random.default_rng(4).integers(0, model.shape.vocab, 30)
    reference = Reference(model)
    choices = np.array([reference.ingest(int(token), True).token for token in tokens[:-1]])
    assert evaluate(model, 1e-9, tokens, choices=choices).agreement == 1.0
    choices[:10] = -1
    assert evaluate(model, 1e-9, tokens, choices=choices).agreement == pytest.approx(19 / 29)


def test_evaluation_refuses_foreign_tokens():
    model = random_model(preset("odd"), 4)
    for tokens, message in (
        ([1], "nothing to predict"),
        ([1, 131], "another tokenizer"),
        ([-1, 2], "another tokenizer"),
    ):
        with pytest.raises(UserError, match=message):
            evaluate(model, 1e-9, np.array(tokens))


def test_weighted_density():
    shape = preset("194m")
    trained = np.tile([0.33, 0.17, 0.38, 0.05], (12, 1))
    assert weighted_density(trained, shape) == pytest.approx(
        (4 * 0.99 / 4 + 0.17 + 16 / 3 * 0.43) / (4 + 32 / 3), abs=1e-9
    )
    assert weighted_density(np.ones((3, 4)), shape) == pytest.approx(1)
