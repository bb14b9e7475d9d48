"""What an estimate says about a build: decode and prompt passes, operations, ports."""

from dataclasses import dataclass

import numpy as np

from symlight.hw.compiler.layout import Layout
from symlight.hw.config import Engine
from symlight.model.config import ModelShape
from symlight.model.reference import SITES

from .memory import Memory
from .passes import Estimate, estimate_passes
from .workload import active_inputs, head_inputs

PORTS = 64  # drawn together, of as many passes as it takes: their mean moves by some tenths of a percent


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked.

    Members
    -------
    engine : Engine
        With the switches of its build.
    shape : ModelShape
    memory : Memory
    densities : array [layers, 4]
        Share of nonzero inputs by layer and SITES.
    out, head : array [layers], pair of floats, or None
        Densities of W_O's input and of the head's a and g, where these are event sites (`out`: 1 where not).
    prefix, new_tokens : int
        Tokens of the prompt, and generated: which slots are populated.
    seed : int
    """

    engine: Engine
    shape: ModelShape
    memory: Memory
    densities: np.ndarray
    prefix: int = 32
    new_tokens: int = 8
    seed: int = 1
    out: np.ndarray | None = None
    head: tuple[float, float] | None = None


def ask(question: Question) -> dict:
    """Cycles of a decode pass and of a prompt pass without the head, the same keys as in the result of
    `symlight bench`."""
    layout = Layout(question.engine, question.shape)
    rng = np.random.default_rng(question.seed)
    samples = max(2, PORTS // question.engine.channels)
    active = active_inputs(question.shape, question.densities, samples, rng, question.out)
    hidden = None if question.head is None else head_inputs(question.shape, question.head, samples, rng)
    # Passes in the middle of each kind: the first decode pass has `prefix` slots before it, the first prompt
    # pass none.
    middle = question.prefix + (question.new_tokens - 2) / 2, (question.prefix - 2) / 2
    decode, prompt = (
        estimate_passes(
            layout,
            question.memory,
            active,
            np.full(samples, max(0, int(slots))),
            head=head,
            seed=question.seed,
            head_active=hidden,
        )
        for slots, head in zip(middle, (True, False), strict=True)
    )
    engine, clock = question.engine, question.memory.clock_mhz
    cycles = float(decode.cycles.mean())
    return {
        "decode_cycles": round(cycles),
        "prompt_cycles": round(float(prompt.cycles.mean())),
        "passes_per_second": round(clock * 1e6 / cycles, 1),
        "clock_mhz": clock,
        "read_share_of_ports": float(decode.beats.mean()) / (engine.channels * cycles),
        "bytes_read": int(decode.beats.mean()) * engine.beat_bytes,
        "phases": _phases(decode),
        "density": _density(question),
    }


def _density(question: Question) -> dict[str, float]:
    found = dict(zip(SITES, np.asarray(question.densities).mean(axis=0).round(4).tolist(), strict=True))
    if question.out is not None:
        found["out"] = round(float(np.mean(question.out)), 4)
    if question.head is not None:
        found |= zip(("head", "head_g"), (round(share, 4) for share in question.head), strict=True)
    return found


def _phases(estimate: Estimate) -> dict:
    return {
        name: {"stream": round(float(stream.mean()), 1), "hand_over": round(float(gap.mean()), 1)}
        for name, (stream, gap) in estimate.phases.items()
    }
