"""pyxrt's names over the simulated card: a program written for `pyxrt` runs with this module in its place.

Same names, arguments, states and errors as the Python binding of XRT (typings/pyxrt.pyi lists them, with the
release of each), as of the newest release; arguments go by position alone, as most releases demand. What only
a simulation has is in `sim.card`. What differs, on purpose:

- an "xclbin" is a generated kernel: its folder, or the manifest.json in it (sim.manifest);
- a millisecond of `wait` is wall time, in which some thousand cycles pass; time stands still while nobody
  waits;
- errors that a card answers with silence are exceptions here: a buffer on a bank that the kernel's port does
  not reach, a buffer made before the xclbin was loaded, an access outside all buffers (a bus error), a broken
  assertion of the kernel;
- no sensors: `get_info` has the same structure with "N/A" for every number.
"""

import operator
import weakref
from typing import Any

import numpy as np

from symlight.hw.axi import BANK_BYTES
from symlight.hw.interface import KERNEL_NAME, arguments

from .. import card as _card
from .device import device, enumerate_devices, hw_context
from .types import (
    XCL_BO_FLAGS_NONE,
    BoundEnum,
    ert_cmd_state,
    overloaded,
    uuid,
    xclbin,
    xclBOSyncDirection,
    xrt_info_device,
)

__all__ = [
    "XCL_BO_FLAGS_NONE",
    "bo",
    "device",
    "enumerate_devices",
    "ert_cmd_state",
    "hw_context",
    "kernel",
    "run",
    "uuid",
    "xclBOSyncDirection",
    "xclbin",
    "xrt_info_device",
]

_NO_BANK = 65535  # group of an argument that is not connected to memory


class kernel:
    """The kernel `name` of a loaded xclbin; called with arguments it starts a run."""

    class cu_access_mode(BoundEnum):
        exclusive = 0
        shared = 1
        none = 2

    exclusive, shared, none = cu_access_mode.exclusive, cu_access_mode.shared, cu_access_mode.none
    _open: "weakref.WeakSet[kernel]" = weakref.WeakSet()

    @overloaded(2, 3, 4)
    def __init__(self, owner: device | hw_context, *more: Any):
        if isinstance(owner, hw_context):
            (name,), mode = more, owner._mode
            dev, identity = owner._device, owner.get_xclbin_uuid()
        else:
            (identity, name, *rest), dev = more, owner
            mode = rest[0] if rest else kernel.shared
            dev._program(identity)
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

    def __call__(self, *args: "int | bo") -> "run":
        started = run(self)
        for index, value in enumerate(args):
            try:
                started.set_arg(index, value)
            except (TypeError, ValueError):
                pass  # as the binding does: an argument that cannot be converted stays unset
        started.start()
        return started

    def group_id(self, index: int, /) -> int:
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
    _parent: "bo | None"  # stays alive as long as its part
    _allocation: _card.Allocation
    _device_data: np.ndarray
    _host: np.ndarray
    _size: int
    _address: int
    _bank: int

    @overloaded(3, 4)
    def __init__(self, owner: "bo | device | hw_context", size: int, *more: Any):
        if not isinstance(owner, device | hw_context):  # a part of another buffer
            (offset,) = more
            if offset + size > owner._size:
                raise RuntimeError("sub-buffer range exceeds its parent")
            self._parent, self._size = owner, size
            self._device_data = owner._device_data[offset : offset + size]
            self._host = owner._host[offset : offset + size]
            self._address = owner._address + offset
            self._bank, self._allocation = owner._bank, owner._allocation
            return
        flag, group = more if len(more) == 2 else (bo.normal, *more)
        if not isinstance(flag, bo.flags):
            raise TypeError(f"bo(): {flag!r} is not a flag of buffers")
        if flag not in (bo.normal, bo.cacheable):
            raise RuntimeError(f"the simulated card has no buffers of kind {flag.name}")
        if size <= 0:
            raise RuntimeError(f"invalid buffer size {size}")
        if size > BANK_BYTES:
            raise MemoryError("std::bad_alloc")
        dev = owner._device if isinstance(owner, hw_context) else owner
        allocation = dev._card.allocate(operator.index(group), size)
        self._parent, self._size, self._allocation = None, size, allocation
        self._device_data = allocation.data[:size]
        self._host = np.zeros(size, np.uint8)
        self._address, self._bank = allocation.address, allocation.bank
        weakref.finalize(self, dev._card.free, allocation).atexit = False

    def write(self, buffer: bytes | bytearray | memoryview | np.ndarray, seek: int, /) -> None:
        raw = np.frombuffer(buffer, np.uint8)
        if seek < 0 or seek + raw.size > self._size:
            raise RuntimeError("attempting to write past buffer size")
        self._host[seek : seek + raw.size] = raw

    def read(self, size: int, skip: int, /) -> np.ndarray:
        if min(size, skip) < 0 or skip + size > self._size:
            raise RuntimeError("attempting to read past buffer size")
        return self._host[skip : skip + size].view(np.int8).copy()

    @overloaded(1, 3)
    def sync(self, direction: xclBOSyncDirection, *part: int) -> None:
        size, offset = part or (self._size, 0)
        if min(size, offset) < 0 or offset + size > self._size:
            raise RuntimeError("attempting to sync past buffer size: Invalid argument")
        span = slice(offset, offset + size)
        if direction is xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE:
            self._device_data[span] = self._host[span]
        elif direction is xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE:
            self._host[span] = self._device_data[span]
        else:
            raise TypeError(f"sync(): {direction!r} is not a direction of this card")

    def map(self) -> memoryview:
        return self._host.data

    def size(self) -> int:
        return self._size

    def address(self) -> int:
        return self._address


