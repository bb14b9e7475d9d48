"""What a training writes at every evaluation: checkpoint, report, table, and a line to read."""

import csv
import io
import json
from pathlib import Path

from safetensors.torch import save

from .float_model import FloatModel


def write(folder: Path, model: FloatModel, report: dict, result: dict, tokens: int) -> None:
    """Write checkpoint, train.json and progress.csv so that a reader never sees half a file.

    `result` of an evaluation after `tokens` training tokens goes into `report`.
    """
    entry = {key: round(value, 4) for key, value in result.items() if key != "layers"}
    names = [name for name in result["layers"][0] if name.endswith("_in") or name == "head_g"]
    entry |= {
        name: round(sum(layer[name] for layer in result["layers"]) / len(result["layers"]), 4)
        for name in names
    }
    report["history"].append(entry)
    report.update(
        steps=result["step"],
        seconds=result["seconds"],
        tokens_seen=tokens,
        heldout_bits_per_byte=round(result["bits_per_byte"], 4),
        heldout_perplexity=round(result["perplexity"], 3),
        bytes_a_token=result["bytes_a_token"],
        layers=result["layers"],
        decay=[block.tcam.decay_raw.sigmoid().tolist() for block in model.blocks],
        gate=[block.tcam.attn_gate.sigmoid().item() for block in model.blocks],
        thresholds={
            name: round(float(tensor), 5)
            for name, tensor in model.state_dict().items()
            if name.endswith("threshold") and model.constants.trained_thresholds
        },
    )
    table = io.StringIO()
    writer = csv.DictWriter(table, list(entry))
    writer.writeheader()
    writer.writerows(report["history"])
    # One entry: safetensors writes several in random order, and equal trainings are to give equal files.
    about = json.dumps({name: report[name] for name in ("shape", "constants")})
    tensors = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    files = {
        "model.safetensors": save(tensors, {"model": about}),
        "train.json": (json.dumps(report, indent=1) + "\n").encode(),
        "progress.csv": table.getvalue().encode(),
    }
    for name, content in files.items():
        (folder / f"{name}.new").write_bytes(content)
    for name in files:
        (folder / f"{name}.new").replace(folder / name)


def line(result: dict) -> str:
    """An evaluation in a line."""
    columns = [
        site + " " + "/".join(f"{layer[site]:.3f}".lstrip("0") for layer in result["layers"])
        for site in result["layers"][0]
    ]
    return (
        f"step {result['step']} {result['seconds']:.0f} s: {result['bits_per_byte']:.4f} bits/byte, "
        f"{result['bytes_a_token']:,} bytes a token, "
        f"perplexity {result['perplexity']:.2f}, train {result['train_loss']:.3f}, "
        f"held out {result['loss']:.3f}; density {', '.join(columns)}"
    )
