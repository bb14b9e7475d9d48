"""pyxrt's names over the simulated card: a program written for `pyxrt` runs with this module in its place.

Same names, arguments, states and errors as the Python binding of XRT (typings/pyxrt.pyi lists them, with the release of each); what
only a simulation has is in `sim.card`. What differs, on purpose:

- an "xclbin" is a generated kernel: its folder, or the manifest.json in it (sim.manifest);
- a millisecond of `wait` is wall time, in which some thousand cycles pass; time stands still while nobody waits;
- errors that a card answers with silence are exceptions here: a buffer on a bank that the kernel's port does not reach, a buffer
  made before the xclbin was loaded, an access outside all buffers (a bus error), a broken assertion of the kernel;
- no sensors: `get_info` has the same structure with "N/A" for every number.
"""

import json
import operator
import weakref

import numpy as np

from symlight.hw.interface import KERNEL_NAME, arguments

from . import card as _card
from .pyxrt_types import (
    XCL_BO_FLAGS_NONE, BoundEnum, ert_cmd_state, uuid, xclbin, xclbinkernel, xclbinmem, xclBOSyncDirection,
    xrt_info_device,
)

__all__ = [
    "XCL_BO_FLAGS_NONE", "bo", "device", "enumerate_devices", "ert_cmd_state", "hw_context", "kernel", "run", "uuid",
    "xclBOSyncDirection", "xclbin", "xclbinkernel", "xclbinmem", "xrt_info_device",
]

_NO_BANK = 65535        # group of an argument that is not connected to memory


# The binding exports the values of these enums, too.
globals().update(xclBOSyncDirection.__members__)
globals().update(ert_cmd_state.__members__)


class device:
    """A card by index or bus address."""

    def __init__(self, which: int | str = 0):
        index = _index_of(which) if isinstance(which, str) else operator.index(which)
        found = _card.card_at(index)
        if found is None:
            raise RuntimeError(f"No such device with index '{which}'")
        self._index, self._card = index, found
        self._registered: dict[str, object] = {}

    def load_xclbin(self, image: str | xclbin) -> uuid:
        image = image if isinstance(image, xclbin) else xclbin(image)
        self._card.load(image._kernel)
        return image.get_uuid()

    def register_xclbin(self, image: str | xclbin) -> uuid:
        image = image if isinstance(image, xclbin) else xclbin(image)
        self._registered[image.get_uuid().to_string()] = image
        return image.get_uuid()

    def get_xclbin_uuid(self) -> uuid:
        loaded = self._card.kernel
        return uuid(loaded.uuid if loaded else "00000000-0000-0000-0000-000000000000")

    def get_info(self, what: xrt_info_device) -> str:
        if not isinstance(what, xrt_info_device):
            raise TypeError(f"get_info(): {what!r} is not an xrt_info_device")
        no_power = {f"power_consumption_{part}": "N/A" for part in ("max_watts", "watts", "warning")}
        options, loaded = self._card.options, self._card.kernel
        clock = options.clock_mhz or (loaded.engine.clock_mhz if loaded else 0)
        known = {
            "bdf": f"0000:{self._index:02x}:00.0", "name": "symlight_simulated", "max_clock_frequency_mhz": str(clock),
            "interface_uuid": "00000000-0000-0000-0000-000000000000", "kdma": "0", "m2m": "false", "nodma": "true",
            "offline": "false", "electrical": json.dumps({"power_rails": [], **no_power}),
            "thermal": json.dumps({"thermals": []}), "mechanical": json.dumps({"fans": []}),
        }
        return known.get(what.name, "{}")


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

    def __init__(self, dev: device, image: uuid | xclbin | str, mode: object = access_mode.shared):
        if isinstance(image, uuid):
            found = dev._registered.get(image.to_string())
            if found is None:
                raise RuntimeError(f"xclbin {image.to_string()} is not registered with the device")
            image = found
        self._device, self._mode = dev, mode
        self._xclbin = image if isinstance(image, xclbin) else xclbin(image)
        dev._card.load(self._xclbin._kernel)

    def get_device(self) -> device:
        return self._device

    def get_xclbin_uuid(self) -> uuid:
        return self._xclbin.get_uuid()

    def get_xclbin(self) -> xclbin:
        return self._xclbin

    def get_mode(self) -> object:
        return self._mode


