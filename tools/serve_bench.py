"""`python -m symlight.tools.serve_bench`: a server under 1 and 8 clients, in turns; benchmarks/serve.json.

Every round loads the server with each number of clients once, with the same mix of requests, so that a change
of the machine's load meets all alike. Figures are medians over the rounds; ratios are medians of the ratios
within a round. Server and clients share the machine.

The demo model's pass is far cheaper than the HTTP around it; that of the 194M shape is not. The latter has
random weights, a tokenizer of made words, and a scale of logits at which sampling has a choice.
"""

import argparse
import asyncio
import io
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import sentencepiece

from symlight.base.files import write_whole
from symlight.base.optional import present
from symlight.base.provenance import commit
from symlight.cpu.engine import Engine, Feed, Session, Want
from symlight.cpu.weights import Weights
from symlight.host.bench.serve_load import PROMPTS, Load, load_json, mixed_asks, run_load
from symlight.host.library.model import open_model
from symlight.model.config import ModelShape, preset
from symlight.model.package import PackageMeta, save_package
from symlight.model.synthetic import calibrated

CLIENTS = (1, 8)
SEED, DENSITY = 1, 0.24  # of the random weights
SPREAD = 2.5  # standard deviation of their logits, in natural logarithms
LONGEST = 48  # tokens of an answer
DEMO, LARGE = "demo", "194m"
OTHERS = ("long", "replicas")  # parts of the file that other commands measure


def made_words(count: int) -> bytes:
    """A SentencePiece model of `count` words, those of the prompts among them."""
    known = dict.fromkeys(" ".join(PROMPTS).split())
    words = [*known, *(f"w{number}" for number in range(count))]
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words), model_writer=content, model_type="word", vocab_size=count,
        hard_vocab_limit=False, character_coverage=1.0, minloglevel=2, num_threads=1,
    )  # fmt: skip
    return content.getvalue()


def large_package(folder: Path, shape: ModelShape | None = None) -> Path:
    """The package with random weights, made unless it is there; some minutes."""
    path = folder / LARGE
    if path.exists():
        return path
    shape = shape or preset(LARGE)
    model, density = calibrated(shape, SEED, DENSITY)
    with Engine(Weights.pack(model), 1) as engine:
        tokens = list(range(3, min(40, shape.vocab)))
        logits = engine.run([Feed(Session.new(shape), tokens, Want.LAST, logits=True)])[0].logits
    meta = PackageMeta(
        name=LARGE, synthetic=True, logit_scale=SPREAD / float(np.std(present(logits))),
        provenance={"preset": LARGE, "seed": SEED, "density": round(density, 4)},
    )  # fmt: skip
    save_package(path, model, meta, made_words(shape.vocab))
    return path


@contextmanager
def server(package: str, device: str) -> Iterator[str]:
    """The address of a server on a free port."""
    words = ["serve", "--model", package, "--device", device, "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "symlight.host.cli", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        address = process.stdout.readline().partition(" ")[0]
        if not address.startswith("http"):
            raise RuntimeError(f"the server of {package} ended with status {process.wait()}")
        yield address
    finally:
        process.terminate()
        process.wait()


def rounds_of(package: str, device: str, rounds: int, seconds: float) -> list[list[dict]]:
    """What came of every round, by CLIENTS. Every text is compared with the one that the model gives alone,
    on the reference, or with random weights, on the CPU engine with the reference's sampler."""
    found = []
    with server(package, device) as address, open_model(package, alone(package)) as model:
        for number in range(rounds):
            asks = mixed_asks(48, number + 1, LONGEST, model)
            found.append(
                [loaded(Load(url=address, clients=count, seconds=seconds), asks) for count in CLIENTS]
            )
            print(
                *(f"{one['clients']} clients: {one['requests_per_second']}/s" for one in found[-1]), sep=", "
            )
    return found


def alone(package: str) -> str:
    """The device that gives the texts to compare with."""
    return "reference" if package == DEMO else "cpu"


def loaded(load: Load, asks: Sequence, seconds: float | None = None) -> dict:
    """What came of a load (of other `seconds` where given); a `RuntimeError` unless every answer is right."""
    load = load if seconds is None else replace(load, seconds=seconds)
    tally, took = asyncio.run(run_load(load, asks))
    for what in (tally.wrong, tally.failed):
        if what:
            raise RuntimeError(f"{len(what)} requests went wrong, the first: {what[0]}")
    return load_json(load, tally, took)


def summary(rounds: Sequence[Sequence[dict]]) -> dict:
    """Medians by clients, ratios to one client, and the rounds themselves.

    `ratios` are of requests; `token_ratios` of tokens asked for, which do not move with the lengths that
    chance has picked.
    """
    found: dict = {
        "medians": {str(count): _medians([one[i] for one in rounds]) for i, count in enumerate(CLIENTS)},
        "ratios": {},
        "token_ratios": {},
        "ratios_by_round": {},
    }
    for i, count in enumerate(CLIENTS[1:], 1):
        name = f"clients_{count}_over_{CLIENTS[0]}"
        requests, tokens = (
            [round(one[i][rate] / one[0][rate], 3) for one in rounds]
            for rate in ("requests_per_second", "tokens_per_second_at_most")
        )
        found["ratios"][name] = statistics.median(requests)
        found["token_ratios"][name] = statistics.median(tokens)
        found["ratios_by_round"][name] = requests
    return found | {"rounds": rounds}


def _used(side: str, load: dict) -> float:
    used: float = load["processors_used"][side]
    return used


def _spent(side: str, load: dict) -> float:
    """Milliseconds of a processor per request."""
    return 1000 * _used(side, load) / float(load["requests_per_second"])


def _medians(loads: Sequence[dict]) -> dict[str, float]:
    """Of the loads with one number of clients."""

    def median(value: Callable[[dict], float]) -> float:
        return round(statistics.median(map(value, loads)), 3)

    found = {
        "requests_per_second": median(lambda load: load["requests_per_second"]),
        "tokens_per_second_at_most": median(lambda load: load["tokens_per_second_at_most"]),
        "first_token_p50_ms": median(lambda load: load["time_to_first_token_ms"]["p50"]),
    }
    for side in ("server", "clients"):
        found[f"{side}_processors_used"] = median(partial(_used, side))
        found[f"{side}_ms_per_request"] = median(partial(_spent, side))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/serve.json"))
    parser.add_argument("--build", type=Path, default=Path("build/serve"), help="where the large package is")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each load")
    parser.add_argument("--models", nargs="+", choices=(DEMO, LARGE), default=[DEMO, LARGE])
    parser.add_argument("--prepare", action="store_true", help="only make the large package")
    values = parser.parse_args(arguments)
    packages = {DEMO: DEMO}
    if LARGE in values.models:
        packages[LARGE] = str(large_package(values.build))
    if values.prepare:
        return
    known = json.loads(values.out.read_text(encoding="utf-8")) if values.out.exists() else {}
    load_average = os.getloadavg()[0]
    models = dict(known.get("models", {}))
    for name in values.models:
        rounds = rounds_of(packages[name], values.device, values.rounds, values.seconds)
        models[name] = {
            "commit": commit(),
            "machine": f"{platform.machine()}, {os.cpu_count()} processors",
            "device": values.device,
            "load_average": round(load_average, 2),  # when it began
            **summary(rounds),
        }
    result = {"models": models} | {name: known[name] for name in OTHERS if name in known}
    write_whole(values.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
