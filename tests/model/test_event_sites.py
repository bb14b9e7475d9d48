"""The optional event sites: the inputs of W_O and of the head, in arithmetic, packages and random models."""

import hashlib
import json

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host import cli
from symlight.model import ops
from symlight.model.config import preset
from symlight.model.package import CONFIG, MANIFEST, WEIGHTS, load_package, save_package
from symlight.model.package_folder import read_json
from symlight.model.reference import SITES, Reference
from symlight.model.sequence import SequenceModel
from symlight.model.synthetic import DENSITY_TOLERANCE, calibrated, random_model
from tests.benches.model.package_damage import META, edit_json, refuse
from tests.model.test_package_contents import edit_tensors

BASE = dict.fromkeys(SITES, 0.3)
BOTH = BASE | {"out": 0.4, "head": 0.3}


@pytest.fixture(scope="module")
def model():
    return random_model(preset("odd"), 5, BOTH)


@pytest.fixture
def package(tmp_path, model):
    save_package(tmp_path / "events", model, META)
    return tmp_path / "events"


# ---- arithmetic ----------------------------------------------------------------------------------


def test_mix_drops_what_is_below_the_threshold():
    o, h = np.arange(-40, 41), np.zeros(81, np.int64)
    whole = ops.mix(o, h, 16384, 0, 15)
    assert whole[:3].tolist() == [-20, -20, -19]  # halves go away from zero
    kept = ops.mix(o, h, 16384, 0, 15, 10)
    assert (kept == np.where(np.abs(whole) >= 10, whole, 0)).all() and set(np.abs(kept)) == {
        0,
        *range(10, 21),
    }
    for threshold in (0, 1):
        assert (ops.mix(o, h, 16384, 0, 15, threshold) == whole).all()


def test_the_head_compares_the_residual_stream():
    c = np.array([-32768, -1025, -1024, -1023, 0, 1023, 1024, 32767])
    assert ops.head_input(c, 16384, 21, 1024).tolist() == [-127, -8, -8, 0, 0, 0, 8, 127]
    assert ops.head_input(c, 16384, 21).tolist() == [-127, -8, -8, -8, 0, 8, 8, 127]


def test_a_site_changes_only_its_own_input(model):
    """With the thresholds taken away, the model is the one without sites."""
    plain = {
        name: array
        for name, array in model.tensors().items()
        if not name.endswith(("out_event", "head.event"))
    }
    without = type(model).from_tensors(model.shape, model.numerics, plain)
    assert (without.event_sites, model.event_sites) == ((), ("out", "head"))
    trace, other = {}, {}
    Reference(model).ingest(3, True, trace)
    Reference(without).ingest(3, True, other)
    threshold = model.blocks[0].out_threshold
    expected = np.where(np.abs(other["block.0.m"]) >= threshold, other["block.0.m"], 0)
    assert (trace["block.0.m"] == expected).all() and (expected != other["block.0.m"]).any()
    c = trace[f"block.{model.shape.layers - 1}.c"]
    assert ((trace["head.a"] == 0) >= (np.abs(c) < model.head.threshold)).all()
    assert np.count_nonzero(trace["head.a"]) < np.count_nonzero(other["head.a"])


def test_counts_are_those_of_the_vectors(model):
    trace, tokens = {}, [3, 5, 7, 9]
    reference, whole = Reference(model), SequenceModel(model)
    out, head = 0, np.zeros(2, int)
    for token in tokens:
        result = reference.ingest(token, True, trace)
        assert result.out_active.tolist() == [
            np.count_nonzero(trace[f"block.{layer}.m"]) for layer in range(model.shape.layers)
        ]
        assert result.head_active == (np.count_nonzero(trace["head.a"]), np.count_nonzero(trace["head.g"]))
        out, head = out + result.out_active, head + result.head_active
    logits = np.concatenate(list(whole.logits(np.array([tokens]))))
    assert (logits[-1] == trace["head.logits"]).all()
    assert whole.out_densities().tolist() == (out / (4 * model.shape.width)).tolist()
    assert whole.head_densities() == (
        head[0] / (4 * model.shape.width),
        head[1] / (4 * model.shape.bottleneck),
    )


# ---- packages ------------------------------------------------------------------------------------


def test_round_trip(package, model):
    found = load_package(package)
    assert read_json(package / MANIFEST)["format_version"] == 3
    assert read_json(package / CONFIG)["event_sites"] == ["out", "head"]
    assert found.event_sites == found.model.event_sites == ("out", "head")
    assert load_package(package, lazy=True).event_sites == ("out", "head")
    ours, theirs = (Reference(one).generate([1, 2], 5) for one in (model, found.model))
    assert ours.tokens == theirs.tokens
    save_package(package.parent / "again", found.model, found.meta)
    assert load_package(package.parent / "again").digest == found.digest


