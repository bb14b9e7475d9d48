"""The other process of the contract's tests: opens the card, says so, and holds it until a line comes in."""

import sys
from pathlib import Path

from symlight.base.errors import UserError
from symlight.host.device.opening import DeviceOptions, OpenedDevice
from tests.benches.contract import devices
from tests.benches.contract.releases import binding


def hold(device: str, xclbin: str, cache: str, simulated: bool) -> None:
    if simulated:
        sys.modules["pyxrt"] = devices.simulated(binding(devices.NEWEST)).api
    try:
        with OpenedDevice(
            DeviceOptions(device=device, xclbin=Path(xclbin), cache=Path(cache)), devices.small_model()
        ):
            print("open", flush=True)
            sys.stdin.readline()
    except UserError as error:
        print(error, flush=True)


if __name__ == "__main__":
    name, bitstream, folder, *simulated = sys.argv[1:]
    hold(name, bitstream, folder, simulated == ["--simulated"])
