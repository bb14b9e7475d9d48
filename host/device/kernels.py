"""Kernels by card and build: generated once per content, kept in a cache.

<cache>/kernels/<key>/   Verilog and manifest.json        key: generator sources, tool versions, engine
<cache>/models/<key>/    what the simulator makes of it   (sim.build)
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from symlight.base.cache import cached
from symlight.base.errors import UserError
from symlight.hw import config
from symlight.hw.compiler.sources import generator_digest
from symlight.hw.config import Engine
from symlight.hw.interface import KERNEL_NAME

from .machine import Progress, silent

MANIFEST = "manifest.json"
RUNTIME = "runtime"  # the build whose modes are switched by every run
_STEPS = 3  # of hw.compiler.generate: channel, kernel, identity


@dataclass(frozen=True)
class XclbinIdentity:
    """What a sealed manifest says about its xclbin."""

    sha256: str
    uuid: str


@dataclass(frozen=True)
class KernelInfo:
    """What a manifest says about a kernel.

    `xclbin` is None until the manifest is sealed; `hbm_map` (hw.compiler.hbm_map) unless it was packaged
    for a model.
    """

    manifest: Path
    engine: Engine
    build_id: int
    xclbin: XclbinIdentity | None = None
    hbm_map: dict | None = None


def default_cache() -> Path:
    """Where kernels are kept unless the user says otherwise."""
    return Path.home() / ".cache" / "symlight"


def engine_of(card: str, build: str) -> Engine:
    """The engine of a card preset with the switches of a build."""
    engine = config.card(card)
    return engine if build == RUNTIME else config.build(engine, build)


def read_manifest(path: Path) -> KernelInfo:
    """Engine and identity out of a manifest.json."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; it must lie beside the kernel it describes") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); generate the kernel again") from error
    if not isinstance(manifest, dict) or not {"kernel", "build_id", "engine"} <= set(manifest):
        raise UserError(f"{path} is not the manifest of a kernel; generate the kernel again")
    if manifest["kernel"] != KERNEL_NAME:
        raise UserError(f"{path} describes kernel {manifest['kernel']!r}, not {KERNEL_NAME!r}")
    try:
        build_id = int(manifest["build_id"], 16)
    except (TypeError, ValueError):
        raise UserError(f"{path}: build_id {manifest['build_id']!r} is not a hexadecimal number") from None
    if not isinstance(manifest["engine"], dict):
        raise UserError(f"{path}: engine is {manifest['engine']!r}, an object is required")
    hbm_map = manifest.get("hbm_map")
    if hbm_map is not None and not isinstance(hbm_map, dict):
        raise UserError(f"{path}: hbm_map is {hbm_map!r}, an object is required")
    return KernelInfo(
        path, Engine.from_json(manifest["engine"]), build_id, _xclbin_identity(path, manifest), hbm_map
    )


def _xclbin_identity(path: Path, manifest: dict) -> XclbinIdentity | None:
    result = manifest.get("result")
    if result is None:
        return None
    try:
        xclbin = result["xclbin"]
        return XclbinIdentity(str(xclbin["sha256"]), str(xclbin["uuid"]))
    except (KeyError, TypeError):
        raise UserError(f"{path}: result names no xclbin with sha256 and uuid; seal it again") from None


def obtain_kernel(card: str, build: str, cache: Path, progress: Progress = silent) -> KernelInfo:
    """The generated kernel of a card preset and a build; generates it unless the cache has it."""
    names = [card, build, engine_of(card, build).to_json()]
    return _obtain(names, cache, lambda folder: write_kernel(folder, card, build, progress))


def obtain_engine(engine: Engine, cache: Path, progress: Progress = silent) -> KernelInfo:
    """The generated kernel of an engine that is no preset."""
    return _obtain([engine.to_json()], cache, lambda folder: _write(folder, engine, "", "", progress))


def _obtain(names: list, cache: Path, write: Callable[[Path], None]) -> KernelInfo:
    folder = cached(cache / "kernels", _key(json.dumps(names, sort_keys=True)), write)
    return read_manifest(folder / MANIFEST)


def write_kernel(folder: Path, card: str, build: str, progress: Progress = silent) -> None:
    """Generate Verilog and manifest of a card preset and a build into `folder`."""
    _write(folder, engine_of(card, build), card, build, progress)


def _write(folder: Path, engine: Engine, card: str, build: str, progress: Progress) -> None:
    # Slow to import, and needed only here.
    from symlight.hw.compiler.generate import generate

    steps: list[str] = []

    def on_step(step: str) -> None:
        progress("generate", len(steps), _STEPS)
        steps.append(step)

    generate(engine, folder, card=card, build=build, progress=on_step)
    progress("generate", _STEPS, _STEPS)


def _key(names: str) -> str:
    """Hash of everything that goes into the Verilog and its manifest."""
    return hashlib.sha256(f"{names}\0{generator_digest()}".encode()).hexdigest()[:24]
