"""Types of XRT's Python binding `pyxrt`, which comes with XRT and not from a package index.

A comment names the XRT release that brought a name: nothing said, 2.13 (2022.1) or before. Names that a release
removed are left out: kernel.read_register, kernel.write_register (until 2.11). The project uses what 2.13 has,
and `hw_context` where it exists; `symlight.sim.pyxrt_sim` implements the names marked [sim] over a simulated card.
"""

from collections.abc import Callable
from typing import ClassVar, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

XCL_BO_FLAGS_NONE: int      # [sim]

class _Enum:
    """A bound C++ enum: has `name` and `value`, converts to int, and equals only its own kind."""

    name: str
    value: int
    def __init__(self, value: int) -> None: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...

class xclBOSyncDirection(_Enum):    # [sim]
    XCL_BO_SYNC_BO_TO_DEVICE: ClassVar[xclBOSyncDirection]
    XCL_BO_SYNC_BO_FROM_DEVICE: ClassVar[xclBOSyncDirection]
    XCL_BO_SYNC_BO_GMIO_TO_AIE: ClassVar[xclBOSyncDirection]
    XCL_BO_SYNC_BO_AIE_TO_GMIO: ClassVar[xclBOSyncDirection]

class ert_cmd_state(_Enum):     # [sim]; the state RUNNING (3) is not bound
    ERT_CMD_STATE_NEW: ClassVar[ert_cmd_state]
    ERT_CMD_STATE_QUEUED: ClassVar[ert_cmd_state]
    ERT_CMD_STATE_COMPLETED: ClassVar[ert_cmd_state]
    ERT_CMD_STATE_ERROR: ClassVar[ert_cmd_state]
    ERT_CMD_STATE_ABORT: ClassVar[ert_cmd_state]
    ERT_CMD_STATE_SUBMITTED: ClassVar[ert_cmd_state]
    ERT_CMD_STATE_TIMEOUT: ClassVar[ert_cmd_state]
    ERT_CMD_STATE_NORESPONSE: ClassVar[ert_cmd_state]
    ERT_CMD_STATE_SKERROR: ClassVar[ert_cmd_state]
    ERT_CMD_STATE_SKCRASHED: ClassVar[ert_cmd_state]

class xrt_info_device(_Enum):       # [sim]
    bdf: ClassVar[xrt_info_device]
    interface_uuid: ClassVar[xrt_info_device]
    kdma: ClassVar[xrt_info_device]
    max_clock_frequency_mhz: ClassVar[xrt_info_device]
    m2m: ClassVar[xrt_info_device]
    # The property of the base class is shadowed, as in the binding.
    name: ClassVar[xrt_info_device]     # type: ignore[assignment]
    nodma: ClassVar[xrt_info_device]
    offline: ClassVar[xrt_info_device]
    electrical: ClassVar[xrt_info_device]
    thermal: ClassVar[xrt_info_device]
    mechanical: ClassVar[xrt_info_device]
    memory: ClassVar[xrt_info_device]
    platform: ClassVar[xrt_info_device]
    pcie_info: ClassVar[xrt_info_device]
    host: ClassVar[xrt_info_device]
    dynamic_regions: ClassVar[xrt_info_device]
    vmr: ClassVar[xrt_info_device]

class uuid:     # [sim]
    def __init__(self, text: str) -> None: ...
    def to_string(self) -> str: ...

class xclbinip:
    def get_name(self) -> str: ...

class xclbinkernel:     # [sim]
    def get_name(self) -> str: ...
    def get_num_args(self) -> int: ...

class xclbinmem:        # [sim]
    def get_tag(self) -> str: ...
    def get_base_address(self) -> int: ...
    def get_size_kb(self) -> int: ...
    def get_used(self) -> bool: ...
    def get_index(self) -> int: ...

class xclbin:           # [sim]
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, path: str) -> None: ...
    def get_ips(self) -> list[xclbinip]: ...            # until 2.15, and broken
    def get_kernels(self) -> list[xclbinkernel]: ...
    def get_mems(self) -> list[xclbinmem]: ...
    def get_xsa_name(self) -> str: ...
    def get_uuid(self) -> uuid: ...
    def get_axlf(self) -> object: ...                   # later than 2.13

