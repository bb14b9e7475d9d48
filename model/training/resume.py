"""The state of a training on disk: written whole or not at all, and enough to go on to the same bits."""

import os
from pathlib import Path

import torch

from symlight.base.errors import UserError

FILE = "resume.pt"


def save(folder: Path, state: dict) -> None:
    """Replace the state in `folder`; a process that dies meanwhile leaves the old one."""
    new = folder / f"{FILE}.new"
    with open(new, "wb") as stream:
        torch.save(state, stream)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(folder / FILE)


def load(folder: Path, expected: dict) -> dict | None:
    """The state in `folder`, None without one. A training of other settings than `expected` is refused."""
    file = folder / FILE
    if not file.is_file():
        return None
    try:
        state = torch.load(file, weights_only=True, map_location="cpu")
        found = state["expected"]
    except Exception as error:  # torch raises whatever the pickle reader met
        raise UserError(f"{file} is not the state of a training ({error!r}); remove it") from error
    for name, value in expected.items():
        if found.get(name) != value:
            raise UserError(
                f"{file} belongs to a training with {name} = {found.get(name)!r}, not {value!r}; give the "
                "same settings, or remove it"
            )
    return state
