"""The first tensors of a fine-tuning: of a float checkpoint, or those of a V1 checkpoint that V2 shares."""

from pathlib import Path

import torch
from torch import Tensor

from symlight.base.errors import UserError

from ..v1.checkpoint import read_checkpoint
from .float_model import FloatModel, load


def load_start(model: FloatModel, file: Path) -> str:
    """Copy into `model` what the checkpoint has under the same name and with the same number of elements; a
    sentence about it.

    file : *.safetensors of this project, or a public SymbolicLight V1 checkpoint (*.pt), of which nothing is
    executed. A checkpoint with another shape, or without any matrix of the blocks, is a `UserError`.
    """
    ours = model.state_dict()
    theirs = _tensors(Path(file))
    shared: dict[str, Tensor] = {}
    for name, tensor in theirs.items():
        if name not in ours:
            continue
        if tensor.numel() != ours[name].numel() or (tensor.ndim > 1 and tensor.shape != ours[name].shape):
            raise UserError(
                f"{file}: tensor {name} has shape {list(tensor.shape)}, this model's "
                f"{list(ours[name].shape)}; give the shape of the checkpoint"
            )
        shared[name] = tensor.reshape(ours[name].shape).to(ours[name].dtype)
    if "blocks.0.ffn.up.weight" not in shared:
        raise UserError(f"{file} shares no block with this model; give a checkpoint of SymbolicLight")
    model.load_state_dict(ours | shared)
    fresh = [name for name in ours if name not in shared]
    left = [name for name in theirs if name not in ours]
    return (
        f"{len(shared)} tensors of {file}; new here: {', '.join(fresh) or 'none'}; "
        f"not used: {', '.join(left) or 'none'}"
    )


def _tensors(file: Path) -> dict[str, Tensor]:
    if file.suffix == ".pt":
        return {name: torch.from_numpy(array) for name, array in read_checkpoint(file).tensors()}
    return load(file).state_dict()
