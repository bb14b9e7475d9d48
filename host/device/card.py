"""One opened kernel with its buffers, through pyxrt's names alone.

The same code runs on XRT's `pyxrt` (2.13 and newer) and on `sim.pyxrt.module`; the module is handed in as
`api`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from symlight.base.errors import DeviceFault, UserError
from symlight.base.optional import present
from symlight.hw.axi import BANK_BYTES
from symlight.hw.interface import KERNEL_NAME, Argument

if TYPE_CHECKING:
    import pyxrt
PAGE = 4096  # XRT allocates whole pages
ALIGNMENT = 64  # of a partial transfer: DMA engines move whole words of 64 bytes
SCALAR_LIMIT = 1 << 31  # pyxrt casts scalars to a signed C int
RESET = "reset the card (`xbutil reset`)"


@contextmanager
def xrt_errors(doing: str) -> Iterator[None]:
    """Turn what pyxrt throws into one sentence that says what was being done."""
    try:
        yield
    except (RuntimeError, OSError, IndexError, MemoryError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise DeviceFault(f"{doing} failed: {text}") from error


class KernelCard(Protocol):
    """What the driver needs of a card that holds a kernel: `Card`, and `board.card.BoardCard`.

    `reset` tells the user how to reset it, as the beginning of a clause.
    """

    reset: str

    def allocate(self, sizes: dict[str, int]) -> None: ...

    def write(self, name: str, offset: int, data: np.ndarray) -> None: ...

    def read(self, name: str, offset: int, size: int) -> np.ndarray: ...

    def start(self, **scalars: int) -> None: ...

    def wait(self, milliseconds: int) -> bool: ...

    def info(self, what: str) -> str: ...

    def close(self) -> None: ...


class Card:
    """A kernel opened for exclusive use.

    Parameters
    ----------
    api : module
        `pyxrt`, or something with its names.
    device : int | str
        Index or bus address.
    xclbin : str
        File that the device loads.
    arguments : list[Argument]
        The kernel's arguments, in order.
    """

    reset = RESET

    def __init__(self, api: ModuleType, device: int | str, xclbin: str, arguments: list[Argument]):
        self._api = api
        self._arguments = {argument.name: i for i, argument in enumerate(arguments)}
        self._buffers: dict[str, pyxrt.bo] = {}
        self._run: pyxrt.run | None = None
        with xrt_errors(f"opening device {device}"):
            self._device: pyxrt.device | None = api.device(device)
        with xrt_errors(f"loading {xclbin} onto device {device}"):
            self._kernel: pyxrt.kernel | None = self._open(xclbin)

    def _open(self, xclbin: str) -> "pyxrt.kernel":
        api = self._api
        kernel: pyxrt.kernel
        device = present(self._device)
        image = api.xclbin(xclbin)
        if hasattr(api, "hw_context"):  # XRT 2.16 and newer; load_xclbin warns from 2.23 on
            uuid = device.register_xclbin(image)
            modes = getattr(api.hw_context, "access_mode", None)
            # until 2.22 pyxrt makes shared contexts only; a kernel so opened makes its own, exclusive one
            if modes is None:
                kernel = api.kernel(device, uuid, KERNEL_NAME, api.kernel.exclusive)
                return kernel
            self._context = api.hw_context(device, uuid, modes.exclusive)
            kernel = api.kernel(self._context, KERNEL_NAME)
            return kernel
        uuid = device.load_xclbin(image)
        loaded = device.get_xclbin_uuid().to_string()
        if loaded != image.get_uuid().to_string():
            raise UserError(
                f"the device holds xclbin {loaded}, not {xclbin}; reset it (`xbutil reset`) and try again"
            )
        kernel = api.kernel(device, uuid, KERNEL_NAME, api.kernel.exclusive)
        return kernel

    def allocate(self, sizes: dict[str, int]) -> None:
        """A buffer of so many bytes for every named pointer argument, on the bank that the kernel reaches."""
        kernel, run = present(self._kernel), self._api.run(self._kernel)
        self._run = run
        for name, size in sizes.items():
            index = self._arguments[name]
            size = -(-size // PAGE) * PAGE
            if size > BANK_BYTES:
                raise UserError(
                    f"argument {name} needs {size:,} bytes, and a memory bank of the card has "
                    f"{BANK_BYTES:,}; use a kernel with more channels or a smaller model"
                )
            with xrt_errors(f"allocating {size} bytes for argument {name}"):
                # always group_id: a buffer on another bank would be copied silently
                group = kernel.group_id(index)
                self._buffers[name] = self._api.bo(self._device, size, self._api.bo.normal, group)
                run.set_arg(index, self._buffers[name])

    def write(self, name: str, offset: int, data: np.ndarray) -> None:
        """Copy `data` into a buffer of the device; up to 64 bytes around it become what the host last saw
        there."""
        raw = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        if not raw.size:
            return
        buffer = self._buffers[name]
        first, last = _aligned(offset, raw.size)
        with xrt_errors(f"writing {raw.size} bytes to buffer {name}"):
            buffer.write(raw.data, offset)
            buffer.sync(self._api.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, last - first, first)

    def read(self, name: str, offset: int, size: int) -> np.ndarray:
        """Bytes of a buffer as the device left them, uint8."""
        if not size:
            return np.zeros(0, np.uint8)
        buffer = self._buffers[name]
        first, last = _aligned(offset, size)
        with xrt_errors(f"reading {size} bytes of buffer {name}"):
            buffer.sync(self._api.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, last - first, first)
            return np.frombuffer(bytes(buffer.read(size, offset)), np.uint8)

    def start(self, **scalars: int) -> None:
        """Start the kernel."""
        for name, value in scalars.items():
            if not 0 <= value < SCALAR_LIMIT:
                raise ValueError(f"kernel argument {name} = {value} does not fit 31 bits")
        run = present(self._run)
        with xrt_errors("starting the kernel"):
            for name, value in scalars.items():
                run.set_arg(self._arguments[name], value)
            run.start()

    def wait(self, milliseconds: int) -> bool:
        """True once the kernel is done, False after so long; a failed run is a `DeviceFault`."""
        states = self._api.ert_cmd_state
        with xrt_errors("waiting for the kernel"):
            state = present(self._run).wait(milliseconds)
        if state == states.ERT_CMD_STATE_COMPLETED:
            return True
        if state in (states.ERT_CMD_STATE_ERROR, states.ERT_CMD_STATE_ABORT, states.ERT_CMD_STATE_NORESPONSE):
            raise DeviceFault(f"the kernel's run ended as {state.name}; {RESET} and try again")
        return False

    def info(self, what: str) -> str:
        """What the device says about itself under a name of `xrt_info_device`; sensors answer in JSON."""
        with xrt_errors(f"asking the device for {what}"):
            return present(self._device).get_info(getattr(self._api.xrt_info_device, what))

    def close(self) -> None:
        """Give everything back, buffers first: they must not outlive the kernel."""
        self._run = None
        self._buffers.clear()
        self._kernel = self._context = self._device = None

    _context = None


def _aligned(offset: int, size: int) -> tuple[int, int]:
    return offset // ALIGNMENT * ALIGNMENT, -(-(offset + size) // ALIGNMENT) * ALIGNMENT
