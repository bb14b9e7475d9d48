"""A probe on the simulated card, beside the memory model that it measures."""

import pytest

from symlight.host.device.card import Card
from symlight.host.measure.probe import ProbeRunner
from symlight.hw.compiler.generate import generate_probe
from symlight.hw.config import card
from symlight.hw.interface import arguments
from symlight.sim import card as cards
from symlight.sim.manifest import read_kernel
from symlight.sim.pyxrt import module as pyxrt_sim
from tests.benches.kernel.kernel_list import MODELS, OPTIMISE

ENGINE = card("sim2")


@pytest.fixture(scope="session")
def probe_folder(tmp_path_factory):
    """A generated probe of two ports."""
    folder = tmp_path_factory.mktemp("probe")
    generate_probe(ENGINE, folder, card="sim2")
    return folder


@pytest.fixture
def probe(probe_folder):
    """probe(**SimOptions) -> ProbeRunner on a card of its own, `.sim` its simulated card."""
    opened = []

    def make(**options) -> ProbeRunner:
        sim = cards.plug(cards.SimOptions(cache=MODELS, optimise=OPTIMISE, **options))
        manifest = probe_folder / "manifest.json"
        opened.append(Card(pyxrt_sim, 0, str(manifest), arguments(ENGINE.channels)))
        build_id = int(read_kernel(manifest).build_id, 16)
        runner = ProbeRunner(opened[-1], ENGINE, build_id)
        runner.sim = sim
        return runner

    yield make
    for one in opened:
        one.close()
    cards._cards.clear()
