"""The simulated board and the reference side by side."""

from pathlib import Path

from symlight.host.device.board.card import BoardCard
from symlight.host.device.board.link import Link
from symlight.host.device.driver import Accelerator
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.hw.compiler.layout import Layout
from symlight.hw.interface import arguments
from symlight.sim.board.board import SimulatedBoard
from symlight.sim.board.line import SimulatedPort

LARGE = 4096  # bytes of a write that go past the line: an upload at its rate would take most of the time
TIMEOUT = 60  # seconds of a busy machine that simulates a reply


class ShortCutCard(BoardCard):
    """A board whose large writes are put into the SDRAM at once."""

    def __init__(self, simulated: SimulatedBoard, *args, **kwargs):
        self._simulated = simulated
        super().__init__(*args, **kwargs)

    def write(self, name, offset, data):
        if data.size < LARGE:
            super().write(name, offset, data)
            return
        base, _ = self._buffers[name]
        self._simulated.memory[base + offset : base + offset + data.nbytes] = data.view("u1").reshape(-1)


def open_card(simulated: SimulatedBoard, *, build_id: int | None = None, short_cut: bool = True) -> BoardCard:
    """The card of a simulated board, on a line within the process."""
    library = simulated.library
    link = Link(SimulatedPort(simulated), "serial:simulated", timeout=TIMEOUT)
    settings = {
        "build_id": library.build_id if build_id is None else build_id,
        "beat_bytes": library.engine.beat_bytes,
        "size": library.board.chip.size,
        "manifest": Path("manifest.json"),
    }
    names = arguments(library.engine.channels)
    if short_cut:
        return ShortCutCard(simulated, link, names, **settings)
    return BoardCard(link, names, **settings)


def machines(simulated: SimulatedBoard, model, **options) -> tuple[Accelerator, ReferenceMachine]:
    """The driver on a simulated board, and the reference."""
    card = open_card(simulated, **options)
    layout = Layout(simulated.library.engine, model.shape)
    ours = Accelerator(
        card,
        layout,
        model,
        build_id=simulated.library.build_id,
        name="serial:simulated",
        cycles_per_second=2000,
    )
    return ours, ReferenceMachine(model)
