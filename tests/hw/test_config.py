"""hw.config: an `Engine` refuses what cannot be built, by name and value."""

from dataclasses import replace

import pytest

from symlight.base.errors import UserError
from symlight.hw.config import BUILDS, CARDS, Engine, build, card

pytestmark = pytest.mark.timeout(60)
POWERS = (
    "accumulators",
    "vector_words",
    "read_beats",
    "item_depth",
    "query_words",
    "width_words",
    "state_words",
    "parameter_words",
    "table_entries",
    "heads",
)


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"channels": 0}, "channels = 0 is outside 1..32"),
        ({"channels": 33}, "channels = 33 is outside 1..32"),
        ({"lanes": 24}, "lanes = 24 is not 8, 16, 32 or 64"),
        ({"kv_beats": 7}, "kv_beats = 7 is not even"),
        ({"resident_beats": 0}, "resident_beats = 0 is not even"),
        ({"fixed_gather": "sparse"}, "fixed_gather = 'sparse' is not runtime, dense or active"),
        ({"fixed_kv": "some"}, "fixed_kv = 'some' is not runtime, full or valid"),
        *(({name: value}, f"{name} = {value} is not a power of two") for name in POWERS for value in (1, 12)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_built_is_refused(change, sentence):
    with pytest.raises(UserError) as error:
        replace(card("sim4"), **change)
    assert str(error.value).startswith(f"engine: {sentence}")


@pytest.mark.parametrize("name", CARDS)
def test_json_there_and_back(name):
    engine = card(name)
    assert Engine.from_json(engine.to_json()) == engine


def test_json_with_other_fields_is_refused():
    data = card("sim4").to_json()
    with pytest.raises(UserError, match=r"fields \['colour'\] are unknown or missing"):
        Engine.from_json(data | {"colour": 1})
    del data["lanes"]
    with pytest.raises(UserError, match=r"fields \['lanes'\] are unknown or missing"):
        Engine.from_json(data)


def test_unknown_presets_are_refused_with_the_known_ones():
    with pytest.raises(UserError, match="no card preset is called 'u55'; known: sim2, "):
        card("u55")
    with pytest.raises(UserError, match="no build is called 'fast'; known: resident-dense, "):
        build(card("sim4"), "fast")


@pytest.mark.parametrize("name", BUILDS)
def test_a_build_fixes_its_switches(name):
    engine = build(card("sim4"), name)
    assert engine.fixed_gather == ("dense" if name == "resident-dense" else "active")
    assert engine.kv_resident == (name == "resident-kv")
    assert engine.fixed_kv == ("valid" if name.endswith("-kv") else "full")
