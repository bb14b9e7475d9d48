"""The passive half of pyxrt's names: enums, uuid, and what an xclbin tells about itself (see pyxrt_sim)."""

import enum
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from symlight.hw.axi import BANK_BYTES
from symlight.hw.interface import KERNEL_NAME, arguments

from ..card import BANKS
from ..manifest import KernelFolder, read_kernel

XCL_BO_FLAGS_NONE = 0
_Method = TypeVar("_Method", bound=Callable[..., Any])


def overloaded(*counts: int) -> Callable[[_Method], _Method]:
    """Mark a method as bound in forms of so many arguments; other calls are a `TypeError`, as names of
    arguments are."""

    def decorate(function: _Method) -> _Method:
        @functools.wraps(function)
        def checked(self: object, *arguments: object) -> object:
            if len(arguments) not in counts:
                raise TypeError(
                    f"{function.__qualname__}(): incompatible function arguments: {len(arguments)} were given"
                )
            return function(self, *arguments)

        vars(checked)["counts"] = counts  # tests/contract compares them with the typings
        return cast(_Method, checked)  # the same type: the count is checked when it is called

    return decorate


class BoundEnum(enum.Enum):
    """Like a bound C++ enum: converts to int, compares with its own kind only."""

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__


class xclBOSyncDirection(BoundEnum):
    XCL_BO_SYNC_BO_TO_DEVICE = 0
    XCL_BO_SYNC_BO_FROM_DEVICE = 1
    XCL_BO_SYNC_BO_GMIO_TO_AIE = 2
    XCL_BO_SYNC_BO_AIE_TO_GMIO = 3


class ert_cmd_state(BoundEnum):
    ERT_CMD_STATE_NEW = 1
    ERT_CMD_STATE_QUEUED = 2
    ERT_CMD_STATE_COMPLETED = 4
    ERT_CMD_STATE_ERROR = 5
    ERT_CMD_STATE_ABORT = 6
    ERT_CMD_STATE_SUBMITTED = 7
    ERT_CMD_STATE_TIMEOUT = 8
    ERT_CMD_STATE_NORESPONSE = 9
    ERT_CMD_STATE_SKERROR = 10
    ERT_CMD_STATE_SKCRASHED = 11


class xrt_info_device(BoundEnum):
    bdf = 0
    interface_uuid = 1
    kdma = 2
    max_clock_frequency_mhz = 3
    m2m = 4
    name = 5  # type: ignore[assignment]  # shadows the property, as in the binding
    nodma = 6
    offline = 7
    electrical = 8
    thermal = 9
    mechanical = 10
    memory = 11
    platform = 12
    pcie_info = 13
    host = 14
    dynamic_regions = 15
    vmr = 16


class uuid:
    """Identity of an xclbin."""

    def __init__(self, text: str, /):
        self._text = text

    def to_string(self) -> str:
        return self._text


class xclbin:
    """A generated kernel on disk, by its folder or manifest.json; without a path an empty handle."""

    class xclbinkernel:
        """A kernel within an xclbin."""

        def __init__(self) -> None:
            self._name, self._count = "", 0

        def get_name(self) -> str:
            return self._name

        def get_num_args(self) -> int:
            return self._count

    class xclbinmem:
        """A memory bank of the platform."""

        def __init__(self) -> None:
            self._index, self._used = 0, False

        def get_tag(self) -> str:
            return f"HBM[{self._index}]"

        def get_base_address(self) -> int:
            return self._index * BANK_BYTES

        def get_size_kb(self) -> int:
            return BANK_BYTES >> 10

        def get_used(self) -> bool:
            return self._used

        def get_index(self) -> int:
            return self._index

    @overloaded(0, 1)
    def __init__(self, *path: str):
        self._folder = read_kernel(*path) if path else None

    @property
    def _kernel(self) -> KernelFolder:
        if self._folder is None:
            raise RuntimeError("the xclbin is an empty handle")
        return self._folder

    def get_uuid(self) -> uuid:
        return uuid(self._kernel.uuid)

    def get_xsa_name(self) -> str:
        return "simulated" if self._kernel else ""

    def get_kernels(self) -> list[xclbinkernel]:
        kernel = self.xclbinkernel()
        kernel._name, kernel._count = KERNEL_NAME, len(arguments(self._kernel.engine.channels))
        return [kernel]

    def get_mems(self) -> list[xclbinmem]:
        banks, channels = [self.xclbinmem() for _ in range(BANKS)], self._kernel.engine.channels
        for index, bank in enumerate(banks):
            bank._index, bank._used = index, index < channels
        return banks
