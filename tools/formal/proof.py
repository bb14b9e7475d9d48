"""What all proofs share: a design under free inputs, its claims, its broken designs.

A `Proof` wraps one real component of hw/. Its inputs take any value in any cycle, except as `Assume` says;
its claims are `Assert`s, whose messages name them in tables and failures; `Cover`s show that the situations
in question happen at all.

    bounded check of `bmc` cycles from reset     the claims hold so long
    induction over `induction` cycles            together with the bounded check: they hold for ever
    cover within `cover` cycles                  nothing is proved of situations that cannot happen
    broken designs                               each claim can fail

Invariants are proved too: induction needs them, and they say why the design works. A broken design is checked
without them, so that what fails is the claim.
"""

from collections.abc import Callable
from contextlib import nullcontext

from amaranth.hdl import Assert, Assume, Elaboratable, Module, Signal, Value
from amaranth.hdl._ast import (  # 0.5 exports them under no public name but the deprecated `amaranth.asserts`
    AnyConst,
    AnySeq,
)

from .opened import Opened

__all__ = ["AnyConst", "AnySeq", "Proof", "assume_holds", "before", "holds"]


class Proof(Elaboratable):
    """Claims about one component.

    Attributes
    ----------
    title : str
        What is proved, for people.
    bmc, induction, cover : int
        Depths in cycles; `induction` is None where only the bounded check is made, `cover`
        where another size of the component shows it.
    fast : bool
        Takes a few seconds: part of `make test`.
    broken : dict[str, tuple]
        For each broken design: what is wrong with it -> (function that sabotages the opened component, claim
        that must fail).
    assumed : tuple[str, ...]
        Submodules whose own assertions are assumed here, because another proof shows them.
    broken_bmc : int
        Cycles in which a bounded check must find the failure.

    Parameters
    ----------
    sabotage : callable or None
        Applied to the opened component: the proof of the broken design must fail.
    """

    title: str
    bmc: int
    induction: int | None = None
    cover: int | None
    fast = False
    broken: dict = {}
    assumed: tuple[str, ...] = ()
    broken_bmc = 16

    def __init__(self, sabotage: Callable[[Opened], object] | None = None):
        self._sabotage = sabotage
        self.invariants: list[str] = []  # once elaborated: messages
        self.subject = ""  # once elaborated: the component's module

    def component(self):
        """The component under proof."""
        raise NotImplementedError

    def reduced(self):
        """Context in which the component is made: constants of its module at a smaller size."""
        return nullcontext()

    def claim(self, m: Module, dut: Opened):
        """Assumptions, claims and covers."""
        raise NotImplementedError

    def invariant(self, m: Module, test, message: str):
        """A claim about the component's inside, for induction."""
        if self._sabotage is None and self.induction is not None:
            self.invariants.append(message)
            m.d.comb += Assert(test, message)

    def elaborate(self, platform):
        m = Module()
        with self.reduced():
            dut = Opened(self.component())
        self.subject = type(dut.component).__module__.removeprefix("symlight.")
        if self._sabotage is not None:
            self._sabotage(dut)
        m.submodules.dut = dut.module
        self.claim(m, dut)
        return m


def before(m: Module, value, name: str, init=0) -> Signal:
    """`value` one cycle ago."""
    value = Value.cast(value)
    register = Signal(value.shape(), name=name, init=init)
    m.d.sync += register.eq(value)
    return register


def holds(m: Module, valid, ready, payload, message: str, unless=0):
    """Claim: `valid` and `payload` hold from the first valid cycle to the transfer."""
    m.d.comb += Assert(_held(m, valid, ready, payload, message) | unless, message)


def assume_holds(m: Module, valid, ready, payload, name: str):
    """Assumption: the other side keeps the same rule."""
    m.d.comb += Assume(_held(m, valid, ready, payload, name))


def _held(m, valid, ready, payload, name):
    word = Value.cast(payload)
    prefix = "".join(c if c.isalnum() else "_" for c in name)
    waiting = before(m, valid & ~ready, f"{prefix}_waiting")
    return ~waiting | (valid & (word == before(m, word, f"{prefix}_word")))
