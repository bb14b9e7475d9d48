"""Train the float model on a text, and write what the quantiser and the tests read.

`train` writes into one folder:

    tokenizer.model      SentencePiece BPE: 0 <unk>, 1 <s>, 2 </s>, 3 newline, then pieces
    model.safetensors    the float model's state, float32; replaced at every evaluation
    train.json           shape, constants, seed, steps, held-out quality, densities, history
    progress.csv         a row an evaluation: loss, bits a byte, penalty, density by site, bytes a token
    resume.pt            everything that is needed to go on
    heldout_tokens.npy   token ids of the held-out text, int32 [tokens]; of a corpus also heldout.txt

A document becomes its lines joined by newlines and </s>; a corpus is the documents one after the other. <s>
stands only at position 0 of a session, and may be left out: a quarter of the training sequences start with
it, in front of the beginning of a line, and the others start anywhere.

The learning rate and lambda are functions of the share of the budget that is spent, where the budget is wall
time or steps: a busy machine trains less, but always finishes. With `steps` a run can be repeated bit for bit
on the same machine, stopped and resumed or not; with `seconds` it cannot.

Started by torchrun, several processes share a training: each draws sequences of its own, gradients are
averaged, and the first one writes the files.
"""

import math
import time
from collections import deque
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sentencepiece import SentencePieceProcessor
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from symlight.base.errors import UserError

from ..config import ModelShape, preset
from . import resume
from .corpus import Corpus
from .data import BOS, EOS, Batches, Data, prepare
from .float_model import FloatConstants, FloatModel
from .objective import Objective, active_bytes
from .places import Place, place
from .records import line, write
from .settings import TrainingConfig
from .starts import load_start
from .thresholds import LEAST


def evaluate(
    model: FloatModel, tokens: np.ndarray, byte_count: int, *, sequence: int = 256, batch: int = 16
) -> dict:
    """Quality on `tokens` (int ids), cut in sequences of `sequence` that each start from a fresh state.

    Gives `bits_per_byte` over `byte_count` bytes of text, `perplexity` a token, `loss` (nats a token) and
    `layers`, the mean densities a layer of `FloatModel.forward`.
    """
    data = torch.from_numpy(tokens.astype(np.int64))
    whole = (len(data) - 1) // sequence * sequence
    inputs = list(data[:whole].view(-1, sequence).split(batch))
    targets = list(data[1 : whole + 1].view(-1, sequence).split(batch))
    if whole < len(data) - 1:
        inputs.append(data[None, whole:-1])
        targets.append(data[None, whole + 1 :])
    device, total, seen = next(model.parameters()).device, 0.0, []
    with torch.no_grad(), _precision("highest"):
        for x, y in zip(inputs, targets, strict=True):
            watch: list[dict] = []
            logits = model(x.to(device), watch).flatten(0, 1)
            total += float(functional.cross_entropy(logits, y.to(device).flatten(), reduction="sum"))
            seen.append((x.numel(), watch))
    loss = total / (len(data) - 1)
    weight = sum(count for count, _ in seen)
    layers = [
        {
            site: round(sum(count * watch[layer][site] for count, watch in seen) / weight, 4)
            for site in seen[0][1][layer]
        }
        for layer in range(model.shape.layers)
    ]
    return {
        "bits_per_byte": loss * len(data) / math.log(2) / byte_count,
        "perplexity": math.exp(loss),
        "loss": loss,
        "layers": layers,
    }


def train(
    corpus: Corpus | Data,
    folder: Path,
    *,
    shape: ModelShape | None = None,
    constants: FloatConstants | None = None,
    training: TrainingConfig | None = None,
    console: Console | None = None,
    start: Path | None = None,
    tokenizer: Path | None = None,
    stop_after: int | None = None,
) -> dict:
    """Train a model on `corpus`, write the files named above into `folder`, return train.json's content.

    By default `shape` is the demonstration model's and the budget is 45 minutes. Uses as many threads as
    torch is set to. Progress and one line an evaluation go to `console`. A training that was left in
    `folder` is resumed. `start`: a checkpoint whose tensors are the first ones. `tokenizer`: of a corpus,
    instead of training one. `stop_after`: leave after so many steps of the whole training; the next call
    goes on.
    """
    shape, constants = shape or preset("demo"), constants or FloatConstants()
    training, console, folder = training or TrainingConfig(), console or Console(), Path(folder)
    with place(training) as here:
        if not here.leads:
            console = Console(quiet=True)
        if here.size > 1 and (not isinstance(corpus, Data) or (folder / "shards").exists()):
            raise UserError(
                "several processes share token shards; write them first (train --data FILE --shards-only), "
                "and give their folder with --data and another --out"
            )
        data = corpus if isinstance(corpus, Data) else prepare(corpus, folder, shape.vocab, tokenizer)
        return _train(data, folder, shape, constants, training, console, start, stop_after, here)


