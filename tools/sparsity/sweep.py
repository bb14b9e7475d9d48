"""The sweep: from one starting checkpoint, an equal training for every lambda, with and without the optional
event sites; then what each model reads and how well it predicts, on its integers.

Everything lies in one folder and is resumable: a training goes on where it was, a finished row is not done
again.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from symlight.base.errors import UserError
from symlight.base.json_file import read_object
from symlight.base.provenance import commit
from symlight.model.config import OPTIONAL_SITES, ModelShape
from symlight.model.evaluate import Evaluation, evaluate
from symlight.model.package import Package, PackageMeta, load_package, save_package
from symlight.model.projection import block_projections, head_projections, mac_density
from symlight.model.reference import SITES
from symlight.model.training.corpus import Corpus
from symlight.model.training.float_model import FloatConstants
from symlight.model.training.quantise import quantise, read_checkpoint
from symlight.model.training.settings import TrainingConfig
from symlight.model.training.trainer import train

RESULTS = "sweep.json"
LAMBDAS = (0.0, 0.5, 0.75, 1.0, 2.0, 4.0)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is trained. Budgets are optimiser steps, so a row can be repeated.

    `start_rate`, `rate`: peak learning rates of the start and of each row.
    """

    shape: ModelShape
    lambdas: tuple[float, ...] = LAMBDAS
    start_steps: int = 1200
    steps: int = 250
    batch: int = 16
    sequence: int = 256
    start_rate: float = 1e-2
    rate: float = 3e-3  # "a reduced initial rate", as the paper says
    seed: int = 0
    heldout_tokens: int | None = None  # of the held-out text, that the integers are measured on

    def config(self, *, start: bool, strength: float = 0.0) -> TrainingConfig:
        """Of the start, or of a row."""
        steps = self.start_steps if start else self.steps
        return TrainingConfig(
            seconds=None,
            steps=steps,
            batch=self.batch,
            sequence=self.sequence,
            peak_rate=self.start_rate if start else self.rate,
            strength=strength,
            seed=self.seed,
            evaluate_every=max(1, steps // 2),
        )

    def to_json(self) -> dict:
        data: dict = json.loads(json.dumps(asdict(self)))  # tuples become lists
        return data


@dataclass
class Row:
    """A trained model. Densities are means over the layers; `bytes_a_token`: INT8 weights that a decode pass
    reads; `mac_density`: r of equations 4 to 7, head included."""

    strength: float
    sites: list[str]
    bits_per_byte: float
    float_bits_per_byte: float
    densities: dict[str, float]
    bytes_a_token: int
    mac_density: float
    measured: dict = field(default_factory=dict)  # of `measure`

    @property
    def name(self) -> str:
        return f"{'+'.join(self.sites) or 'published'}, lambda {self.strength:g}"


def work(shape: ModelShape, found: Evaluation, sites: tuple[str, ...]) -> tuple[int, float]:
    """(bytes of INT8 weights of a decode pass, MAC density r) at measured densities."""
    out = found.out_densities if "out" in sites else np.ones(shape.layers)
    matrices = [
        one
        for layer, share in zip(found.densities, out, strict=True)
        for one in block_projections(shape, layer, float(share))
    ]
    matrices += head_projections(shape, found.head_densities if "head" in sites else (1.0, 1.0))
    return round(sum(one.density * one.macs for one in matrices)), mac_density(matrices)


def _training(plan: dict) -> dict:
    """What all rows of a plan share: further lambdas may be added to a sweep."""
    return {name: value for name, value in plan.items() if name != "lambdas"}


class Sweep:
    """A plan in a folder."""

    def __init__(self, folder: Path, plan: Plan, corpus: Corpus, console):
        self._folder, self._plan, self._corpus, self._console = folder, plan, corpus, console
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / RESULTS
        self.rows: dict[str, Row] = {}
        if self._file.is_file():
            known = read_object(self._file, "remove it")
            if _training(known.get("plan", {})) != _training(plan.to_json()):
                raise UserError(f"{self._file} belongs to another plan; choose another folder, or remove it")
            self.rows = {name: Row(**row) for name, row in known["rows"].items()}

    def _keep(self) -> None:
        about = {
            "commit": commit(),
            "plan": self._plan.to_json(),
            "rows": {name: asdict(row) for name, row in self.rows.items()},
        }
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        new.replace(self._file)

    def run(self) -> list[Row]:
        """All rows, those of the published model first; trained by lambda, so that both kinds advance."""
        plan, start = self._plan, self._folder / "start"
        train(
            self._corpus, start, shape=plan.shape, training=plan.config(start=True), console=self._console
        )  # fmt: skip
        for strength in plan.lambdas:
            for sites in ((), OPTIONAL_SITES):
                name = f"{'all' if sites else 'published'}-{strength:g}"
                if name not in self.rows:
                    self.rows[name] = self._row(name, start, sites, strength)
                    self._keep()
        return sorted(self.rows.values(), key=lambda row: (len(row.sites), row.strength))

    def package(self, row: Row) -> Package:
        """The package of a row."""
        return load_package(
            self._folder / f"{'all' if row.sites else 'published'}-{row.strength:g}" / "package"
        )

    def set_measured(self, row: Row, measured: dict) -> None:
        """Keep what was measured of a row's package."""
        row.measured |= measured
        self._keep()

    def _row(self, name: str, start: Path, sites: tuple[str, ...], strength: float) -> Row:
        plan, folder = self._plan, self._folder / name
        # with lambda 0 the published model keeps its fixed thresholds: the base of all comparisons
        constants = FloatConstants(event_sites=sites, trained_thresholds=bool(sites) or strength > 0)
        report = train(
            self._corpus,
            folder,
            shape=plan.shape,
            constants=constants,
            training=plan.config(start=False, strength=strength),
            console=self._console,
            start=start / "model.safetensors",
            tokenizer=start / "tokenizer.model",
        )
        integers, scale = quantise(read_checkpoint(folder / "model.safetensors"))
        meta = PackageMeta(
            name=name,
            description=f"sweep over lambda: {strength:g}, event sites {', '.join(sites) or 'as published'}",
            eos=2,
            logit_scale=scale,
            provenance={"steps": report["steps"], "lambda": strength, "start_steps": plan.start_steps},
        )
        save_package(folder / "package", integers, meta, (folder / "tokenizer.model").read_bytes())
        tokens = np.load(folder / "heldout_tokens.npy")
        whole = len(tokens)
        tokens = tokens[: plan.heldout_tokens]
        found = evaluate(integers, scale, tokens, sequence=plan.sequence)
        size, density = work(plan.shape, found, integers.event_sites)
        densities = dict(zip(SITES, found.densities.mean(axis=0).round(4).tolist(), strict=True))
        a, g = found.head_densities
        densities |= {
            "out": round(float(found.out_densities.mean()), 4),
            "head": round(a, 4),
            "head_g": round(g, 4),
        }
        return Row(
            strength=strength,
            sites=list(sites),
            bits_per_byte=round(found.bits_per_byte(whole, report["heldout_bytes"]), 4),
            float_bits_per_byte=report["heldout_bits_per_byte"],
            densities=densities,
            bytes_a_token=size,
            mac_density=round(density, 4),
        )
