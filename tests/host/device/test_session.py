"""Turns, and the reference beside them: on the reference machine and on the driver over a fake card."""

import re
from dataclasses import replace

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.host.device.session import Session
from symlight.host.device.verify import VerificationError, Verifier
from symlight.hw.interface import Command
from symlight.model.reference import SITES
from tests.benches.host.host_bench import open_accelerator

PROMPT = [5, 6, 7, 8]


@pytest.fixture(params=["reference", "fake"])
def machine(request, card, model):
    return ReferenceMachine(model) if request.param == "reference" else open_accelerator(card)


def test_one_run_and_one_token_a_run_are_the_same(machine, model):
    whole = Session(machine, verifier=Verifier(model)).turn(PROMPT, 6)
    state = machine.read_state()
    machine.reset()
    single = Session(machine, verifier=Verifier(model)).turn(PROMPT, 6, interactive=True)
    assert machine.read_state() == state
    assert single.verified is whole.verified is True
    ours, theirs = single.result, whole.result
    assert ours.tokens == theirs.tokens and ours.stop_reason == theirs.stop_reason == "length"
    assert np.array_equal(ours.active, theirs.active)
    assert (ours.prompt_passes, ours.decode_passes) == (theirs.prompt_passes, theirs.decode_passes) == (4, 5)
    if theirs.cycles is not None:
        assert (ours.cycles.prompt, ours.cycles.decode) == (theirs.cycles.prompt, theirs.cycles.decode)
        assert ours.bytes_read == theirs.bytes_read and ours.cycles.phases == theirs.cycles.phases


def test_twenty_turns(machine, model):
    session = Session(machine, verifier=Verifier(model))
    rng = np.random.default_rng(1)
    ingested = 0
    for turn in range(20):
        prompt = rng.integers(0, model.shape.vocab, int(rng.integers(0 if turn else 1, 5))).tolist()
        result = session.turn(prompt, int(rng.integers(0, 5)), interactive=bool(turn % 2)).result
        ingested += len(prompt) + len(result.tokens)
        assert machine.position == ingested - 1, "what the device holds must not be ingested again"
    assert machine.position > 2 * model.shape.slots


@pytest.mark.parametrize("interactive", [False, True])
def test_eos_ends_a_turn_and_stays_pending(machine, model, interactive):
    expected = ReferenceMachine(model).run(PROMPT, 6, None).tokens
    eos = expected[2]
    count = expected.index(eos) + 1
    session = Session(machine, eos=eos, verifier=Verifier(model))
    result = session.turn(PROMPT, 6, interactive=interactive).result
    assert (result.tokens, result.stop_reason, result.passes) == (
        expected[:count],
        "eos",
        len(PROMPT) + count - 1,
    )
    assert machine.pending == eos
    session.turn([9], 3, interactive=interactive)


def test_eos_as_the_first_token(machine, model):
    eos = ReferenceMachine(model).run(PROMPT, 1, None).tokens[0]
    result = Session(machine, eos=eos, verifier=Verifier(model)).turn(PROMPT, 5, interactive=True).result
    assert (result.tokens, result.stop_reason) == ([eos], "eos")


def test_no_new_tokens_only_ingests(machine, model):
    session = Session(machine, verifier=Verifier(model))
    result = session.turn(PROMPT, 0).result
    assert (result.tokens, result.stop_reason, result.passes) == ([], "length", 3)
    assert (machine.position, machine.pending) == (3, 8)
    assert session.turn([], 2).result.tokens == ReferenceMachine(model).run(PROMPT, 2, None).tokens


def test_a_turn_ends_when_the_host_says_so(machine, model):
    session = Session(machine, verifier=Verifier(model))
    seen = []
    result = session.turn(
        PROMPT, 9, interactive=True, on_token=seen.append, should_stop=lambda: len(seen) == 3
    ).result
    assert (len(result.tokens), result.stop_reason) == (3, "stop")
    assert result.tokens == seen == ReferenceMachine(model).run(PROMPT, 3, None).tokens
    session.turn([1], 2)  # and the conversation goes on


def test_an_empty_session_needs_a_prompt(machine):
    with pytest.raises(UserError, match="prompt is empty"):
        Session(machine).turn([], 3)


