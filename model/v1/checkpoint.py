"""Public V1 checkpoints: PyTorch files of tensors and a configuration, read without executing anything in
them."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from symlight.base.errors import UserError

from . import tensors as names
from .config import V1_08B, V1_194M, Family, V1Shape
from .synthetic import inverse_frequencies

NO_TORCH = (
    "reading a PyTorch checkpoint needs PyTorch, which is not installed; run: pip install 'symlight[torch]'"
)
WRAPPERS = ("module", "_orig_mod")  # parts of names that training tools add
DROPPED = "v_mem"  # an encoder state of early training code, not a weight
_FIELDS = {  # of the public configuration -> ours
    "vocab_size": "vocab",
    "embed_dim": "width",
    "n_layers": "layers",
    "n_heads": "heads",
    "head_dim": "head_width",
    "intermediate_dim": "ffn",
    "sparse_attn_window": "window",
    "n_global_anchors": "anchors",
    "max_seq_len": "context",
    "leak_factor": "leak",
    "spike_threshold": "threshold",
}
_REQUIRED_FLAGS = ("enable_sparse_attn", "enable_dynamic_prior")
_MASK, _FREQUENCIES = "tcam.sparse_attn._cached_mask", "tcam.sparse_attn.rope.inv_freq"


@dataclass(frozen=True)
class Checkpoint:
    """A checked checkpoint: `tensors()` gives the package's float32 tensors one at a time."""

    family: Family
    shape: V1Shape
    count: int  # tensors in the file
    _get: Callable[[str], np.ndarray]

    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        yield names.EMBEDDING, self._get(names.EMBEDDING)
        for name, size in names.vectors(self.shape).items():
            if name == names.INV_FREQ:
                yield name, self._get(names.block(0, _FREQUENCIES))
            elif name == names.PRIOR_WEIGHT and self.family.prior_weight is not None:
                yield name, np.array([self.family.prior_weight], np.float32)
            else:
                yield name, self._get(name).reshape(size)
        for name in names.matrices(self.shape):
            yield f"{name}.weight", self._get(f"{name}.weight")


def read_checkpoint(file: Path) -> Checkpoint:
    """Read and check a checkpoint whole; every fault is a `UserError` that names the file and the value."""
    content = _load(file)
    if not isinstance(content, dict):
        raise UserError(f"{file} holds {type(content).__name__}, not the tensors of a V1 checkpoint")
    tensors = _tensors(file, content)
    family = V1_08B if names.PRIOR_WEIGHT in tensors else V1_194M
    shape = _shape(file, content.get("config", {}), tensors, family)
    _check(file, tensors, _expected(shape, family))

    def get(name: str) -> np.ndarray:
        return tensors[name].float().contiguous().numpy()

    _check_buffers(file, shape, family, get)
    return Checkpoint(family, shape, len(tensors), get)


def _load(file: Path) -> object:
    try:
        import torch
    except ImportError as error:
        raise UserError(NO_TORCH) from error
    if not file.is_file():
        raise UserError(f"there is no checkpoint {file}" if not file.exists() else f"{file} is not a file")
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=_is_zip(file))
    except pickle.UnpicklingError as error:
        if "Unsupported" in str(error) or "not an allowed global" in str(error) or "GLOBAL" in str(error):
            raise UserError(
                f"{file} holds Python objects besides tensors, and reading them would run code from it; "
                "save it again with tensors and a configuration of plain values only"
            ) from error
        raise UserError(f"{file} is not a PyTorch checkpoint ({_first_line(error)})") from error
    except MemoryError:
        raise
    except Exception as error:  # the reader of a damaged file fails in any way
        raise UserError(f"{file} is not a readable PyTorch checkpoint ({_first_line(error)})") from error


def _is_zip(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(2) == b"PK"


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].split(". ")[0]


def _tensors(file: Path, content: dict) -> dict:
    """The tensors by their plain names, out of any accepted wrapping."""
    import torch

    raw = content.get("model", content.get("model_state_dict", content))
    if not isinstance(raw, dict):
        raise UserError(f"{file}: the model is {type(raw).__name__}, a dictionary of tensors is required")
    found: dict = {}
    for key, tensor in raw.items():
        if not isinstance(tensor, torch.Tensor) or DROPPED in str(key):
            continue
        name = ".".join(part for part in str(key).split(".") if part not in WRAPPERS)
        if name in found:
            raise UserError(f"{file}: two tensors are called {name} once wrappers are removed")
        found[name] = tensor
    if names.EMBEDDING not in found:
        raise UserError(f"{file} is not a checkpoint of SymbolicLight V1: it has no tensor {names.EMBEDDING}")
    return found


