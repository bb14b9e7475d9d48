"""The whole kernel: control registers, sequencer, vector unit, and a channel for every HBM pseudo-channel."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .axi import AxiMaster
from .config import Engine
from .control import AxiLite
from .kernel.channels import join_channels, join_writes
from .kernel.control import join_control
from .kernel.parts import Parts
from .kernel.sequencing import join_sequencing, join_session
from .kernel.vectors import join_vectors


class Kernel(wiring.Component):
    """The accelerator behind its bus ports.

    Parameters
    ----------
    engine : Engine
    build_id : int or None
        128 bits, written into every mailbox; None takes them from module `IDENTITY_MODULE`.
    inline_channels : bool
        Elaborate the channels in place (for one-module simulation) instead of instantiating `CHANNEL_MODULE`.

    Members
    -------
    control : In(AxiLite)
    hbm : array of Out(AxiMaster)
    interrupt : Out
    """

    def __init__(self, engine: Engine, *, build_id: int | None = None, inline_channels: bool = False):
        self._engine, self._build_id, self._inline = engine, build_id, inline_channels
        super().__init__(
            {
                "control": In(AxiLite()),
                "interrupt": Out(1),
                "hbm": Out(AxiMaster(engine.beat_bytes)).array(engine.channels),
            }
        )

    def elaborate(self, platform):
        m = Module()
        parts = Parts(m, self._engine, self._build_id)
        join_control(m, parts, self.control, self.interrupt)
        join_sequencing(m, parts)
        join_session(m, parts)
        join_vectors(m, parts)
        join_writes(m, parts)
        join_channels(m, parts, self.hbm, inline=self._inline)
        return m
