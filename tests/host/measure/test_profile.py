"""`symlight profile` of V2 packages: counts are those of the reference, products follow from them."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from symlight.cpu.work import executed_share, products
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.model.config import preset
from symlight.model.package import PackageMeta, save_package
from symlight.model.reference import SITES, Reference
from symlight.model.synthetic import random_model

PROMPT, NEW = [1, 2, 3, 4, 5], 6


@pytest.fixture
def profiled(symlight, package_path):
    words = ("profile", package_path, "--prompt-ids", " ".join(map(str, PROMPT)), "--max-new-tokens", NEW)
    return lambda *more: symlight(*words, *more)


def test_densities_and_products(profiled, model):
    found, shape = profiled("--json").json, model.shape
    run = ReferenceMachine(model).run(PROMPT, NEW, None)
    expected = run.density(shape)
    for row, values in zip(found["density_by_layer"], expected, strict=True):
        assert [row[site] for site in SITES] == pytest.approx(values.tolist())
    assert found["matrices"]["up"]["executed"] == run.active[:, 2].sum() * shape.ffn
    assert found["matrices"]["qkv"]["dense"] == run.passes * shape.layers * shape.width**2 * 3
    assert found["matrices"]["fused"]["executed"] == NEW * shape.head_rows * shape.vocab
    assert found["decode_passes"] == NEW and 0 < found["executed_over_dense"] < 1
    assert all(one["microseconds"] >= 0 for one in found["operations"].values())
    head = NEW * shape.head_rows * shape.vocab / NEW
    assert found["operations"]["head"]["bytes"] == head


def test_tables(profiled):
    text = " ".join(profiled().out.split())
    for part in ("density: share of nonzero inputs", "a decode pass", "attention", "fused", "read bandwidth"):
        assert part in text, part


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href")]


def test_page(profiled, model, tmp_path):
    file = tmp_path / "page.html"
    assert profiled("--html", file).code == 0
    page = Page()
    page.feed(text := file.read_text())
    assert page.links == [] and "script" not in page.tags and page.tags.count("svg") == 1 + len(SITES)
    tokens, layers = len(PROMPT) - 1 + NEW, model.shape.layers
    assert page.tags.count("rect") == len(SITES) * layers * (1 + tokens)
    shown = re.findall(r"<title>qkv, 0: ([0-9.]+)</title>", text)
    assert shown == [f"{profiled('--json').json['density_by_layer'][0]['qkv']:.3f}"]
    assert "cannot be written" in profiled("--html", tmp_path / "none" / "page.html").error()


def test_only_the_engine_is_timed(profiled):
    assert "use --device cpu" in profiled("--device", "reference").error()


def test_optional_sites_are_skipped_and_shown(symlight, tmp_path):
    densities = dict.fromkeys(SITES, 0.3) | {"out": 0.4, "head": 0.3}
    model = random_model(preset("odd"), 3, densities)
    shape, reference = model.shape, Reference(model)
    save_package(tmp_path / "p", model, PackageMeta(name="sites", synthetic=True))
    words = ("profile", tmp_path / "p", "--prompt-ids", "5", "--max-new-tokens", 1, "--json")
    found, expected = symlight(*words).json, reference.ingest(5, True)
    assert found["density_by_layer"][0]["out"] == expected.out_active[0] / shape.width
    a, g = expected.head_active
    assert found["head_density"] == {"a": a / shape.width, "g": pytest.approx(g / shape.bottleneck)}
    assert found["matrices"]["out"]["executed"] == expected.out_active.sum() * shape.width
    assert found["matrices"]["prior"]["executed"] == a * shape.bottleneck
    assert found["matrices"]["fused"]["executed"] == (a + g) * shape.vocab
    assert found["operations"]["head"]["bytes"] == (a + g) * shape.vocab


def test_all_inputs_nonzero_are_all_products():
    shape = preset("odd")
    inputs = np.array([[shape.width, shape.width, shape.width, shape.ffn]] * shape.layers)
    work = products(shape, 7 * inputs, 7, 7)
    assert all(executed == dense for executed, dense in work.values()) and executed_share(work) == 1
    assert executed_share(products(shape, 0 * inputs, 0, 0)) is None
