"""A short soak on the simulated card; the long one is in docs/evidence/soak.json."""

import pytest

from symlight.host.soak.record import Record
from symlight.host.soak.soak import Limit, Soak

pytestmark = pytest.mark.kernel("sim4")


def _soak(bench, model, turns: int) -> Record:
    machine = bench(model).machine
    record = Record({"seed": 2, "device": machine.name, "build_id": f"{machine.build_id:032x}"})
    Soak(machine, model, record, save=lambda record: None, on_turn=lambda record: None).run(Limit(turns))
    return record


def test_a_soak_passes(bench, tiny):
    counts = _soak(bench, tiny, 15).counts
    assert counts.turns == 15 and counts.ring_wraps and counts.loads and counts.cycles


@pytest.mark.slow
def test_a_longer_soak_passes(bench, demo):
    assert _soak(bench, demo, 120).counts.ring_wraps
