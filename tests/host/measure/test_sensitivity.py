"""`symlight sensitivity`: what is dropped, what it saves, and that the base is the model itself."""

import numpy as np
import pytest

from symlight.host.device.packages import SHIPPED
from symlight.host.measure.sensitivity import BLOCK_MATRICES, HEAD_MATRICES, largest, sensitivity
from symlight.model.evaluate import evaluate
from symlight.model.package import load_package

TEXT = 'In the beginning God created the heavens and the earth. Moses said to the people, "Don\'t be afraid."'


def test_the_largest_stay():
    x = np.array([[0, 3, -5, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0, 0], [7, 0, 0, 0, 0, 0, 0]])
    assert largest(x, 0.5).tolist() == [[0, 3, -5, 1, 0, 0, 0], [0] * 7, [7, 0, 0, 0, 0, 0, 0]]
    assert (largest(x, 0.999) == x).all()
    stacked = largest(x[None], 0.2)
    assert stacked.shape == (1, 3, 7) and stacked[0, 0].tolist() == [0, 0, -5, 0, 0, 0, 0]


@pytest.fixture(scope="module")
def package():
    return load_package(SHIPPED / "demo")


def test_saved_work_and_loss(package):
    tokens = np.array(package.encode(TEXT), np.int64)
    found = sensitivity(package, tokens, keep=0.5, sequence=64)
    base = evaluate(package.model, package.meta.logit_scale, tokens, sequence=64)
    assert found.loss == pytest.approx(base.loss, rel=1e-12) and found.predictions == base.predictions
    shape = package.shape
    sites = base.densities * [
        3 * shape.width**2, shape.width**2, shape.width * shape.ffn, shape.ffn * shape.width
    ]  # fmt: skip
    out = base.out_densities.sum() * shape.width**2
    head = base.head_densities[0] * shape.width * (shape.vocab + shape.bottleneck)
    head += base.head_densities[1] * shape.bottleneck * shape.vocab
    assert found.executed == pytest.approx(sites.sum() + out + head, rel=1e-3)
    assert [cost.place for cost in found.matrices] == [*BLOCK_MATRICES, *HEAD_MATRICES]
    by_name = {cost.place: cost for cost in found.matrices}
    up = sites[:, 2].sum() / found.executed
    assert by_name["up"].saved == pytest.approx(up / 2, rel=0.1)
    # every matrix belongs to one layer, so both cuts save the same in all (but for what one dropped input
    # changes in later ones)
    assert [cost.place for cost in found.layers] == ["layer 0", "layer 1", "layer 2", "layer 3", "head"]
    for costs in (found.matrices, found.layers):
        assert sum(cost.saved for cost in costs) == pytest.approx(0.47, abs=0.06)
        assert sum(cost.loss_increase for cost in costs) > 0.5
    again = sensitivity(package, tokens, keep=0.999, sequence=64)
    assert all(cost.loss_increase == 0 and cost.cost is None for cost in again.matrices)


def test_the_command(symlight, tmp_path):
    (tmp_path / "text").write_text(TEXT)
    found = symlight("sensitivity", "demo", tmp_path / "text", "--json", "--tokens", 24).json
    assert found["predictions"] == 23 and found["keep"] == 0.5 and len(found["layers"]) == 5
    shown = symlight("sensitivity", "demo", tmp_path / "text", "--tokens", 24).out
    assert "by matrix" in shown and "by layer" in shown and "tcam" not in shown
    assert "cannot be read" in symlight("sensitivity", "demo", tmp_path / "none").error()
    (tmp_path / "empty").write_text("")
    assert "nothing to predict" in symlight("sensitivity", "demo", tmp_path / "empty").error()


def test_the_plot(symlight, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "text").write_text(TEXT)
    words = ("sensitivity", "demo", tmp_path / "text", "--tokens", 16, "--plot")
    assert symlight(*words, tmp_path / "a.png").code == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "plot cannot be written" in symlight(*words, tmp_path / "none" / "a.png").error()
