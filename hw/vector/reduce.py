"""Reduction of the drain bus: the sum of all channels' words."""

from amaranth.hdl import Cat, Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..types import ACC_BITS
from .stages import Pipeline, adder_tree, tree_stages


class DrainReduce(wiring.Component):
    """One word for all channels: lane by lane the sum of theirs, in an adder tree of four terms a stage.

    Latency `LATENCY` cycles, ceil(log4 channels) and at least 1; a word a cycle, no back-pressure.

    Parameters
    ----------
    channels : int
        Channels, 1..32.
    lanes : int
        Elements of a word.

    Members
    -------
    i_valid : In
        The answers to a drain request are at the inputs.
    i_side : In, array of channels
        The channel puts a word of a SIDE command on the bus.
    i_word : In, array of channels
        The channel's word; zero from a channel that has nothing to say while `i_valid` or any `i_side` is
        high.
    o_valid, o_side : Out
        `i_valid`, and whether any `i_side`, of the word.
    o_word : Out
        Sum modulo 2^32; valid with either.
    """

    def __init__(self, channels: int, lanes: int):
        self._channels = channels
        self._lanes = lanes
        word = data.ArrayLayout(signed(ACC_BITS), lanes)
        super().__init__(
            {
                "i_valid": In(1),
                "i_side": In(1).array(channels),
                "i_word": In(word).array(channels),
                "o_valid": Out(1),
                "o_side": Out(1),
                "o_word": Out(word),
            }
        )

    @property
    def LATENCY(self) -> int:
        return tree_stages(self._channels)

    def elaborate(self, platform):
        m = Module()
        any_side = Cat(self.i_side).any()
        pipe = Pipeline(m, self.i_valid | any_side, self.LATENCY)
        for lane in range(self._lanes):
            terms = [word[lane] for word in self.i_word]
            m.d.comb += self.o_word[lane].eq(adder_tree(pipe, 0, terms, signed(ACC_BITS), f"sum{lane}"))
        occupied = pipe.valid[-1]
        m.d.comb += [
            self.o_valid.eq(occupied & pipe.carry(0, self.LATENCY, self.i_valid, "answer")),
            self.o_side.eq(occupied & pipe.carry(0, self.LATENCY, any_side, "side")),
        ]
        return m
