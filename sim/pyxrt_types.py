"""The passive half of pyxrt's names: enums, uuid, and what an xclbin tells about itself (see pyxrt_sim)."""

import enum
from pathlib import Path

from symlight.hw.interface import KERNEL_NAME, arguments

from .card import BANK_BYTES, BANKS
from .manifest import read_kernel

XCL_BO_FLAGS_NONE = 0


class BoundEnum(enum.Enum):
    """Like a bound C++ enum: converts to int, compares with its own kind only."""

    def __int__(self):
        return self.value

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


xrt_info_device = BoundEnum("xrt_info_device", {name: value for value, name in enumerate((
    "bdf", "interface_uuid", "kdma", "max_clock_frequency_mhz", "m2m", "name", "nodma", "offline", "electrical", "thermal",
    "mechanical", "memory", "platform", "pcie_info", "host", "dynamic_regions", "vmr",
))})

class uuid:
    """Identity of an xclbin."""

    def __init__(self, text: str):
        self._text = text

    def to_string(self) -> str:
        return self._text


class xclbinkernel:
    """A kernel within an xclbin."""

    def __init__(self, name: str, count: int):
        self._name, self._count = name, count

    def get_name(self) -> str:
        return self._name

    def get_num_args(self) -> int:
        return self._count


class xclbinmem:
    """A memory bank of the platform."""

    def __init__(self, index: int, used: bool):
        self._index, self._used = index, used

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


class xclbin:
    """A generated kernel on disk: folder or manifest.json."""

    def __init__(self, path: str | Path):
        self._kernel = read_kernel(path)

    def get_uuid(self) -> uuid:
        return uuid(self._kernel.uuid)

    def get_xsa_name(self) -> str:
        return "simulated"

    def get_kernels(self) -> list[xclbinkernel]:
        return [xclbinkernel(KERNEL_NAME, len(arguments(self._kernel.engine.channels)))]

    def get_mems(self) -> list[xclbinmem]:
        return [xclbinmem(k, k < self._kernel.engine.channels) for k in range(BANKS)]