class device:           # [sim]
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, index: int) -> None: ...
    @overload
    def __init__(self, bdf: str) -> None: ...
    def load_xclbin(self, image: str | xclbin) -> uuid: ...     # warns from 2.23 on
    def register_xclbin(self, image: xclbin) -> uuid: ...       # 2.16
    def get_xclbin_uuid(self) -> uuid: ...
    def get_info(self, what: xrt_info_device) -> str: ...       # text or JSON, all numbers as text

class hw_context:       # 2.16 [sim]
    class access_mode(_Enum):
        exclusive: ClassVar[hw_context.access_mode]
        shared: ClassVar[hw_context.access_mode]

    exclusive: ClassVar[access_mode]
    shared: ClassVar[access_mode]
    @overload
    def __init__(self, device: device, image: uuid | xclbin | str) -> None: ...
    @overload
    def __init__(self, device: device, image: uuid | xclbin | str, mode: access_mode | dict[str, int]) -> None: ...
    def get_device(self) -> device: ...
    def get_xclbin_uuid(self) -> uuid: ...
    def get_xclbin(self) -> xclbin: ...
    def get_mode(self) -> access_mode: ...

class kernel:           # [sim]
    class cu_access_mode(_Enum):
        exclusive: ClassVar[kernel.cu_access_mode]
        shared: ClassVar[kernel.cu_access_mode]
        none: ClassVar[kernel.cu_access_mode]

    exclusive: ClassVar[cu_access_mode]
    shared: ClassVar[cu_access_mode]
    none: ClassVar[cu_access_mode]
    @overload
    def __init__(self, device: device, image: uuid, name: str) -> None: ...     # warns from 2.23 on
    @overload
    def __init__(self, device: device, image: uuid, name: str, mode: cu_access_mode) -> None: ...
    @overload
    def __init__(self, context: hw_context, name: str) -> None: ...             # 2.16
    def __call__(self, *args: int | bo) -> run: ...     # an argument that cannot be converted stays unset, silently
    def group_id(self, argno: int) -> int: ...

class run:              # [sim]
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, kernel: kernel) -> None: ...
    def set_arg(self, index: int, value: int | bo) -> None: ...     # signed 32 bits
    def start(self) -> None: ...
    @overload
    def wait(self) -> ert_cmd_state: ...
    @overload
    def wait(self, timeout_ms: int) -> ert_cmd_state: ...           # TIMEOUT leaves the run alive; 0: no limit
    def wait2(self, timeout_ms: int = ...) -> None: ...             # 2.20
    def state(self) -> ert_cmd_state: ...
    def add_callback(
        self, state: ert_cmd_state, callback: Callable[..., None], data: object
    ) -> None: ...                                                  # bound, but its converters are missing

class bo:               # [sim]
    class flags(_Enum):
        normal: ClassVar[bo.flags]
        cacheable: ClassVar[bo.flags]
        device_only: ClassVar[bo.flags]
        host_only: ClassVar[bo.flags]
        p2p: ClassVar[bo.flags]
        svm: ClassVar[bo.flags]

    normal: ClassVar[flags]
    cacheable: ClassVar[flags]
    device_only: ClassVar[flags]
    host_only: ClassVar[flags]
    p2p: ClassVar[flags]
    svm: ClassVar[flags]
    @overload
    def __init__(self, device: device, size: int, flags: flags, group: int) -> None: ...
    @overload
    def __init__(self, parent: bo, size: int, offset: int) -> None: ...
    @overload
    def __init__(self, context: hw_context, size: int, flags: flags, group: int) -> None: ...       # 2.23
    @overload
    def __init__(self, context: hw_context, size: int, group: int) -> None: ...                     # 2.23
    def write(self, data: Buffer, seek: int) -> None: ...
    def read(self, size: int, skip: int) -> npt.NDArray[np.int8]: ...
    @overload
    def sync(self, direction: xclBOSyncDirection, size: int, offset: int) -> None: ...
    @overload
    def sync(self, direction: xclBOSyncDirection) -> None: ...      # 2.16: the whole buffer
    def map(self) -> memoryview: ...
    def size(self) -> int: ...
    def address(self) -> int: ...

def enumerate_devices() -> int: ...                                     # 2.17 [sim]
def log_message(level: object, tag: str, message: str) -> None: ...     # 2.17
