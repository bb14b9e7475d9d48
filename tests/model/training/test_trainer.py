"""Real trainings: large texts as shards, resuming to the bit, accumulation, fine-tuning, processes."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch (extra `train`) is not installed")

from symlight.base.errors import UserError  # noqa: E402
from symlight.model.config import preset  # noqa: E402
from symlight.model.training import resume, shards, trainer  # noqa: E402
from symlight.model.training.data import EOS, Batches, prepare_large  # noqa: E402
from symlight.model.training.float_model import FloatConstants, load  # noqa: E402
from symlight.model.training.quantise import quantise, read_checkpoint  # noqa: E402
from symlight.model.training.settings import TrainingConfig  # noqa: E402

SHAPE = replace(preset("tiny"), layers=2, vocab=64)
SPARSE = FloatConstants(event_sites=("out", "head"), trained_thresholds=True)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def config(**changes) -> TrainingConfig:
    usual = dict(seconds=None, steps=12, batch=4, sequence=32, warm_up=3, evaluate_every=4)
    return TrainingConfig(**usual | changes)


def words(count: int, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    return " ".join(rng.choice(["the", "king", "saw", "a", "tree", "and", "man", "spoke"], count))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Two files of 500 short documents each."""
    folder = tmp_path_factory.mktemp("text")
    for name in "ab":
        lines = (f"{words(9, 10 * i)}.\n{words(7, 10 * i + 1)}.\n\n" for i in range(500))
        (folder / f"{name}.txt").write_text("".join(lines))
    return [folder / "a.txt", folder / "b.txt"]


@pytest.fixture(scope="module")
def data(text, tmp_path_factory):
    return prepare_large(text, tmp_path_factory.mktemp("data"), SHAPE.vocab)


def run(data, folder, stop_after=None, start=None, constants=None, **changes):
    return trainer.train(
        data, folder, shape=SHAPE, constants=constants, training=config(**changes), start=start,
        stop_after=stop_after,
    )  # fmt: skip


# ---- shards ----


def test_shards_hold_the_text(text, data, tmp_path):
    shards.write_shards(text, data.tokenizer, tmp_path / "s", EOS, shard_tokens=5000)
    tokens, heldout, size = shards.read_shards(tmp_path / "s", data.tokenizer)
    assert len(tokens.parts) > 2 and all(isinstance(part, np.memmap) for part in tokens.parts)
    documents = list(shards.documents(text))
    assert len(documents) == 1000
    kept = [one for i, one in enumerate(documents) if i % 200 != 199]
    assert data.tokenizer.decode(np.concatenate(tokens.parts).tolist()) == "".join(
        "\n".join(one) for one in kept
    )
    left = [one for i, one in enumerate(documents) if i % 200 == 199]
    assert size == sum(len(line) + 1 for one in left for line in one)
    assert data.tokenizer.decode(heldout.tolist()) == "".join("\n".join(one) for one in left)


def test_sequences_do_not_cross_shards():
    tokens = shards.Tokens([np.arange(10), np.arange(100, 103), np.arange(200, 209)])
    bounds = tokens.starts(5)
    assert bounds.tolist() == [0, 6, 6, 11]
    rows = tokens.gather(np.arange(11), 5, bounds)
    assert rows[5].tolist() == [5, 6, 7, 8, 9] and rows[6].tolist() == [200, 201, 202, 203, 204]
    assert (np.diff(rows, axis=1) == 1).all()


def test_batches_begin_with_bos_at_lines(data):
    x, y = Batches(data, config(batch=64, bos_share=1.0)).draw()
    begun = x[:, 0] == 1
    assert begun.float().mean() > 0.9 and (x[:, 1:] == y[:, :-1]).all()
    starts = {data.tokenizer.id_to_piece(int(token)).strip("▁")[:1] for token in y[begun, 0]}
    assert starts <= set("tksam")  # no line begins within a word or at its end


def test_shards_are_made_once_and_checked(text, data, tmp_path):
    first = prepare_large(text, tmp_path, SHAPE.vocab)
    stamp = (tmp_path / "shards" / "tokens-00000.npy").stat().st_mtime_ns
    again = prepare_large(text, tmp_path, SHAPE.vocab)
    assert (tmp_path / "shards" / "tokens-00000.npy").stat().st_mtime_ns == stamp
    assert len(first.tokens) == len(again.tokens)
    other = prepare_large([tmp_path / "shards"], tmp_path / "other", SHAPE.vocab)
    assert (other.heldout == first.heldout).all()
    about = tmp_path / "shards" / shards.ABOUT
    about.write_text(json.dumps(json.loads(about.read_text()) | {"tokenizer": "0" * 64}))
    with pytest.raises(UserError, match="another tokenizer"):
        prepare_large([tmp_path / "shards"], tmp_path / "other", SHAPE.vocab)


def test_unusable_texts_are_user_errors(text, data, tmp_path):
    with pytest.raises(UserError, match="there is no text"):
        prepare_large([tmp_path / "none"], tmp_path, SHAPE.vocab)
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="UTF-8"):
        list(shards.documents([tmp_path / "bad"]))
    (tmp_path / "short").write_text("a b\n\nc d\n")
    with pytest.raises(UserError, match="give more text"):
        shards.write_shards([tmp_path / "short"], data.tokenizer, tmp_path / "s", EOS)
    with pytest.raises(UserError, match="more than 40000 in a row"):
        Batches(data, config(sequence=40000))


# ---- resuming ----


