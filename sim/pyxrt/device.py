"""pyxrt's names for cards: device and hardware context (see pyxrt_sim)."""

import json
import operator
from typing import Any, NoReturn

from .. import card as _card
from .types import BoundEnum, overloaded, uuid, xclbin, xrt_info_device


class device:
    """A card by index or bus address."""

    @overloaded(0, 1)
    def __init__(self, *which: int | str):
        self._registered: dict[str, xclbin] = {}
        if not which:
            return  # an empty handle
        (slot,) = which
        self._index = _index_of(slot) if isinstance(slot, str) else operator.index(slot)
        self._found = _card.card_at(self._index)
        if self._found is None:
            raise RuntimeError(f"No such device with index '{slot}'")

    _found: "_card.SimCard | None" = None

    @property
    def _card(self) -> "_card.SimCard":
        if self._found is None:
            raise RuntimeError("the device is an empty handle")
        return self._found

    def load_xclbin(self, image: str | xclbin, /) -> uuid:
        opened = image if isinstance(image, xclbin) else xclbin(image)
        self._card.load(opened._kernel)
        return opened.get_uuid()

    def register_xclbin(self, image: xclbin, /) -> uuid:
        self._registered[image.get_uuid().to_string()] = image
        return image.get_uuid()

    def _program(self, identity: uuid) -> None:
        """As the making of a context does: load an xclbin that was registered."""
        image = self._registered.get(identity.to_string())
        if image is not None:
            self._card.load(image._kernel)

    def get_xclbin_uuid(self) -> uuid:
        loaded = self._card.kernel
        return uuid(loaded.uuid if loaded else "00000000-0000-0000-0000-000000000000")

    def get_info(self, what: xrt_info_device, /) -> str:
        if not isinstance(what, xrt_info_device):
            raise TypeError(f"get_info(): {what!r} is not an xrt_info_device")
        no_power = {f"power_consumption_{part}": "N/A" for part in ("max_watts", "watts", "warning")}
        options, loaded = self._card.options, self._card.kernel
        clock = options.clock_mhz or (loaded.engine.clock_mhz if loaded else 0)
        known = {
            "bdf": f"0000:{self._index:02x}:00.0",
            "name": "symlight_simulated",
            "max_clock_frequency_mhz": str(clock),
            "interface_uuid": "00000000-0000-0000-0000-000000000000",
            "kdma": "0",
            "m2m": "false",
            "nodma": "true",
            "offline": "false",
            "electrical": json.dumps({"power_rails": [], **no_power}),
            "thermal": json.dumps({"thermals": []}),
            "mechanical": json.dumps({"fans": []}),
        }
        return known.get(what._name_, "{}")


def enumerate_devices() -> int:
    """Number of cards."""
    return len(_card.slots())


def _index_of(address: str) -> int:
    for index in _card.slots():
        if address in (f"0000:{index:02x}:00.0", f"{index:02x}:00.0"):
            return index
    raise RuntimeError(f"No such device '{address}'")


class hw_context:
    """A loaded xclbin in use."""

    class access_mode(BoundEnum):
        exclusive = 0
        shared = 1

    exclusive, shared = access_mode.exclusive, access_mode.shared

    _device: device
    _mode: access_mode
    _xclbin: xclbin

    @overloaded(0, 2, 3)
    def __init__(self, *more: Any):
        if not more:
            return  # an empty handle
        dev, image, *mode = more
        if isinstance(image, uuid):
            found = dev._registered.get(image.to_string())
            if found is None:
                raise RuntimeError(f"xclbin {image.to_string()} is not registered with the device")
            image = found
        self._mode = mode[0] if mode else hw_context.shared
        self._device = dev
        self._xclbin = image if isinstance(image, xclbin) else xclbin(image)
        dev._card.load(self._xclbin._kernel)

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("_device", "_mode", "_xclbin"):
            raise RuntimeError("the hardware context is an empty handle")
        raise AttributeError(name)

    def get_device(self) -> device:
        return self._device

    def get_xclbin_uuid(self) -> uuid:
        return self._xclbin.get_uuid()

    def get_xclbin(self) -> xclbin:
        return self._xclbin

    def get_mode(self) -> access_mode:
        return self._mode
