"""The other process of the contract's tests: opens the card, says so, and holds it until a line comes in."""

import sys
from pathlib import Path

import rigs
from releases import binding

from symlight.base.errors import UserError
from symlight.host.device.opening import DeviceOptions, OpenedDevice


def hold(device: str, xclbin: str, cache: str, simulated: bool) -> None:
    if simulated:
        sys.modules["pyxrt"] = rigs.simulated(binding(rigs.NEWEST)).api
    try:
        with OpenedDevice(
            DeviceOptions(device=device, xclbin=Path(xclbin), cache=Path(cache)), rigs.small_model()
        ):
            print("open", flush=True)
            sys.stdin.readline()
    except UserError as error:
        print(error, flush=True)