def _train(data, folder, shape, constants, training, console, start, stop_after, here: Place) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(training.seed)
    model = FloatModel(shape, constants)
    if start is not None:
        console.print(load_start(model, start), highlight=False, soft_wrap=True)
    run = _Run(model.to(here.device), data, training, here)
    settings = {"shape": shape.to_json(), "constants": constants.to_json(), "training": asdict(training)}
    report = settings | {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "train_tokens": len(data.tokens),
        "heldout_tokens": len(data.heldout),
        "heldout_bytes": data.heldout_bytes,
        "start": None if start is None else Path(start).name,
        "history": [],
    }
    expected = settings | {"processes": here.size}
    state = resume.load(folder, expected)
    if state is not None:
        run.restore(state)
        report = state["report"]
        console.print(f"resumed at step {run.step}", highlight=False)
    console.print(
        f"{report['parameters']:,} parameters; {len(data.tokens):,} training tokens; held out: "
        f"{len(data.heldout):,} tokens, {data.heldout_bytes:,} bytes; {here.device.type}"
        f"{', bf16' if here.bf16 else ''}, {here.size} processes",
        highlight=False,
    )
    columns = BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("training", total=1.0)
        while run.spent < 1.0 and (stop_after is None or run.step < stop_after):
            run.advance()
            progress.update(bar, completed=run.spent, description=f"step {run.step}, loss {run.loss:.3f}")
            if run.spent >= 1.0 or run.step % training.evaluate_every == 0 or run.step == stop_after:
                _evaluate(run, folder, report, console, here, expected)
    return report


def _evaluate(run: "_Run", folder: Path, report: dict, console: Console, here: Place, expected: dict) -> None:
    """Quality, then every file; the other processes wait for it."""
    generators = here.gather(run.batches.random.get_state())
    if here.leads:
        data, training = run.data, run.training
        result = evaluate(run.model, data.heldout, data.heldout_bytes, sequence=training.sequence)
        result.update(step=run.step, seconds=round(run.seconds, 1), train_loss=run.loss, penalty=run.penalty)
        sites = run.model.constants.event_sites
        result["bytes_a_token"] = round(active_bytes(run.model.shape, result["layers"], sites))
        tokens = run.step * training.batch * training.sequence * training.accumulate * here.size
        write(folder, run.model, report, result, tokens)
        console.print(line(result), highlight=False, soft_wrap=True)
        resume.save(folder, run.state(generators) | {"expected": expected, "report": report})
    here.gather(None)  # a barrier


class _Run:
    """A training under way: everything that changes with a step."""

    def __init__(self, model: FloatModel, data: Data, training: TrainingConfig, here: Place):
        self.model, self.data, self.training, self.here = model, data, training, here
        self.batches = Batches(data, training, here.rank)
        self.objective: nn.Module = Objective(model)
        if here.size > 1:
            self.objective = DistributedDataParallel(self.objective)
        self.optimizer = torch.optim.AdamW(_groups(model, training.weight_decay), betas=(0.9, 0.98), eps=1e-9)
        self.step, self.spent, self.penalty = 0, 0.0, 0.0
        self._recent: deque[float] = deque(maxlen=training.evaluate_every)
        self._before, self._began = 0.0, time.monotonic()

    @property
    def seconds(self) -> float:
        """Wall time of training, those of earlier runs included."""
        return self._before + time.monotonic() - self._began

    @property
    def loss(self) -> float:
        """Mean cross-entropy of the recent steps, nats a token."""
        return sum(self._recent) / max(1, len(self._recent))

    def advance(self) -> None:
        """One step of the optimiser."""
        training, here = self.training, self.here
        for group in self.optimizer.param_groups:
            group["lr"] = training.rate(self.step, self.spent)
        strength, loss, penalty = training.penalty(self.spent), 0.0, 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for part in range(training.accumulate):
            x, y = (tokens.to(here.device) for tokens in self.batches.draw())
            last = part + 1 == training.accumulate
            # gradients meet once a step
            waits = self.objective.no_sync() if here.size > 1 and not last else nullcontext()
            with waits, _precision("medium"):
                with here.autocast():
                    total, task, active = self.objective(x, y, strength)
                (total / training.accumulate).backward()
            loss, penalty = loss + task.item(), penalty + active.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), training.clip)
        self.optimizer.step()
        with torch.no_grad():
            for threshold in self.model.thresholds():
                threshold.clamp_(min=LEAST)
        self.step += 1
        self._recent.append(loss / training.accumulate)
        self.penalty = penalty / training.accumulate
        # all processes must agree on when it ends
        self.spent = max(here.gather(training.spent(self.step, self.seconds)))

    def state(self, generators: list) -> dict:
        """What `restore` takes, with the generators of all processes."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generators": generators,
            "torch": torch.get_rng_state(),
            "step": self.step,
            "spent": self.spent,
            "seconds": self.seconds,
            "recent": list(self._recent),
        }

    def restore(self, state: dict) -> None:
        """Go on where `state` was taken."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.batches.random.set_state(state["generators"][self.here.rank])
        torch.set_rng_state(state["torch"])
        self.step, self.spent, self._before = state["step"], state["spent"], state["seconds"]
        self._recent.extend(state["recent"])
        self._began = time.monotonic()


def sample(
    model: FloatModel,
    tokenizer: SentencePieceProcessor,
    prompt: str,
    *,
    count: int = 64,
    temperature: float = 0.7,
    seed: int = 0,
) -> str:
    """The prompt and up to `count` sampled tokens after it as text; ends at </s>. temperature 0 = greedy."""
    ids = [BOS] + tokenizer.encode(prompt)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad(), _precision("highest"):
        for _ in range(count):
            logits = model(torch.tensor([ids]))[0, -1]
            if temperature:
                choice = torch.multinomial((logits / temperature).softmax(0), 1, generator=generator)
            else:
                choice = logits.argmax()
            ids.append(int(choice))
            if ids[-1] == EOS:
                break
    return tokenizer.decode([token for token in ids if token not in (BOS, EOS)])


def _groups(model: FloatModel, weight_decay: float) -> list[dict]:
    matrices, others = ([p for p in model.parameters() if (p.ndim >= 2) == many] for many in (True, False))
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


@contextmanager
def _precision(name: str):
    """Precision of float32 matrix products inside the block: 'medium' multiplies in bfloat16."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