def test_reset_and_state_files(machine, model, tmp_path):
    session = Session(machine, verifier=Verifier(model))
    session.turn(PROMPT, 20)
    session.save(tmp_path / "state")
    expected = session.turn([1], 4).result.tokens
    session.reset()
    session.turn([3], 2)
    session.load(tmp_path / "state")
    assert session.turn([1], 4).result.tokens == expected
    with pytest.raises(UserError, match="cannot write the session state"):
        session.save(tmp_path / "no" / "folder")
    with pytest.raises(UserError, match="cannot read the session state"):
        session.load(tmp_path / "nothing")
    (tmp_path / "bad").write_bytes(b"123")
    with pytest.raises(UserError, match="damaged"):
        session.load(tmp_path / "bad")


# ---- a card that computes something else -------------------------------------------------------------------


def block(model, layer: int, **parts):
    """`model` with parts of one block replaced."""
    blocks = list(model.blocks)
    blocks[layer] = replace(blocks[layer], **parts)
    return replace(model, blocks=tuple(blocks))


def flipped(projection):
    return replace(projection, weight=-projection.weight)


BROKEN = {
    "operation embed: membrane": lambda m: replace(m, embedding_table=m.embedding_table // 2),
    "layer 0, operation qkv: ring k, slot 0, head 0": lambda m: block(m, 0, k=flipped(m.blocks[0].k)),
    "layer 1, operation qkv: ring v": lambda m: block(m, 1, v=flipped(m.blocks[1].v)),
    "layer 0, operation decay: decay state": lambda m: block(m, 0, decay=flipped(m.blocks[0].decay)),
    "layer 0, operation attention or out": lambda m: block(m, 0, out=flipped(m.blocks[0].out)),
    "layer 1, operation up": lambda m: block(m, 1, up=flipped(m.blocks[1].up)),
    "layer 0, operation down": lambda m: block(m, 0, down=flipped(m.blocks[0].down)),
    "operation is the head": lambda m: replace(m, head=replace(m.head, fused_weight=-m.head.fused_weight)),
}


@pytest.mark.parametrize("place", BROKEN)
def test_verification_names_the_place(card, model, place):
    device = open_accelerator(card)
    card.model = BROKEN[place](model)
    session = Session(device, verifier=Verifier(model))
    with pytest.raises(VerificationError, match=place) as caught:
        session.turn(PROMPT, 12)
    assert re.search("token [0-9]+ differs|ingesting (prompt )?token [0-9]+ ", str(caught.value)), (
        caught.value
    )
    assert Command.RESTORE in card.commands


def test_verification_names_the_first_wrong_token(card, model):
    expected = ReferenceMachine(model).run(PROMPT, 6, None).tokens
    device = open_accelerator(card)
    card.tokens = expected[:4] + [expected[4] ^ 1, expected[5]]
    with pytest.raises(
        VerificationError,
        match=f"token 4 differs: the device says {expected[4] ^ 1}, the reference {expected[4]}",
    ):
        Session(device, verifier=Verifier(model)).turn(PROMPT, 6)
    card.tokens = expected[:2]
    device.reset()
    with pytest.raises(VerificationError, match="token 2 differs: the device stopped after 2 tokens"):
        Session(device, verifier=Verifier(model)).turn(PROMPT, 6)


def test_verification_compares_the_state(card, model):
    device = open_accelerator(card)

    def damage(state):
        state.ring_v[1, 2, 40] += 1

    card.after_pass = damage
    with pytest.raises(
        VerificationError,
        match="the session state does not: layer 1, operation qkv: ring v, slot 2, head 1, element 8",
    ):
        Session(device, verifier=Verifier(model)).turn(PROMPT, 0)


@pytest.mark.parametrize("layer, site", [(0, 0), (1, 3)])
def test_right_tokens_with_wrong_event_counts_are_a_difference(card, model, layer, site):
    device = open_accelerator(card)
    run = device.run

    def miscounts(*arguments):
        result = run(*arguments)
        result.active[layer, site] += 1
        return result

    device.run = miscounts
    with pytest.raises(VerificationError, match=f"event counts do not: layer {layer}, {SITES[site]}"):
        Session(device, verifier=Verifier(model)).turn(PROMPT, 3)


@pytest.mark.parametrize("name", ["prompt_passes", "decode_passes"])
def test_a_wrong_number_of_passes_is_a_difference(card, model, name):
    device = open_accelerator(card)
    run = device.run

    def miscounts(*arguments):
        result = run(*arguments)
        return replace(result, **{name: getattr(result, name) + 1})

    device.run = miscounts
    with pytest.raises(VerificationError, match=name.replace("_", " ")):
        Session(device, verifier=Verifier(model)).turn(PROMPT, 3)
