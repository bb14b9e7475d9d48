"""The devices under test of the contract: the simulated card with the binding of some release,
or a real card. The tests see no difference.

Both have the kernel of the project with a small model. A slow run is one that the kernel's own watchdog ends:
nothing else can end it.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from symlight.base.files import write_whole
from symlight.bitstreams.axlf import Xclbin, encode
from symlight.host.device.card import Card
from symlight.host.device.driver import Accelerator
from symlight.host.device.kernels import KernelInfo, read_manifest
from symlight.hw.compiler.layout import Layout
from symlight.hw.interface import Argument, Command, arguments
from symlight.model.config import preset
from symlight.model.synthetic import random_model
from symlight.model.weights import IntegerModel
from symlight.sim import card as cards
from symlight.sim.manifest import read_kernel
from tests.benches.kernel.kernel_list import CACHE, MODELS, OPTIMISE, obtain

NEWEST = (2, 25)
# in place of a release: the card of the command line
CARD = pytest.param("card", marks=pytest.mark.needs_card)
NOTHING = {"n_prompt": 0, "n_new": 0, "eos": 0, "flags": 0, "watchdog": 0}


@cache
def small_model() -> IntegerModel:
    return random_model(preset("tiny"), 11, 0.3)


@dataclass
class DeviceUnderTest:
    """A card and how to use it.

    Members
    -------
    name : str
        "sim" or "xrt:N", as `--device` has it.
    api : module
        What `import pyxrt` would give.
    index : int or str
    kernel : KernelInfo
    xclbin : str
    slow_cycles : int
        A run of so many cycles outlasts some waits of 20 ms, and ends within a few seconds.
    cycles_per_second : float
        The least that the device does.
    """

    name: str
    api: object
    index: int | str
    kernel: KernelInfo
    xclbin: str
    slow_cycles: int
    cycles_per_second: float
    model: IntegerModel = field(default_factory=small_model)
    opened: list = field(default_factory=list)

    @property
    def arguments(self) -> list[Argument]:
        return arguments(self.kernel.engine.channels)

    @property
    def layout(self) -> Layout:
        return Layout(self.kernel.engine, self.model.shape)

    def card(self, api=None) -> Card:
        """The opened kernel, without buffers."""
        self.opened.append(Card(api or self.api, self.index, self.xclbin, self.arguments))
        return self.opened[-1]

    def machine(self, api=None, **options) -> Accelerator:
        """The driver with the model loaded."""
        settings = {
            "build_id": self.kernel.build_id,
            "name": self.name,
            "cycles_per_second": self.cycles_per_second,
        }
        return Accelerator(self.card(api), self.layout, self.model, **settings | options)

    def slow(self, run_id: int) -> dict[str, int]:
        """Scalars of a slow run."""
        return NOTHING | {
            "command": Command.GENERATE,
            "run_id": run_id,
            "n_prompt": 1,
            "n_new": 60_000,
            "watchdog": self.slow_cycles,
        }

    def quick(self, run_id: int) -> dict[str, int]:
        """Scalars of a run that only answers."""
        return NOTHING | {"command": Command.RESET, "run_id": run_id}

    def close(self) -> None:
        for card in self.opened:
            card.close()
        self.opened.clear()


sim4 = cache(lambda: obtain("sim4"))


def linked(kernel: KernelInfo) -> Path:
    """A bitstream for the simulated card: an xclbin in a copy of the kernel's folder, the manifest sealed."""
    source = read_kernel(kernel.manifest)
    folder = CACHE / "linked" / source.build_id
    folder.mkdir(parents=True, exist_ok=True)
    image = encode(Xclbin(uuid=source.uuid))
    manifest = json.loads(kernel.manifest.read_text())
    manifest["result"] = {"xclbin": {"sha256": hashlib.sha256(image).hexdigest(), "uuid": source.uuid}}
    for file in source.sources:
        write_whole(folder / file.name, file.read_text())
    write_whole(folder / kernel.manifest.name, json.dumps(manifest))
    write_whole(folder / "symlight.xclbin", image)
    return folder / "symlight.xclbin"


def simulated(api) -> DeviceUnderTest:
    """A fresh simulated card with the binding `api`."""
    kernel = sim4()
    cards.plug(cards.SimOptions(cache=MODELS, optimise=OPTIMISE, hbm="ideal"))
    return DeviceUnderTest(
        "sim", api, 0, kernel, str(linked(kernel)), slow_cycles=25_000, cycles_per_second=2_000
    )


def real(device: str, xclbin: Path) -> DeviceUnderTest:
    """A card with the bitstream at `xclbin`, whose manifest.json is beside it."""
    import pyxrt

    address = device.partition(":")[2] or "0"
    kernel = read_manifest(xclbin.parent / "manifest.json")
    clock = kernel.engine.clock_mhz * 1e6
    return DeviceUnderTest(
        device,
        pyxrt,
        int(address) if address.isdigit() else address,
        kernel,
        str(xclbin),
        slow_cycles=int(clock / 2),
        cycles_per_second=clock / 2,
    )


def altered(api, **classes) -> SimpleNamespace:
    """`api` with some of its names exchanged."""
    return SimpleNamespace(
        **{name: getattr(api, name) for name in dir(api) if not name.startswith("__")} | classes
    )


def complete_early(api, when: Callable[[], bool] = lambda: True):
    """A card whose runs are reported complete at once, although they have only begun, while `when()` holds.

    So a card behaves after a run that was given up: the report that comes belongs to the old run.
    """

    class Run(api.run):
        def wait(self, *timeout):
            if when():
                return api.ert_cmd_state.ERT_CMD_STATE_COMPLETED
            return super().wait(*timeout)

    return altered(api, run=Run)
