"""The record of a soak: damage, other soaks and failures are refused; the committed ones are whole."""

import json

import pytest

from symlight.base.errors import UserError
from symlight.host.soak.record import Record, read_record, write_record
from symlight.host.soak.soak import PROBE_EVERY
from tests.benches.places import EVIDENCE

SETTINGS = {"seed": 5, "device": "broken", "build_id": None}


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "{}",
        '{"soak": 2}',
        lambda content: content | {"counts": {}},
        lambda content: content | {"seconds": "1"},
        lambda content: content | {"extra": 1},
        lambda content: content | {"counts": content["counts"] | {"turns": -1}},
    ],
)
def test_a_damaged_record_is_refused(damage, tmp_path):
    file = tmp_path / "soak.json"
    write_record(file, Record(dict(SETTINGS)))
    text = damage if isinstance(damage, str) else json.dumps(damage(json.loads(file.read_text())))
    file.write_text(text)
    with pytest.raises(UserError, match=r"soak\.json .*(remove it|another file)"):
        read_record(file, dict(SETTINGS))


def test_a_record_of_another_soak_or_of_a_failure_is_refused(tmp_path):
    file = tmp_path / "soak.json"
    write_record(file, Record(dict(SETTINGS)))
    with pytest.raises(UserError, match="seed 5 instead of 6"):
        read_record(file, SETTINGS | {"seed": 6})
    write_record(file, Record(dict(SETTINGS), failure="token 3 differs"))
    with pytest.raises(UserError, match="records a failure .token 3 differs."):
        read_record(file, dict(SETTINGS))


def test_the_committed_soaks_are_whole_and_without_a_failure(tmp_path):
    """docs/evidence/soak.json: records of the command, one per device and build."""
    soaks = json.loads((EVIDENCE / "soak.json").read_text())["soaks"]
    assert soaks
    for content in soaks:
        file = tmp_path / "record.json"
        file.write_text(json.dumps(content))
        record = read_record(file, content["settings"])
        counts = record.counts
        assert record.failure is None and record.to_json() == content
        assert (
            counts.turns >= counts.conversations > 0 and counts.ring_wraps >= counts.wrapped_conversations > 0
        )
        assert counts.state_probes >= counts.turns // PROBE_EVERY - record.sessions
        assert (content["settings"]["build_id"] is not None) == (counts.cycles > 0)