class run:
    """One execution of a kernel, and again after its end."""

    @overloaded(0, 1)
    def __init__(self, *owner: kernel):
        self._owner: kernel | None = owner[0] if owner else None
        self._job: _card.Job | None = None
        self._values: dict[int, int] = {}
        self._buffers: dict[int, bo] = {}

    def set_arg(self, index: int, value: "int | bo", /) -> None:
        argument = self._kernel._arguments[operator.index(index)]
        if isinstance(value, bo):
            if not argument.port:
                raise RuntimeError(f"argument {argument.name} is a scalar")
            if value._bank != self._kernel.group_id(index):
                raise RuntimeError(
                    f"Kernel {KERNEL_NAME} has no compute units with connectivity required for global "
                    f"argument at index {index}: the buffer is in bank {value._bank}, the argument's bank is "
                    f"{self._kernel.group_id(index)}"
                )
            self._buffers[index] = value
            self._values[index] = value.address()
            return
        number = operator.index(value)
        if not -(1 << 31) <= number < 1 << 31:
            raise TypeError(f"set_arg(): {number} is not a 32-bit signed integer")
        self._values[index] = number & (1 << 8 * argument.size) - 1

    @property
    def _kernel(self) -> kernel:
        if self._owner is None:
            raise RuntimeError("the run is an empty handle")
        return self._owner

    def start(self) -> None:
        last = self._kernel._arguments[-1]
        if self._job is not None and not self._job.ended:
            raise RuntimeError("bad command state, can't launch")
        words = [0] * ((last.offset + last.size - _card.ARGUMENTS) // 4)
        for index, value in self._values.items():
            argument = self._kernel._arguments[index]
            for k in range(argument.size // 4):
                words[(argument.offset - _card.ARGUMENTS) // 4 + k] = value >> 32 * k & 0xFFFFFFFF
        job = _card.Job(words, dict(self._buffers))
        self._kernel._card.submit(job)
        self._job = job

    @overloaded(0, 1)
    def wait(self, *timeout: int) -> ert_cmd_state:
        """Until the end, or a timeout in milliseconds that leaves the run alive; 0: no timeout."""
        (timeout_ms,) = timeout or (0,)
        if self._job is None:
            raise RuntimeError("the run was not started")
        self._kernel._card.advance(self._job, timeout_ms or None)
        return _state(self._job, ert_cmd_state.ERT_CMD_STATE_TIMEOUT)

    def wait2(self) -> None:
        """As `wait`, but anything except completion is an exception."""
        state = self.wait()
        if state is not ert_cmd_state.ERT_CMD_STATE_COMPLETED:
            raise RuntimeError(f"run ended as {state.name}")

    def state(self) -> ert_cmd_state:
        if self._job is None:
            return ert_cmd_state.ERT_CMD_STATE_NEW
        self._kernel._card.advance(self._job, 1)  # who only looks must see it end, too
        return _state(self._job, ert_cmd_state.ERT_CMD_STATE_QUEUED)


def _state(job: _card.Job, otherwise: ert_cmd_state) -> ert_cmd_state:
    if job.state == "failed":
        return ert_cmd_state.ERT_CMD_STATE_ERROR
    return ert_cmd_state.ERT_CMD_STATE_COMPLETED if job.ended else otherwise