class kernel:
    """The kernel `name` of a loaded xclbin; called with arguments it starts a run."""

    class cu_access_mode(BoundEnum):
        exclusive = 0
        shared = 1
        none = 2

    exclusive, shared, none = cu_access_mode.exclusive, cu_access_mode.shared, cu_access_mode.none
    _open: "weakref.WeakSet[kernel]" = weakref.WeakSet()

    def __init__(self, owner: device | hw_context, *more):
        if isinstance(owner, hw_context):
            (name,), mode = more, owner._mode
            dev, identity = owner._device, owner.get_xclbin_uuid()
        else:
            (identity, name, *rest), dev = more, owner
            mode = rest[0] if rest else kernel.shared
        loaded = dev._card.kernel
        if loaded is None or identity.to_string() != loaded.uuid:
            raise RuntimeError("xclbin id mismatch: Invalid argument")
        if name.split(":")[0] != KERNEL_NAME:
            raise RuntimeError(f"No such kernel '{name}'")
        self._card, self._mode = dev._card, getattr(mode, "name", mode)
        self._arguments = arguments(loaded.engine.channels)
        for other in kernel._open:
            if other._card is self._card and "exclusive" in (self._mode, other._mode):
                raise RuntimeError("Conflicting access mode for IP(0)")
        kernel._open.add(self)

    def __call__(self, *args) -> "run":
        started = run(self)
        for index, value in enumerate(args):
            try:
                started.set_arg(index, value)
            except (TypeError, ValueError):
                pass        # as the binding does: an argument that cannot be converted stays unset
        started.start()
        return started

    def group_id(self, index: int) -> int:
        port = self._arguments[index].port
        return int(port[-2:]) if port else _NO_BANK


class bo:
    """A buffer: host memory and device memory of equal size, equal only after `sync`."""

    class flags(BoundEnum):
        normal = 0
        cacheable = 1 << 24
        device_only = 1 << 28
        host_only = 1 << 29
        p2p = 1 << 30
        svm = 1 << 27

    normal, cacheable, device_only = flags.normal, flags.cacheable, flags.device_only
    host_only, p2p, svm = flags.host_only, flags.p2p, flags.svm

    def __init__(self, owner, size: int, *more):
        if isinstance(owner, bo):
            (offset,) = more
            if offset + size > owner._size:
                raise RuntimeError("sub-buffer range exceeds its parent")
            self._parent, self._size = owner, size
            self._device_data = owner._device_data[offset:offset + size]
            self._host = owner._host[offset:offset + size]
            self._address, self._bank, self._allocation = owner._address + offset, owner._bank, owner._allocation
            return
        flag, group = more if len(more) == 2 else (bo.normal, *more)
        if not isinstance(flag, bo.flags):
            raise TypeError(f"bo(): {flag!r} is not a flag of buffers")
        if flag not in (bo.normal, bo.cacheable):
            raise RuntimeError(f"the simulated card has no buffers of kind {flag.name}")
        if size <= 0:
            raise RuntimeError(f"invalid buffer size {size}")
        if size > _card.BANK_BYTES:
            raise MemoryError("std::bad_alloc")
        dev = owner._device if isinstance(owner, hw_context) else owner
        allocation = dev._card.allocate(operator.index(group), size)
        self._parent, self._size, self._allocation = None, size, allocation
        self._device_data = allocation.data[:size]
        self._host = np.zeros(size, np.uint8)
        self._address, self._bank = allocation.address, allocation.bank
        weakref.finalize(self, dev._card.free, allocation).atexit = False

    def write(self, buffer, seek: int = 0) -> None:
        raw = np.frombuffer(buffer, np.uint8)
        if seek < 0 or seek + raw.size > self._size:
            raise RuntimeError("attempting to write past buffer size")
        self._host[seek:seek + raw.size] = raw

    def read(self, size: int, skip: int = 0) -> np.ndarray:
        if min(size, skip) < 0 or skip + size > self._size:
            raise RuntimeError("attempting to read past buffer size")
        return self._host[skip:skip + size].view(np.int8).copy()

    def sync(self, direction: xclBOSyncDirection, size: int | None = None, offset: int = 0) -> None:
        size = self._size if size is None else size
        if min(size, offset) < 0 or offset + size > self._size:
            raise RuntimeError("attempting to sync past buffer size: Invalid argument")
        part = slice(offset, offset + size)
        if direction is xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE:
            self._device_data[part] = self._host[part]
        elif direction is xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE:
            self._host[part] = self._device_data[part]
        else:
            raise TypeError(f"sync(): {direction!r} is not a direction of this card")

    def map(self) -> memoryview:
        return memoryview(self._host)

    def size(self) -> int:
        return self._size

    def address(self) -> int:
        return self._address


