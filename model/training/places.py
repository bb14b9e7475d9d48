"""Where training runs: device, precision, and the processes that share a training (as torchrun says)."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import distributed

from symlight.base.errors import UserError

from .settings import TrainingConfig


@dataclass(frozen=True)
class Place:
    """The device of this process, `rank` of `size` processes."""

    device: torch.device
    bf16: bool = False
    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """This process writes the files and speaks."""
        return self.rank == 0

    def autocast(self) -> AbstractContextManager:
        """Matrix products in bfloat16 where that is wanted; sums stay in float32."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()

    def gather(self, value: object) -> list:
        """The values of all processes, by rank."""
        if self.size == 1:
            return [value]
        values: list = [None] * self.size
        distributed.all_gather_object(values, value)
        return values


@contextmanager
def place(config: TrainingConfig) -> Iterator[Place]:
    """The place of this process; one started by torchrun joins the others."""
    size, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    name = config.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and size > 1:
        name = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"torch has no device {name!r} here; use --device cpu") from error
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    bf16 = config.precision == "bf16" or (config.precision == "auto" and has_bf16)
    if size == 1:
        yield Place(device, bf16)
        return
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Place(device, bf16, rank, size)
    finally:
        distributed.destroy_process_group()
