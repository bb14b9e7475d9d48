"""The sweep over lambda, small: rows are resumed, the trend is the issue's, the Pareto front is one."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("torch", reason="torch (extra `train`) is not installed")

import torch  # noqa: E402

from symlight.base.errors import UserError  # noqa: E402
from symlight.model.config import preset  # noqa: E402
from symlight.tools.sparsity import sweep as sweeps  # noqa: E402
from symlight.tools.sparsity.report import base, front, plot, table  # noqa: E402
from symlight.tools.sparsity.sweep import Plan, Row, Sweep  # noqa: E402

SHAPE = replace(preset("tiny"), vocab=128)
QUIET = Console(quiet=True)


def corpus(lines: int = 600) -> list[list[str]]:
    """Sentences of a little grammar: enough for a model to learn something."""
    rng = np.random.default_rng(0)
    nouns, verbs = ["king", "man", "woman", "prophet", "shepherd"], ["saw", "heard", "blessed", "sent"]
    ends = ["in the city", "by the river", "on the day", "with joy"]

    def sentence() -> str:
        first, second = rng.choice(nouns, 2)
        return f"The {first} {rng.choice(verbs)} the {second} {rng.choice(ends)}."

    return [[sentence() for _ in range(10)] for _ in range(lines // 10)]


def row(strength: float, bits: float, size: int, sites=()) -> Row:
    densities = dict.fromkeys(("qkv", "decay", "out", "up", "down", "head", "head_g"), 0.5)
    return Row(strength, list(sites), bits, bits, densities, size, 0.5)


def test_the_front_has_no_beaten_row():
    rows = [row(0, 1.30, 100), row(1, 1.31, 80), row(2, 1.35, 85), row(4, 1.31, 70), row(8, 1.5, 50)]
    assert [one.strength for one in front(rows)] == [8, 4, 0]
    assert base(rows).strength == 0
    rows[1].measured["decode_cycles"] = 1234
    text = table(rows)
    assert "**published, lambda 4**" in text and "| published, lambda 2 |" in text
    assert "1,234" in text and "+0.8%" in text and "1.25 x" in text


def test_the_plot(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [row(0, 1.3, 100), row(0, 1.31, 90, ("out", "head")), row(4, 1.33, 60, ("out", "head"))]
    assert plot(rows, tmp_path / "a.png") and (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.timeout(120)
def test_a_sweep_is_resumed(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    plan = Plan(
        shape=SHAPE, lambdas=(0.0, 4.0), start_steps=4, steps=4, batch=2, sequence=32, heldout_tokens=200
    )  # fmt: skip
    trained = []
    real = sweeps.train
    monkeypatch.setattr(
        sweeps, "train", lambda *words, **named: trained.append(words[1].name) or real(*words, **named)
    )
    rows = Sweep(tmp_path, plan, corpus(), QUIET).run()
    assert trained == ["start", "published-0", "all-0", "published-4", "all-4"]
    assert [(one.strength, one.sites) for one in rows][-1] == (4.0, ["out", "head"])
    trained.clear()
    again = Sweep(tmp_path, plan, corpus(), QUIET)
    assert again.run() == rows and trained == ["start"]
    assert again.package(rows[-1]).event_sites == ("out", "head")
    assert again.package(rows[0]).event_sites == ()
    trained.clear()
    more = Sweep(tmp_path, replace(plan, lambdas=(0.0, 2.0)), corpus(), QUIET).run()
    assert trained == ["start", "published-2", "all-2"]
    assert [one.strength for one in more] == [0, 2, 4] * 2 and [
        one for one in more if one.strength != 2
    ] == rows
    with pytest.raises(UserError, match="another plan"):
        Sweep(tmp_path, replace(plan, steps=5), corpus(), QUIET)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_trend(tmp_path):
    """Minutes on a core: bytes fall with lambda, and further with the new sites, for little loss."""
    torch.set_num_threads(1)
    plan = Plan(shape=SHAPE, lambdas=(0.0, 1.0, 4.0), start_steps=300, steps=200, batch=8, sequence=64)
    rows = Sweep(tmp_path, plan, corpus(3000), QUIET).run()
    print(table(rows))
    published, everywhere = rows[:3], rows[3:]
    for some in (published, everywhere):
        sizes = [one.bytes_a_token for one in some]
        assert sizes == sorted(sizes, reverse=True) and sizes[-1] < 0.8 * sizes[0]
    assert everywhere[-1].bytes_a_token < 0.7 * published[-1].bytes_a_token
    assert everywhere[-1].bits_per_byte < 1.2 * base(rows).bits_per_byte
