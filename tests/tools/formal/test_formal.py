"""The formal proofs, proofs of broken designs, and checks of the prover. Needs the extra `evidence`."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Signal
from amaranth.hdl._ast import AnySeq

from symlight.base.errors import UserError
from symlight.tools.formal import catalogue
from symlight.tools.formal import evidence as formal
from symlight.tools.formal.prover import Problem, missing_tools, slug

needs_tools = pytest.mark.skipif(
    bool(missing_tools()),
    reason=f"{', '.join(missing_tools())}: install the extra `evidence` to run formal proofs",
)


def _marks(proof):
    return () if proof.fast else (pytest.mark.slow, pytest.mark.timeout(3600))


PROOFS = [pytest.param(proof, id=proof.__name__, marks=_marks(proof)) for proof in catalogue.PROOFS]
BROKEN = [
    pytest.param(proof, wrong, id=f"{proof.__name__}-{slug(wrong)}", marks=_marks(proof))
    for proof in catalogue.PROOFS
    for wrong in proof.broken
]


@needs_tools
@pytest.mark.parametrize("proof", PROOFS)
def test_proof(proof, tmp_path):
    whole = Problem(proof(), tmp_path, proof.__name__, proof.assumed)
    assert whole.claims
    outcomes = [getattr(whole, method)(depth) for method, depth in formal.depths(proof).items()]
    for outcome in outcomes:
        assert outcome.passed, f"{outcome.method}: {outcome.names}\n{outcome.log[-1000:]}"


@needs_tools
@pytest.mark.parametrize("proof, wrong", BROKEN)
def test_broken_design(proof, wrong, tmp_path):
    assert formal.check_broken(proof, wrong, tmp_path)["found"]


def test_every_proof_can_fail():
    """A proof without broken designs is another size of one that has them."""
    for proof in catalogue.PROOFS:
        assert any(other.broken for other in catalogue.PROOFS if other.claim is proof.claim), proof.__name__


class _Counting(Elaboratable):
    """A counter that may go on in any cycle, and `claims` about it."""

    def __init__(self, claims):
        self._claims = claims

    def elaborate(self, platform):
        m = Module()
        count = Signal(4)
        m.d.sync += count.eq(count + AnySeq(1))
        self._claims(m, count)
        return m


def _outcome(method, claims, tmp_path, **options):
    return getattr(Problem(_Counting(claims), tmp_path, "counting", **options), method)(8)


@needs_tools
def test_prover_names_what_fails(tmp_path):
    def claims(m, count):
        m.d.comb += [Assert(count < 5, "count below 5"), Assert(count < 16, "count below 16")]

    outcome = _outcome("bmc", claims, tmp_path)
    assert not outcome.passed and outcome.names == (slug("count below 5"),)
    assert _outcome("bmc", claims, tmp_path, only="count below 16").passed


@needs_tools
def test_prover_sees_contradicting_assumptions(tmp_path):
    def claims(m, count):
        m.d.comb += [Assume(count != 0), Assert(count < 5, "count below 5")]

    assert not _outcome("bmc", claims, tmp_path).passed


@needs_tools
def test_prover_sees_what_never_happens(tmp_path):
    def claims(m, count):
        m.d.comb += [Assume(count < 3), Cover(count == 2, "two"), Cover(count == 4, "four")]

    outcome = _outcome("cover", claims, tmp_path)
    assert not outcome.passed and outcome.names == ("four",)


@needs_tools
def test_induction_fails_where_a_bounded_check_does_not(tmp_path):
    def claims(m, count):
        m.d.comb += Assert(count != 12, "never 12")

    assert _outcome("bmc", claims, tmp_path).passed
    assert not _outcome("induction", claims, tmp_path).passed


def test_without_tools_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(formal, "missing_tools", lambda: ["yices-smt2"])
    with pytest.raises(UserError, match="yices-smt2.*evidence"):
        formal.run_formal(tmp_path)