def _shape(file: Path, config, tensors: dict, family: Family) -> V1Shape:
    """The shape of the configuration; what it leaves open follows from the tensors or the public size."""
    if not isinstance(config, dict):
        raise UserError(f"{file}: config is {type(config).__name__}, a dictionary is required")
    for flag in _REQUIRED_FLAGS:
        if config.get(flag, True) is not True:
            raise UserError(
                f"{file}: config says {flag} = {config[flag]!r}; only models with it are supported"
            )
    known = {ours: config[theirs] for theirs, ours in _FIELDS.items() if theirs in config}
    if family is V1_08B and type(known.get("window")) is int:
        known["window"] = max(1, known["window"])  # as its definition does
    try:
        sizes = _sizes(tensors) | known
        shape = replace(family.shape, **sizes)
        shape = replace(shape, bottleneck=max(1, shape.width // 4))
    except UserError as error:
        raise UserError(f"{file}: the configuration does not fit: {error}") from error
    theta = config.get("rope_theta", 10000.0)
    if type(theta) not in (int, float) or not theta > 0:
        raise UserError(f"{file}: rope_theta is {theta!r}, a positive number is required")
    frequencies = tensors.get(names.block(0, _FREQUENCIES))
    if frequencies is not None and tuple(frequencies.shape) == (shape.head_width // 2,):
        if not np.allclose(frequencies.float(), inverse_frequencies(shape.head_width, theta), rtol=1e-2):
            raise UserError(f"{file}: {names.block(0, _FREQUENCIES)} does not fit rope_theta = {theta}")
    return shape


def _sizes(tensors: dict) -> dict[str, int]:
    """Dimensions as the tensors have them, as far as they are there."""
    sizes = {}

    def size(name: str, axis: int, key: str, factor: int = 1) -> None:
        if name in tensors and tensors[name].dim() > axis:
            sizes[key] = tensors[name].shape[axis] * factor

    size(names.EMBEDDING, 0, "vocab")
    size(names.EMBEDDING, 1, "width")
    size(names.block(0, names.DECAY), 0, "heads")
    size(names.block(0, _FREQUENCIES), 0, "head_width", 2)
    size(f"{names.block(0, names.UP)}.weight", 0, "ffn")
    size(names.block(0, _MASK), 0, "context")
    layers = {
        int(name.split(".")[1])
        for name in tensors
        if name.startswith("blocks.") and name.split(".")[1].isdigit()
    }
    sizes["layers"] = len(layers)
    return sizes


def _expected(shape: V1Shape, family: Family) -> dict[str, tuple[int, ...]]:
    """Every tensor of a checkpoint and its shape."""
    found: dict[str, tuple[int, ...]] = {names.EMBEDDING: (shape.vocab, shape.width)}
    found |= {f"{name}.weight": size for name, size in names.matrices(shape).items()}
    found |= {name: size for name, size in names.vectors(shape).items()}
    del found[names.INV_FREQ], found[names.PRIOR_WEIGHT]
    if family.prior_weight is None:
        found[names.PRIOR_WEIGHT] = ()
    for layer in range(shape.layers):
        found[names.block(layer, _FREQUENCIES)] = (shape.head_width // 2,)
        if family.mask:
            found[names.block(layer, _MASK)] = (shape.context, shape.context)
    return found


def _check(file: Path, tensors: dict, expected: dict[str, tuple[int, ...]]) -> None:
    """Names, shapes, types and values."""
    import torch

    for name in expected:
        if name not in tensors:
            raise UserError(f"{file}: tensor {name} is missing; {len(expected)} tensors are required")
    for name in tensors:
        if name not in expected:
            raise UserError(f"{file}: tensor {name} is unknown; {len(expected)} other tensors are required")
    for name, size in expected.items():
        tensor = tensors[name]
        if tuple(tensor.shape) != size:
            raise UserError(
                f"{file}: {name} has shape {list(tensor.shape)}, the configuration requires {list(size)}"
            )
        if name.endswith(_MASK):
            continue
        if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise UserError(
                f"{file}: {name} has type {tensor.dtype}, float32, float16 or bfloat16 is required"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise UserError(f"{file}: {name} has a value that is not finite; the checkpoint is damaged")


def _check_buffers(file: Path, shape: V1Shape, family: Family, get: Callable[[str], np.ndarray]) -> None:
    """Buffers that follow from the configuration: one set of frequencies, and the visibility mask."""
    from .ops import visible

    first = get(names.block(0, _FREQUENCIES))
    positions = np.arange(shape.context)
    mask = visible(positions, positions, shape) if family.mask else None
    for layer in range(shape.layers):
        name = names.block(layer, _FREQUENCIES)
        if not np.array_equal(get(name), first):
            raise UserError(
                f"{file}: {name} differs from that of block 0; one set of frequencies is supported"
            )
        name = names.block(layer, _MASK)
        if mask is not None and not np.array_equal(get(name) != 0, mask):
            raise UserError(
                f"{file}: {name} does not fit the configuration's window {shape.window} "
                f"and {shape.anchors} anchors"
            )