class run:
    """One execution of a kernel, and again after its end."""

    def __init__(self, owner: kernel | None = None):
        self._kernel, self._job = owner, None
        self._values: dict[int, int] = {}
        self._buffers: dict[int, bo] = {}

    def set_arg(self, index: int, value: "int | bo") -> None:
        argument = self._kernel._arguments[operator.index(index)]
        if isinstance(value, bo):
            if not argument.port:
                raise RuntimeError(f"argument {argument.name} is a scalar")
            if value._bank != self._kernel.group_id(index):
                raise RuntimeError(
                    f"Kernel {KERNEL_NAME} has no compute units with connectivity required for global argument at index "
                    f"{index}: the buffer is in bank {value._bank}, the argument's bank is {self._kernel.group_id(index)}"
                )
            self._buffers[index] = value
            self._values[index] = value.address()
            return
        value = operator.index(value)
        if not -(1 << 31) <= value < 1 << 31:
            raise TypeError(f"set_arg(): {value} is not a 32-bit signed integer")
        self._values[index] = value & (1 << 8 * argument.size) - 1

    def start(self) -> None:
        if self._job is not None and not self._job.ended:
            raise RuntimeError("bad command state, can't launch")
        last = self._kernel._arguments[-1]
        words = [0] * ((last.offset + last.size - _card.ARGUMENTS) // 4)
        for index, value in self._values.items():
            argument = self._kernel._arguments[index]
            for k in range(argument.size // 4):
                words[(argument.offset - _card.ARGUMENTS) // 4 + k] = value >> 32 * k & 0xFFFFFFFF
        job = _card.Job(words, dict(self._buffers))
        self._kernel._card.submit(job)
        self._job = job

    def wait(self, timeout_ms: int = 0) -> ert_cmd_state:
        """Until the end, or a timeout that leaves the run alive; 0: no timeout."""
        if self._job is None:
            raise RuntimeError("the run was not started")
        self._kernel._card.advance(self._job, timeout_ms or None)
        return self._state(ert_cmd_state.ERT_CMD_STATE_TIMEOUT)

    def wait2(self, timeout_ms: int = 0) -> None:
        """As `wait`, but anything except completion is an exception."""
        state = self.wait(timeout_ms)
        if state is not ert_cmd_state.ERT_CMD_STATE_COMPLETED:
            raise RuntimeError(f"run ended as {state.name}")

    def state(self) -> ert_cmd_state:
        if self._job is None:
            return ert_cmd_state.ERT_CMD_STATE_NEW
        self._kernel._card.advance(self._job, 1)    # who only looks must see it end, too
        return self._state(ert_cmd_state.ERT_CMD_STATE_QUEUED)

    def _state(self, otherwise: ert_cmd_state) -> ert_cmd_state:
        if self._job.state == "failed":
            return ert_cmd_state.ERT_CMD_STATE_ERROR
        return ert_cmd_state.ERT_CMD_STATE_COMPLETED if self._job.ended else otherwise
