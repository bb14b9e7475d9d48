"""Reduction of the drain bus: the sum of all channels' words.

channels of one die   ─► sums of four ─► register ─┐
channels of the other ─► sums of four ─► register ─┴─► sum
"""

from amaranth.hdl import Cat, Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..floorplan import channels_of_die
from ..lib.pipeline import FreeRunningPipeline, adder_stage, carry_save
from ..types import ACC_BITS

CARRY_SAVE = 8  # words that the last stage adds


class DrainReduce(wiring.Component):
    """One word for all channels: lane by lane the sum of theirs.

    The card has two dies, and each half of the channels is meant to lie on one. Groups of up to four channels
    are summed where they lie (up to eight channels need no such sums); their words pass a register that may
    lie on the other die, so nothing but a wire crosses; the last stage adds up to eight words of both halves,
    all but one of its adders without carries.

    Latency `LATENCY` cycles (2, or 3 for more than eight channels); a word a cycle, no back-pressure.

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
        The channel puts a word of a DIRECT_READ command on the bus.
    i_word : In, array of channels
        The channel's word; zero from a channel that has nothing to say while `i_valid` or any `i_side` is
        high, and best zero at all other times: the registers behind it follow it always.
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
        return 2 + (self._channels > CARRY_SAVE)

    def elaborate(self, platform):
        m = Module()
        middle = len(channels_of_die(self._channels)[0])
        # Words are zero while no channel speaks, so their registers load in every cycle and toggle no more
        # for it: an enable would have to come from all channels of both dies.
        pipe = FreeRunningPipeline(m)
        for lane in range(self._lanes):
            words = [word[lane] for word in self.i_word]
            if self._channels > CARRY_SAVE:
                words = [
                    word
                    for half in (words[:middle], words[middle:])
                    for word in adder_stage(pipe, 1, half, signed(ACC_BITS), f"four{lane}")
                ]
            crossed = [pipe.reg(self.LATENCY - 1, word.as_unsigned(), f"crossed{lane}") for word in words]
            total = sum(carry_save(m, crossed, 2))[:ACC_BITS].as_signed()
            m.d.comb += self.o_word[lane].eq(pipe.reg(self.LATENCY, total, f"sum{lane}"))
        sides = [Cat(self.i_side[:middle]).any(), Cat(self.i_side[middle:]).any()]
        for flags, output, name in (([self.i_valid], self.o_valid, "answer"), (sides, self.o_side, "side")):
            for stage in range(1, self.LATENCY):
                flags = [pipe.reg(stage, flag, name, reset_less=False) for flag in flags]
            m.d.comb += output.eq(pipe.reg(self.LATENCY, Cat(flags).any(), name, reset_less=False))
        return m