@pytest.mark.parametrize("sites", [("out",), ("head",)])
def test_one_site_alone(tmp_path, sites):
    save_package(tmp_path / "p", random_model(preset("odd"), 5, BASE | dict.fromkeys(sites, 0.4)), META)
    assert load_package(tmp_path / "p").event_sites == sites


def test_layers_may_stream(package, model):
    """A layer whose threshold is 0 is no event site; when all are, the package is one without the site."""
    tensors = model.tensors() | {"blocks.0.tcam.out_event": np.zeros(1, np.int32)}
    changed = type(model).from_tensors(model.shape, model.numerics, tensors)
    assert model.shape.layers == 1 and changed.event_sites == ("head",)
    assert "blocks.0.tcam.out_event" not in changed.tensors()
    edit_tensors(package, lambda t: t["blocks.0.tcam.out_event"].__setitem__(0, 0))
    refuse(package, WEIGHTS, "['head']", "['out', 'head']")


@pytest.mark.parametrize("value", [["head", "out"], ["out", "out"], ["in"], "out", None, [1], {"out": 1}])
def test_wrong_lists_of_sites_are_named(package, value):
    edit_json(package, CONFIG, lambda c: c.update(event_sites=value))
    refuse(package, package / CONFIG, f"event_sites is {value!r}")


def test_the_list_and_the_tensors_agree(package):
    edit_json(package, CONFIG, lambda c: c.update(event_sites=["out"]))
    refuse(package, WEIGHTS, "event sites", "['out']", "['out', 'head']")


def test_every_range_is_checked(model):
    for name, bad in (("blocks.0.tcam.out_event", (-1, 128)), ("output_head.event", (0, 32768))):
        for value in bad:
            with pytest.raises(UserError, match=f"{name} holds {value}"):
                tensors = model.tensors() | {name: np.array([value], np.int32)}
                type(model).from_tensors(model.shape, model.numerics, tensors)


def test_older_versions_have_no_sites(package):
    edit_json(package, MANIFEST, lambda m: m.update(format_version=2))
    refuse(package, CONFIG, "event_sites")


# ---- random models -------------------------------------------------------------------------------


def measured(model, count=128):
    runner = SequenceModel(model)
    for _ in runner.logits(np.random.default_rng(9).integers(0, model.shape.vocab, (1, count))):
        pass
    return runner


def test_calibrated_sites_have_their_densities():
    sites = {"qkv": 0.34, "decay": 0.17, "up": 0.39, "down": 0.05, "out": 0.4, "head": 0.3}
    model, _ = calibrated(preset("demo"), 2, sites=sites)
    runner = measured(model)
    means = dict(zip(SITES, runner.densities().mean(axis=0), strict=True))
    means |= {"out": runner.out_densities().mean(), "head": runner.head_densities()[0]}
    print({name: round(float(value), 3) for name, value in means.items()})
    for site, share in sites.items():
        assert means[site] == pytest.approx(share, rel=0.15, abs=0.01), site
    assert runner.head_densities()[1] < 0.7  # no negative input of GELU gives an event


def test_the_other_sites_keep_the_average():
    model, density = calibrated(preset("tiny"), 2, 0.24, {"out": 0.5})
    assert density == pytest.approx(0.24, abs=DENSITY_TOLERANCE) and model.event_sites == ("out",)


def test_an_old_seed_gives_the_old_model():
    """Golden: models without the new sites are drawn as ever."""
    found = hashlib.sha256()
    for array in calibrated(preset("tiny"), 2)[0].tensors().values():
        found.update(array.tobytes())
    assert found.hexdigest() == GOLDEN


GOLDEN = "9394a5fa63620dbbe9fb5630e00ecd688e2b7febbb492b04c9943911825bf33f"


@pytest.mark.parametrize(
    "sites, message",
    [({"in": 0.5}, "no event site 'in'"), ({"out": 1.0}, "out is 1.0"), ({"head": 0}, "head is 0")],
)
def test_wrong_sites_are_refused(sites, message):
    with pytest.raises(UserError, match=message):
        calibrated(preset("tiny"), 1, sites=sites)


def test_the_command_line_names_sites(tmp_path, capsys):
    def run(sites):
        return cli.run(
            ["random-model", "--model", "tiny", "--density-site", sites, "--out", str(tmp_path / "p")]
        )

    for bad, message in (
        ("out", "'out'"),
        ("out=x", "'out=x'"),
        ("out=.1,out=.2", "out twice"),
        ("a=.1", "'a'"),
    ):
        assert run(bad) == 2
        assert message in capsys.readouterr().err and not (tmp_path / "p").exists()
    assert run("out=.4,head=.3") == 0
    about = json.loads((tmp_path / "p" / CONFIG).read_text())
    assert about["event_sites"] == ["out", "head"]
    assert about["provenance"]["density_by_site"] == {"out": 0.4, "head": 0.3}