def test_a_stopped_training_goes_on_to_the_same_bits(data, tmp_path):
    whole = run(data, tmp_path / "whole", constants=SPARSE, strength=1.0)
    run(data, tmp_path / "parts", constants=SPARSE, strength=1.0, stop_after=3)
    assert json.loads((tmp_path / "parts" / "train.json").read_text())["steps"] == 3
    run(data, tmp_path / "parts", constants=SPARSE, strength=1.0, stop_after=6)
    parts = run(data, tmp_path / "parts", constants=SPARSE, strength=1.0)
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert models[0] == models[1]
    # 3 and 6 are evaluations of their own
    assert [entry["step"] for entry in parts["history"]] == [3, 4, 6, 8, 12]
    assert {k: v for k, v in parts["history"][-1].items() if k not in ("seconds",)} == {
        k: v for k, v in whole["history"][-1].items() if k not in ("seconds",)
    }
    assert run(data, tmp_path / "whole", constants=SPARSE, strength=1.0) == whole  # there is nothing to do


def test_a_killed_writer_leaves_the_old_state(data, tmp_path, monkeypatch):
    run(data, tmp_path, stop_after=4)
    before = (tmp_path / resume.FILE).read_bytes()

    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(resume.torch, "save", dies)
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path)
    assert (tmp_path / resume.FILE).read_bytes() == before


def test_other_settings_and_damage_are_refused(data, tmp_path):
    run(data, tmp_path, stop_after=4)
    with pytest.raises(UserError, match="belongs to a training with training"):
        run(data, tmp_path, peak_rate=1e-3)
    (tmp_path / resume.FILE).write_bytes(b"junk")
    with pytest.raises(UserError, match="is not the state of a training"):
        run(data, tmp_path)


# ---- what is trained ----


def test_accumulated_parts_are_one_batch(data, tmp_path):
    """Two parts of four sequences have the gradient of one of eight, but for rounding."""
    torch.manual_seed(0)
    halves = Batches(data, config(batch=4, bos_share=0))
    parts = [halves.draw() for _ in range(2)]

    class Given:
        random = torch.Generator()

        def __init__(self, batches):
            self.draw = iter(batches).__next__

    losses = []
    for accumulate, given in ((2, parts), (1, [tuple(map(torch.cat, zip(*parts, strict=True)))])):
        with trainer.place(config()) as here:
            torch.manual_seed(1)
            one = trainer._Run(trainer.FloatModel(SHAPE), data, config(accumulate=accumulate, clip=1e9), here)
            one.batches = Given(given)
            one.advance()
            losses.append((one.loss, one.model.output_head.output_proj.weight.detach().clone()))
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-5)
    torch.testing.assert_close(losses[0][1], losses[1][1], atol=1e-4, rtol=1e-3)


def test_the_penalty_lowers_the_bytes_and_the_table_says_so(data, tmp_path):
    start = tmp_path / "start"
    run(data, start, steps=20)
    found = {}
    for strength in (0.0, 8.0):
        folder = tmp_path / str(strength)
        found[strength] = run(
            data, folder, start=start / "model.safetensors", constants=SPARSE, strength=strength, steps=40
        )
    assert found[8.0]["bytes_a_token"] < 0.8 * found[0.0]["bytes_a_token"]
    rows = list(csv.DictReader((tmp_path / "8.0" / "progress.csv").open()))
    assert [int(float(row["step"])) for row in rows] == list(range(4, 41, 4))
    assert float(rows[-1]["bytes_a_token"]) == found[8.0]["bytes_a_token"]
    assert 0 < float(rows[-1]["out_in"]) < 1 and 0 < float(rows[-1]["head_in"]) < 1
    assert float(rows[-1]["penalty"]) < float(rows[1]["penalty"])
    integers, _ = quantise(read_checkpoint(tmp_path / "8.0" / "model.safetensors"))
    assert integers.event_sites == ("out", "head")


def test_fine_tuning_takes_the_shared_tensors(data, tmp_path):
    run(data, tmp_path / "a", steps=4)
    file = tmp_path / "a" / "model.safetensors"
    model = trainer.FloatModel(SHAPE, SPARSE)
    said = trainer.load_start(model, file)
    assert "new here: blocks.0.tcam.out_threshold" in said
    assert torch.equal(model.blocks[1].ffn.up.weight, load(file).blocks[1].ffn.up.weight)
    with pytest.raises(UserError, match="give the shape of the checkpoint"):
        trainer.load_start(trainer.FloatModel(replace(SHAPE, ffn=64)), file)
    with pytest.raises(UserError, match="no checkpoint"):
        trainer.load_start(model, tmp_path / "none.safetensors")


def test_bf16_trains(data, tmp_path):
    report = run(data, tmp_path, constants=SPARSE, strength=1.0, precision="bf16")
    assert report["history"][-1]["train_loss"] < 4.2


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_processes_share_a_training(data, text, tmp_path):
    """Both have the same weights at the end; sequences differ. One process alone gives other weights."""
    prepare_large(text, tmp_path / "data", SHAPE.vocab)
    (tmp_path / "shape.json").write_text(json.dumps(SHAPE.to_json()))
    words = ["-m", "symlight.host.cli", "train", "--data", str(tmp_path / "data" / "shards"), "--out"]
    words += [str(tmp_path / "out"), "--shape", str(tmp_path / "shape.json"), "--steps", "6", "--batch", "2"]
    words += ["--sequence", "32", "--sparsity", "1", "--event-sites", "out,head", "--device", "cpu"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*torchrun, *words], check=True, timeout=200, env=environment, capture_output=True)
    report = json.loads((tmp_path / "out" / "train.json").read_text())
    assert report["steps"] == 6 and report["tokens_seen"] == 6 * 2 * 32 * 2
