"""The sampler's random word: Threefry-2x32 with 20 rounds, one round a cycle (arithmetic, section 9)."""

from amaranth.hdl import Array, Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from symlight.model.sampling import PARITY, ROTATIONS, ROUNDS

WORD = 32
INJECTION = 4  # rounds between two additions of the key


class RandomWord(wiring.Component):
    """`model.sampling.random_word` in hardware.

    Attributes
    ----------
    LATENCY : int
        Cycles from `start` to `done`.

    Members
    -------
    start, seed, position : In
        Pulse, and the key and counter of the word; stable until `done`.
    done : Out
        High from the end until the next start.
    word : Out
    """

    LATENCY = 1 + ROUNDS + ROUNDS // INJECTION

    def __init__(self):
        super().__init__(
            {"start": In(1), "seed": In(64), "position": In(21), "done": Out(1), "word": Out(WORD)}
        )

    def elaborate(self, platform):
        m = Module()
        low, high = self.seed[:WORD], self.seed[WORD:]
        x, y = self.word, Signal(WORD)
        # The key words in the order of their use; the first two go first after a rotation.
        keys = [Signal(WORD, name=f"key{i}") for i in range(3)]
        turn, part, step = Signal(range(8)), Signal(range(INJECTION + 1)), Signal(range(8))
        sums = Signal(WORD)
        turned = Array(Cat(y[WORD - r :], y[: WORD - r]) for r in ROTATIONS)
        m.d.comb += sums.eq(x + y)
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [
                        self.done.eq(0),
                        x.eq(self.position + low),
                        y.eq(high),
                        keys[0].eq(high),
                        keys[1].eq(Const(PARITY, WORD) ^ low ^ high),
                        keys[2].eq(low),
                        turn.eq(0),
                        part.eq(0),
                        step.eq(1),
                    ]
                    m.next = "ROUND"
            with m.State("ROUND"):
                m.d.sync += [x.eq(sums), y.eq(turned[turn] ^ sums), turn.eq(turn + 1), part.eq(part + 1)]
                with m.If(part == INJECTION - 1):
                    m.next = "INJECT"
            with m.State("INJECT"):
                m.d.sync += [
                    x.eq(x + keys[0]),
                    y.eq(y + keys[1] + step),
                    *(key.eq(keys[(i + 1) % 3]) for i, key in enumerate(keys)),
                    part.eq(0),
                    step.eq(step + 1),
                ]
                with m.If(step == ROUNDS // INJECTION):
                    m.d.sync += self.done.eq(1)
                    m.next = "IDLE"
                with m.Else():
                    m.next = "ROUND"
        return m
