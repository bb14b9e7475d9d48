"""hw.sequencer.argmax.Argmax: the largest logit, and of equal ones the lowest id."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Signal, signed

from symlight.hw.config import Engine
from symlight.hw.sequencer.argmax import Argmax

from .opened import Opened, drive_freely
from .proof import AnyConst, AnySeq, Proof, before


class LargestLogit(Proof):
    """Any word of a scan is marked; the best at its end is not worse, and is a word of the scan."""

    title = (
        "Argmax (48-bit logits): never worse than any word since `first`, ties to the lowest id, always a "
        "word that came"
    )
    bmc, induction, cover = 4, 2, 10
    fast = True

    def component(self):
        return Argmax(Engine(channels=2, lanes=16))

    def claim(self, m: Module, dut: Opened):
        port = dut.component
        drive_freely(m, port)
        new = Signal(signed(48))
        some, token = port.word[3][0], port.word[2][:16]
        m.d.comb += [new.eq(Cat(port.word[0], port.word[1])), Assume(port.word[2] == token)]
        started = Signal()
        m.d.comb += Assume(~port.valid | port.first | started)
        with m.If(port.valid):
            m.d.sync += started.eq(1)

        logit, best, any_ = dut.signal("logit"), dut.signal("token"), dut.signal("some")
        fresh, new_some = dut.signal("fresh"), dut.signal("new_some")
        new_logit, new_token = dut.signal("new_logit"), dut.signal("new_token")
        settled = ~before(m, port.valid, "valid_before")  # the last word has been compared
        begins = port.valid & port.first
        hit = Signal()

        marked, mark, mark_token = Signal(), Signal(signed(48)), Signal(16)
        with m.If(begins):
            m.d.sync += marked.eq(0)
        with m.If(port.valid & some & AnySeq(1)):
            m.d.sync += [marked.eq(1), mark.eq(new), mark_token.eq(token)]
        not_worse = any_ & ((logit > mark) | ((logit == mark) & (best <= mark_token)))
        m.d.comb += [
            Assert(~settled | ~marked | not_worse, "not worse than any word of the scan"),
            Assert(port.best == best, "the best id is shown"),
        ]
        waits = new_some & (new_logit == mark) & (new_token == mark_token)
        self.invariant(
            m, settled | ~marked | waits | (~fresh & not_worse), "a marked word is compared or waits"
        )

        # Did a word with this logit and id come in the scan?
        guess, guess_token, came = AnyConst(signed(48)), AnyConst(16), Signal()
        m.d.comb += hit.eq(port.valid & some & (new == guess) & (token == guess_token))
        m.d.sync += came.eq(hit | (came & ~begins))
        other = ~any_ | (logit != guess) | (best != guess_token)
        m.d.comb += Assert(~settled | came | other, "the best is a word of the scan")
        waits = new_some & (new_logit == guess) & (new_token == guess_token)
        self.invariant(m, settled | came | (~waits & (fresh | other)), "what waits came in the scan")
        self.invariant(m, settled == ~dut.signal("pending"), "a word waits for a cycle")
        m.d.comb += [
            Cover(settled & marked & (logit == mark) & (best < mark_token), "a tie goes to the lower id"),
            Cover(
                settled & marked & (logit > mark) & (best > mark_token) & (mark < 0),
                "a larger logit wins with a higher id",
            ),
        ]


def _last_wins(dut):
    """Of equal logits the later one wins."""
    with dut.module.If(
        dut.signal("pending") & dut.signal("new_some") & (dut.signal("new_logit") == dut.signal("logit"))
    ):
        dut.module.d.sync += dut.signal("token").eq(dut.signal("new_token"))


def _unsigned(dut):
    """Logits are compared without their sign."""
    new, old = dut.signal("new_logit").as_unsigned(), dut.signal("logit").as_unsigned()
    with dut.module.If(dut.signal("pending") & dut.signal("new_some") & (new > old)):
        dut.module.d.sync += [dut.signal("logit").eq(new), dut.signal("token").eq(dut.signal("new_token"))]


def _takes_padding(dut):
    """A channel without any row wins like another."""
    with dut.module.If(dut.component.valid):
        dut.module.d.sync += dut.signal("new_some").eq(1)


LargestLogit.broken = {
    "of equal logits the later one wins": (_last_wins, "not worse than any word of the scan"),
    "compares without sign": (_unsigned, "not worse than any word of the scan"),
    "takes channels without rows": (_takes_padding, "the best is a word of the scan"),
}

PROOFS = [LargestLogit]
