"""The simulated card and the reference side by side: every run on both, equality of everything that is
visible."""

import numpy as np

from symlight.host.device.card import Card
from symlight.host.device.driver import Accelerator
from symlight.host.device.kernels import KernelInfo
from symlight.host.device.machine import RunResult
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.host.device.verify import state_difference
from symlight.hw.compiler.layout import Layout
from symlight.hw.interface import arguments
from symlight.model.weights import IntegerModel
from symlight.sim import card as cards
from symlight.sim.pyxrt import module as pyxrt_sim
from tests.benches.kernel.kernel_list import MODELS, OPTIMISE


class Bench:
    """One session on a card of its own.

    Members
    -------
    machine : Accelerator
    card : SimCard
        Its `model` injects faults and counts.
    reference : ReferenceMachine
    layout : Layout
    runs : int
        Runs that were compared.
    """

    def __init__(
        self,
        kernel: KernelInfo,
        model: IntegerModel,
        *,
        flags: int = 0,
        watchdog: int | None = None,
        **options,
    ):
        self.card = cards.plug(cards.SimOptions(cache=MODELS, optimise=OPTIMISE, **options))
        self.layout = Layout(kernel.engine, model.shape)
        opened = Card(pyxrt_sim, 0, str(kernel.manifest), arguments(kernel.engine.channels))
        self.machine = Accelerator(
            opened,
            self.layout,
            model,
            build_id=kernel.build_id,
            name="sim",
            cycles_per_second=2000,
            flags=flags,
            watchdog=watchdog,
        )
        self.model, self.reference, self.runs = model, ReferenceMachine(model), 0

    def close(self) -> None:
        self.machine.close()

    def memory(self, channel: int) -> cards.Allocation:
        """Device memory after the channel's own buffer; `data` is what the kernel sees."""
        return self.machine._card._buffers[f"hbm{channel:02d}"]._allocation

    def run(self, prompt, n_new: int, eos: int | None = None) -> RunResult:
        """A run on both; tokens, stop reason, passes, event counts and session words are equal."""
        ours = self.machine.run(prompt, n_new, eos)
        theirs = self.reference.run(prompt, n_new, eos)
        assert (ours.tokens, ours.stop_reason) == (theirs.tokens, theirs.stop_reason)
        assert (ours.prompt_passes, ours.decode_passes) == (theirs.prompt_passes, theirs.decode_passes)
        assert np.array_equal(ours.active, theirs.active)
        assert (self.machine.position, self.machine.pending) == (
            self.reference.position,
            self.reference.pending,
        )
        self.runs += 1
        return ours

    def check_state(self) -> None:
        difference = state_difference(self.machine.read_state(), self.reference.read_state())
        assert difference is None, difference

    def reset(self) -> None:
        self.machine.reset()
        self.reference.reset()

    def prompt(self, count: int, seed: int = 1) -> list[int]:
        return np.random.default_rng(seed).integers(0, self.model.shape.vocab, count).tolist()
