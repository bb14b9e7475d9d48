"""Reduction of the drain bus: the sum of all channels' words.

channels of one die   ─► words joined by OR ─► sums of two ─► register ─┐
channels of the other ─► words joined by OR ─► sums of two ─► register ─┴─► sum
"""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import FEW_CHANNELS, JOINED, Engine
from ..floorplan import channels_of_die
from ..lib.pipeline import FreeRunningPipeline, carry_save
from ..types import ACC_BITS


class DrainReduce(wiring.Component):
    """One word for all channels: lane by lane the sum of theirs.

    The card has two dies, and each half of the channels is meant to lie on one. Of `joined` neighbouring
    channels one speaks at most, as a cut has at least so many columns: an OR takes the place of their sum.
    Two such words are added where they lie (up to eight channels need no such sums); the sums pass a register
    that may lie on the other die, so nothing but a wire crosses; the last stage adds the words of both
    halves.

    Latency `LATENCY` cycles (2, or 3 for more than eight channels); a word a cycle, no back-pressure.

    Parameters
    ----------
    channels : int
        Channels, 1..32.
    lanes : int
        Elements of a word.
    joined : int
        Of so many neighbouring channels of a die one at most says anything but zero in a cycle; at least
        `JOINED` for more than eight channels.

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

    def __init__(self, channels: int, lanes: int, *, joined: int = 1):
        if channels > FEW_CHANNELS and joined < JOINED:
            raise ValueError(f"{channels} channels, of which {joined} may be joined: {JOINED} are needed")
        self._channels, self._lanes, self._joined = channels, lanes, joined
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

    @staticmethod
    def crossing_words(apart: int, engine: Engine) -> int:
        """Words that come from the other die, on which `apart` channels of `engine` lie."""
        return apart if engine.channels <= FEW_CHANNELS else -(-apart // (2 * engine.joined))

    @property
    def LATENCY(self) -> int:
        return 2 + (self._channels > FEW_CHANNELS)

    def elaborate(self, platform):
        m = Module()
        middle = len(channels_of_die(self._channels)[0])
        # Words are zero while no channel speaks, so their registers load in every cycle and toggle no more
        # for it: an enable would have to come from all channels of both dies.
        pipe = FreeRunningPipeline(m)
        for lane in range(self._lanes):
            words = [word[lane] for word in self.i_word]
            if self._channels > FEW_CHANNELS:
                words = [
                    pipe.reg(1, total, f"summed{lane}")
                    for half in (words[:middle], words[middle:])
                    for total in _pair_sums(_joins(half, self._joined))
                ]
            crossed = [pipe.reg(self.LATENCY - 1, word.as_unsigned(), f"crossed{lane}") for word in words]
            if self._channels > FEW_CHANNELS:
                total = _pair_sums(_pair_sums(crossed))[0]
            else:
                total = sum(carry_save(m, crossed, 2))
            total = total[:ACC_BITS].as_signed()
            m.d.comb += self.o_word[lane].eq(pipe.reg(self.LATENCY, total, f"sum{lane}"))
        sides = [Cat(self.i_side[:middle]).any(), Cat(self.i_side[middle:]).any()]
        for flags, output, name in (([self.i_valid], self.o_valid, "answer"), (sides, self.o_side, "side")):
            for stage in range(1, self.LATENCY):
                flags = [pipe.reg(stage, flag, name, reset_less=False) for flag in flags]
            m.d.comb += output.eq(pipe.reg(self.LATENCY, Cat(flags).any(), name, reset_less=False))
        return m


def _joins(words, joined: int) -> list[Value]:
    """`joined` words at a time as one, of which all but one are zero."""
    blocks = [words[i : i + joined] for i in range(0, len(words), joined)]
    return [reduce(or_, (word.as_unsigned() for word in block)) for block in blocks]


def _pair_sums(words) -> list[Value]:
    """Sums of two of `words` each, modulo their width."""
    return [sum(words[i + 1 : i + 2], words[i])[: len(words[i])] for i in range(0, len(words), 2)]
