"""The seam between a device's name and a machine: `cpu`, `cpu:THREADS`, `reference`, `sim`, `xrt:N`,
`xrt:<bus address>` or `serial:PATH`.

Everything above sees `host.device.machine.Machine`. Everything below is a card: `card` uses pyxrt's names
alone, real ones for `xrt`, those of `sim.pyxrt.module` for `sim`; `board.card` is a board on a serial line.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import click

from symlight.base.cache import exclusive, room
from symlight.base.errors import UserError
from symlight.hw.compiler.layout import Layout
from symlight.hw.compiler.manifest import PROBE
from symlight.hw.interface import Flag, arguments
from symlight.model.config import OPTIONAL_SITES
from symlight.model.package import Package
from symlight.model.v1.package import V1Package
from symlight.model.weights import IntegerModel
from symlight.sim.build import MODELS, require_tools

from .board.opening import board_kernel, open_board
from .card import Card, KernelCard
from .driver import Accelerator
from .fitting import layout_on
from .identity import check_layout, check_xclbin
from .kernels import MANIFEST, KernelInfo, engine_of, obtain_kernel, read_manifest
from .machine import Machine, Progress, silent
from .reference_machine import ReferenceMachine

SIM_CYCLES_PER_SECOND = 2_000  # a slow machine simulating a large kernel
MOST_THREADS = 256  # of cpu:THREADS
XRT_GRACE_MS = 2_000  # what an interrupted run on a card may still take
BOARD_RATE = 2_000  # cycles a second that a board on a line must do: a simulated one does no more
NO_PYXRT = (
    "pyxrt cannot be imported ({}); it comes with XRT: install XRT 2.13 or newer and run "
    "`source /opt/xilinx/xrt/setup.sh`, with the Python version that XRT was built for, or use --device sim"
)


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """What to open, and how."""

    device: str = "sim"
    card: str = "sim4"  # preset of the generated kernel (sim)
    build: str = "partial-kv"
    hbm: str = "timed"  # memory of the simulated card: timed or ideal
    refresh_seed: int = 1  # of the simulated card's refresh phases
    xclbin: Path | None = None  # xrt: the bitstream; its manifest.json is beside it
    bitstream: Path | None = None  # serial: the same; None: the released one
    cache: Path | None = None  # of generated and compiled kernels; None: the user's (base.cache)
    dense: bool = False  # modes of a kernel that fixes none
    full_kv: bool = False
    watchdog: int | None = None  # cycles of a run
    time_limit: float | None = None  # seconds of a run
    drafts: bool = False  # cpu: speculate
    # further `sim.options.SimOptions` of the simulated card
    simulation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def flags(self) -> Flag:
        return (Flag.DENSE if self.dense else Flag(0)) | (Flag.FULL_KV if self.full_kv else Flag(0))


class OpenedDevice:
    """A machine and what must be given back after it: use it in a `with`."""

    def __init__(
        self,
        options: DeviceOptions,
        model: IntegerModel | Package | V1Package,
        progress: Progress = silent,
    ):
        self._stack = ExitStack()
        try:
            self.machine = self._open(options, model, progress)
        except BaseException:
            self._stack.close()
            raise
        self._stack.callback(self.machine.close)

    def __enter__(self) -> Machine:
        return self.machine

    def __exit__(self, *_) -> None:
        self._stack.close()

    def _open(
        self, options: DeviceOptions, model: IntegerModel | Package | V1Package, progress: Progress
    ) -> Machine:
        kind, _, address = options.device.partition(":")
        if isinstance(model, V1Package):
            return _v1_machine(options, kind, address, model, progress)
        if kind == "cpu":
            return _cpu_machine(options, address, model, progress)
        if isinstance(model, Package):
            model = model.model
        if options.device == "reference":
            return ReferenceMachine(model)
        if kind in ("sim", "xrt", "serial"):
            _refuse_sites(model)  # before a kernel is generated, or a card is opened
        if options.device == "sim":
            require_tools()  # what can be refused is refused before a kernel is generated
            layout_on(engine_of(options.card, options.build), model.shape)
            kernel = obtain_kernel(options.card, options.build, options.cache, progress)
            layout = check_layout(kernel, model.shape)
            api, xclbin = simulated_api(kernel, options, progress)
            card = Card(api, 0, xclbin, arguments(kernel.engine.channels))
            place = _Place(card, kernel, layout, SIM_CYCLES_PER_SECOND)
            return _accelerator(place, model, options, progress)
        if kind == "xrt":
            api = import_pyxrt()
            kernel = xclbin_kernel(options)
            layout = check_layout(kernel, model.shape)
            index = int(address or 0) if (address or "0").isdigit() else address
            self._stack.enter_context(
                exclusive(room(options.cache, ""), f"device {str(index).replace('/', '_')}", wait=False)
            )
            rate = kernel.engine.clock_mhz * 1e6 / 2
            card = Card(api, index, str(options.xclbin), arguments(kernel.engine.channels))
            return _accelerator(_Place(card, kernel, layout, rate, XRT_GRACE_MS), model, options, progress)
        if kind == "serial":
            on_board = board_kernel(options.bitstream)
            layout = check_layout(on_board.kernel, model.shape)
            board = open_board(address, on_board)
            place = _Place(board, on_board.kernel, layout, BOARD_RATE, XRT_GRACE_MS)
            return _accelerator(place, model, options, progress)
        raise UserError(
            f"no device is called {options.device!r}; known: cpu, cpu:THREADS, sim, reference, xrt:0, "
            "serial:/dev/ttyUSB0"
        )


@dataclass(frozen=True)
class _Place:
    """An opened kernel, how a model lies in its memory, and how fast it is."""

    card: KernelCard
    kernel: KernelInfo
    layout: Layout
    cycles_per_second: float
    grace_ms: int = 0  # what an interrupted run may still take


def _accelerator(
    place: _Place, model: IntegerModel, options: DeviceOptions, progress: Progress
) -> Accelerator:
    """The machine on an opened card, which is closed when that fails."""
    with ExitStack() as on_failure:
        on_failure.callback(place.card.close)
        machine = Accelerator(
            place.card,
            place.layout,
            model,
            build_id=place.kernel.build_id,
            name=options.device,
            cycles_per_second=place.cycles_per_second,
            flags=options.flags,
            watchdog=options.watchdog,
            time_limit=options.time_limit,
            grace_ms=place.grace_ms,
            progress=progress,
        )
        on_failure.pop_all()
    return machine


GATHERED = OPTIONAL_SITES  # the optional event sites that kernels gather (tests/kernel/test_packages.py)


def _refuse_sites(model: IntegerModel) -> None:
    """A `UserError` when a model has an optional event site that kernels are not known to gather."""
    for site in model.event_sites:
        if site not in GATHERED:
            raise UserError(
                f"the model has the event site {site!r} (docs/arithmetic.md), which kernels cannot gather; "
                "use --device cpu or --device reference"
            )


def _cpu_machine(
    options: DeviceOptions, threads: str, model: IntegerModel | Package, progress: Progress
) -> Machine:
    """The CPU engine; without a compiler the reference, which computes the same.

    Of a package the packed weights are kept in the cache, a bare model is packed every time.
    """
    from symlight.cpu.build import ROOM, NoCompiler
    from symlight.cpu.engine import Engine, default_threads
    from symlight.cpu.isa import find
    from symlight.cpu.layout import rows_of
    from symlight.cpu.library import Library
    from symlight.cpu.store import stored_weights
    from symlight.cpu.weights import Weights

    from .cpu_machine import CpuMachine

    count, cache = _threads(options, threads), room(options.cache, ROOM)
    try:
        library = Library(find(None), cache, progress)
    except NoCompiler as error:
        click.echo(f"symlight: {error}; going on with the reference", err=True)
        return ReferenceMachine(model.model if isinstance(model, Package) else model)
    if isinstance(model, Package):
        shape, numerics, readers = model.shape, model.numerics, count or default_threads()
        weights = stored_weights(
            model.digest,
            shape,
            numerics,
            lambda: model.model,
            library,
            cache=cache,
            by_row=rows_of(model.event_sites),
            threads=readers,
        )
    else:
        weights = Weights.pack(model)
    return CpuMachine(Engine(weights, count, library=library), options.device, options.drafts)


def _v1_machine(
    options: DeviceOptions, kind: str, threads: str, package: V1Package, progress: Progress
) -> Machine:
    """SymbolicLight V1, which the CPU engine alone computes."""
    from symlight.cpu.build import ROOM
    from symlight.cpu.engine import default_threads
    from symlight.cpu.v1.engine import EngineV1

    from ..v1.machine import V1Machine

    if kind != "cpu":
        raise UserError(
            f"{package.path} is a package of SymbolicLight V1, which device {options.device!r} cannot run: "
            "its attention and projections are others than V2's; use --device cpu"
        )
    cache = room(options.cache, ROOM)
    count = _threads(options, threads) or default_threads()
    engine = EngineV1(package, count, cache=cache, progress=progress)
    # Its shape and its states are V1's own; nobody takes those of one machine to another of the other kind.
    return cast(Machine, V1Machine(engine, options.device))


def _threads(options: DeviceOptions, threads: str) -> int | None:
    """The number in cpu:THREADS; None when there is none."""
    if threads and not (threads.isdecimal() and 1 <= int(threads) <= MOST_THREADS):
        raise UserError(f"device {options.device!r}: the number of threads is 1..{MOST_THREADS}, as in cpu:2")
    return int(threads) if threads else None


def xclbin_kernel(options: DeviceOptions, build: str | None = None) -> KernelInfo:
    """What belongs to the xclbin of `options`; a `UserError` unless it is a probe (`build`), or none."""
    if options.xclbin is None:
        raise UserError(
            "a card needs a bitstream; give --xclbin FILE, with the manifest.json of its build beside it"
        )
    if not options.xclbin.is_file():
        raise UserError(f"{options.xclbin} does not exist; give the .xclbin that was linked for the card")
    kernel = read_manifest(options.xclbin.parent / MANIFEST)
    check_xclbin(options.xclbin, kernel)
    if (kernel.build == PROBE) != (build == PROBE):
        raise UserError(
            f"{options.xclbin} is a probe, which runs no model; measure with it: symlight probe --xclbin"
            if kernel.build == PROBE
            else f"{options.xclbin} is no probe; package and link one: symlight package --kernel probe"
        )
    return kernel


def import_pyxrt() -> ModuleType:
    """XRT's own module; a `UserError` that says what to do when it is absent."""
    try:
        import pyxrt
    except ImportError as error:
        raise UserError(NO_PYXRT.format(error)) from error
    return pyxrt


def simulated_api(kernel: KernelInfo, options: DeviceOptions, progress: Progress) -> tuple[ModuleType, str]:
    """pyxrt's names with a fresh simulated card at index 0, and what it takes for an xclbin."""
    from symlight.sim import card
    from symlight.sim.options import SimOptions
    from symlight.sim.pyxrt import module as pyxrt_sim

    def of_build(stage: str, done: int, total: int) -> None:
        if stage != "simulate":  # runs show their tokens
            progress(stage, done, total)

    cache = room(options.cache, MODELS)
    card.plug(
        SimOptions(
            hbm=options.hbm, seed=options.refresh_seed, cache=cache, progress=of_build, **options.simulation
        )
    )
    return pyxrt_sim, str(kernel.manifest)
