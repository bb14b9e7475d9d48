"""Types of XRT's Python binding `pyxrt`, which comes with XRT and not from a package index.

A comment names the releases that have a name or a form of call:

    # 2.16            from 2.16 on
    # 2.8 to 2.11     gone in the release after 2.11
    # 2.8, warns from 2.23     still there, with a DeprecationWarning

What says nothing is as old as the class around it. Taken from the tagged releases 2.8 (2020.2, the first with this binding), 2.9, 2.11,
2.12 (2021.2), 2.13 (2022.1), 2.14, 2.15, 2.16 (2023.2), 2.17, 2.18, 2.19 (2025.1), 2.20, 2.21, 2.23 (2026.1) and 2.25; 2.26 is not
released yet. The driver needs 2.13 and uses `hw_context` where it exists; `symlight.sim.pyxrt_sim` implements a part over a simulated card,
and tests/contract holds both to this file, release by release.

Arguments have names in 2.23 and newer only, and not everywhere: pass them by position.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import ClassVar, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

XCL_BO_FLAGS_NONE: int  # 2.8

class _Enum:  # 2.8
    """A bound C++ enum: has `name` and `value`, converts to int, and equals only its own kind."""

    name: str
    value: int
    __members__: ClassVar[dict[str, _Enum]]
    def __init__(self, value: int) -> None: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...

class xclBOSyncDirection(_Enum):  # 2.8
    XCL_BO_SYNC_BO_TO_DEVICE: ClassVar[xclBOSyncDirection]
    XCL_BO_SYNC_BO_FROM_DEVICE: ClassVar[xclBOSyncDirection]
    XCL_BO_SYNC_BO_GMIO_TO_AIE: ClassVar[xclBOSyncDirection]  # 2.11
    XCL_BO_SYNC_BO_AIE_TO_GMIO: ClassVar[xclBOSyncDirection]  # 2.11

class ert_cmd_state(_Enum):  # 2.11; the state RUNNING (3) is not bound
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
    ERT_CMD_STATE_MAX: ClassVar[ert_cmd_state]  # 2.11 to 2.11

class xrt_info_device(_Enum):  # 2.12
    bdf: ClassVar[xrt_info_device]
    interface_uuid: ClassVar[xrt_info_device]
    kdma: ClassVar[xrt_info_device]
    max_clock_frequency_mhz: ClassVar[xrt_info_device]
    m2m: ClassVar[xrt_info_device]
    # The property of the base class is shadowed, as in the binding.
    name: ClassVar[xrt_info_device]  # type: ignore[assignment, misc]
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
    vmr: ClassVar[xrt_info_device]  # 2.13

class xrt_msg_level(_Enum):  # 2.17
    emergency: ClassVar[xrt_msg_level]
    alert: ClassVar[xrt_msg_level]
    critical: ClassVar[xrt_msg_level]
    error: ClassVar[xrt_msg_level]
    warning: ClassVar[xrt_msg_level]
    notice: ClassVar[xrt_msg_level]
    info: ClassVar[xrt_msg_level]
    debug: ClassVar[xrt_msg_level]

# The values of this enum, alone among those of the module, are names of the module too.
emergency: xrt_msg_level  # 2.17
alert: xrt_msg_level  # 2.17
critical: xrt_msg_level  # 2.17
error: xrt_msg_level  # 2.17
warning: xrt_msg_level  # 2.17
notice: xrt_msg_level  # 2.17
info: xrt_msg_level  # 2.17
debug: xrt_msg_level  # 2.17

def enumerate_devices() -> int: ...  # 2.17
def log_message(level: xrt_msg_level, tag: str, message: str) -> None: ...  # 2.17

class uuid:  # 2.8
    def __init__(self, text: str) -> None: ...
    def get(self) -> npt.NDArray[np.uint8]: ...  # 2.8 to 2.9
    def to_string(self) -> str: ...

class xclbin:  # 2.11
    class xclbinip:
        def __init__(self) -> None: ...
        def get_name(self) -> str: ...

    class xclbinkernel:  # 2.12
        def __init__(self) -> None: ...
        def get_name(self) -> str: ...
        def get_num_args(self) -> int: ...

    class xclbinmem:  # 2.12
        def __init__(self) -> None: ...
        def get_tag(self) -> str: ...
        def get_base_address(self) -> int: ...
        def get_size_kb(self) -> int: ...
        def get_used(self) -> bool: ...
        def get_index(self) -> int: ...

    # A third form takes a C pointer that Python cannot make.
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, path: str) -> None: ...
    @overload
    def get_ips(self) -> xclbinip_vector: ...  # 2.11 to 2.15; from 2.14 it returns None
    @overload
    def get_ips(self, name: str) -> None: ...  # 2.14 to 2.15
    def get_kernels(self) -> list[xclbin.xclbinkernel]: ...  # 2.12
    def get_mems(self) -> list[xclbin.xclbinmem]: ...  # 2.12
    def get_xsa_name(self) -> str: ...
    def get_uuid(self) -> uuid: ...
    def get_axlf(self) -> object: ...  # 2.16; a C pointer, which Python cannot take

class xclbinip_vector:  # 2.11; with the methods of a list
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> xclbin.xclbinip: ...
    def __iter__(self) -> Iterator[xclbin.xclbinip]: ...

class xclbinkernel_vector:  # 2.12
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> xclbin.xclbinkernel: ...
    def __iter__(self) -> Iterator[xclbin.xclbinkernel]: ...

class xclbinmem_vector:  # 2.12
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> xclbin.xclbinmem: ...
    def __iter__(self) -> Iterator[xclbin.xclbinmem]: ...

class device:  # 2.8
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, index: int) -> None: ...
    @overload
    def __init__(self, bdf: str) -> None: ...  # 2.12
    @overload
    def load_xclbin(self, path: str) -> uuid: ...  # 2.8, warns from 2.23
    @overload
    def load_xclbin(self, image: xclbin) -> uuid: ...  # 2.11, warns from 2.23
    def register_xclbin(self, image: xclbin) -> uuid: ...  # 2.16
    def get_xclbin_uuid(self) -> uuid: ...
    def get_info(self, what: xrt_info_device) -> str: ...  # 2.12; text or JSON, all numbers as text

class hw_context:  # 2.16
    class access_mode(_Enum):  # 2.23
        exclusive: ClassVar[hw_context.access_mode]
        shared: ClassVar[hw_context.access_mode]

    exclusive: ClassVar[access_mode]  # 2.23
    shared: ClassVar[access_mode]  # 2.23
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, device: device, uuid: uuid) -> None: ...  # 2.16; shared
    @overload
    def __init__(self, device: device, uuid: uuid, mode: access_mode) -> None: ...  # 2.23
    @overload
    def __init__(self, device: device, uuid: uuid, cfg_param: dict[str, int]) -> None: ...  # 2.23
    @overload
    def __init__(self, device: device, image: xclbin) -> None: ...  # 2.23
    @overload
    def __init__(self, device: device, image: xclbin, mode: access_mode) -> None: ...  # 2.23
    @overload
    def __init__(self, device: device, image: xclbin, cfg_param: dict[str, int]) -> None: ...  # 2.23
    @overload
    def __init__(self, device: device, path: str) -> None: ...  # 2.23
    @overload
    def __init__(self, device: device, path: str, mode: access_mode) -> None: ...  # 2.23
    @overload
    def __init__(self, device: device, path: str, cfg_param: dict[str, int]) -> None: ...  # 2.23
    @overload
    def __init__(self, device: device, cfg_param: dict[str, int], mode: access_mode) -> None: ...  # 2.23
    @overload
    def __init__(self, device: device, elf: elf) -> None: ...  # 2.23
    @overload
    def __init__(
        self, device: device, elf: elf, cfg_param: dict[str, int], mode: access_mode
    ) -> None: ...  # 2.23
    def add_config(self, elf: elf) -> None: ...  # 2.23
    def get_device(self) -> device: ...  # 2.23
    def get_xclbin_uuid(self) -> uuid: ...  # 2.23
    def get_xclbin(self) -> xclbin: ...  # 2.23
    def get_mode(self) -> access_mode: ...  # 2.23

class kernel:  # 2.8
    class cu_access_mode(_Enum):  # 2.11
        exclusive: ClassVar[kernel.cu_access_mode]
        shared: ClassVar[kernel.cu_access_mode]
        none: ClassVar[kernel.cu_access_mode]

    exclusive: ClassVar[cu_access_mode]  # 2.11
    shared: ClassVar[cu_access_mode]  # 2.11
    none: ClassVar[cu_access_mode]  # 2.11
    @overload
    def __init__(
        self, device: device, uuid: npt.NDArray[np.uint8], name: str, exclusive: bool = ...
    ) -> None: ...  # 2.8 to 2.9
    @overload
    def __init__(
        self, device: device, uuid: uuid, name: str, mode: cu_access_mode
    ) -> None: ...  # 2.11, warns from 2.23
    @overload
    def __init__(self, device: device, uuid: uuid, name: str) -> None: ...  # 2.13, warns from 2.23
    @overload
    def __init__(self, context: hw_context, name: str) -> None: ...  # 2.16
    def __call__(
        self, *args: int | bo
    ) -> run: ...  # an argument that cannot be converted stays unset, silently
    def group_id(self, argno: int) -> int: ...
    def read_register(self, offset: int) -> int: ...  # 2.8 to 2.11
    def write_register(self, offset: int, value: int) -> None: ...  # 2.8 to 2.11

class run:  # 2.8
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, kernel: kernel) -> None: ...
    @overload
    def set_arg(self, index: int, value: bo) -> None: ...
    @overload
    def set_arg(self, index: int, value: int) -> None: ...  # signed 32 bits
    def start(self) -> None: ...
    @overload
    def wait(self) -> ert_cmd_state: ...  # 2.8 to 2.9 (returning None), and 2.12
    @overload
    def wait(self, timeout_ms: int) -> ert_cmd_state: ...  # 2.11; TIMEOUT leaves the run alive, 0: no limit
    @overload
    def wait2(self) -> None: ...  # 2.20; anything but completion is an exception
    @overload
    def wait2(self, timeout: timedelta) -> object: ...  # 2.20; bound, but nothing converts to its arguments
    def state(self) -> ert_cmd_state: ...
    def add_callback(
        self, state: ert_cmd_state, callback: Callable[..., None], data: object
    ) -> None: ...  # bound, but nothing converts to its arguments
    def get_ctrl_scratchpad_bo(self) -> bo: ...  # 2.25

class bo:  # 2.8
    class flags(_Enum):  # 2.11
        normal: ClassVar[bo.flags]
        cacheable: ClassVar[bo.flags]
        device_only: ClassVar[bo.flags]
        host_only: ClassVar[bo.flags]
        p2p: ClassVar[bo.flags]
        svm: ClassVar[bo.flags]

    normal: ClassVar[flags]  # 2.11
    cacheable: ClassVar[flags]  # 2.11
    device_only: ClassVar[flags]  # 2.11
    host_only: ClassVar[flags]  # 2.11
    p2p: ClassVar[flags]  # 2.11
    svm: ClassVar[flags]  # 2.11
    @overload
    def __init__(self, device: device, size: int, flags: int, group: int) -> None: ...  # 2.8 to 2.9
    @overload
    def __init__(self, device: device, size: int, flags: flags, group: int) -> None: ...  # 2.11
    @overload
    def __init__(self, parent: bo, size: int, offset: int) -> None: ...
    @overload
    def __init__(self, context: hw_context, size: int, flags: flags, group: int) -> None: ...  # 2.23
    @overload
    def __init__(self, context: hw_context, size: int, group: int) -> None: ...  # 2.23
    def write(self, data: Buffer, seek: int) -> None: ...
    def read(self, size: int, skip: int) -> npt.NDArray[np.int8]: ...  # words of int32 in 2.8 and 2.9
    @overload
    def sync(self, direction: xclBOSyncDirection, size: int, offset: int) -> None: ...
    @overload
    def sync(self, direction: xclBOSyncDirection) -> None: ...  # 2.16; the whole buffer
    def map(self) -> memoryview: ...  # 2.11
    def size(self) -> int: ...
    def address(self) -> int: ...

class elf:  # 2.19; with the rest of this file for processors with AI engines, which this card has not
    @overload
    def __init__(self, path: str) -> None: ...
    @overload
    def __init__(self, data: object, size: int) -> None: ...

class program:  # 2.19
    def __init__(self, elf: elf) -> None: ...
    def get_partition_size(self) -> int: ...

class module:  # 2.20
    @overload
    def __init__(self, elf: elf) -> None: ...
    @overload
    def __init__(self, userptr: object, size: int, uuid: uuid) -> None: ...  # 2.20 to 2.21
    @overload
    def __init__(self, parent: module, context: hw_context) -> None: ...  # 2.20 to 2.21
    def get_cfg_uuid(self) -> uuid: ...  # 2.20 to 2.21
    def get_hw_context(self) -> hw_context: ...

class runlist:  # 2.20
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, context: hw_context) -> None: ...
    def add(self, run: run) -> None: ...
    def execute(self) -> None: ...
    @overload
    def wait(self) -> None: ...
    @overload
    def wait(self, timeout: timedelta) -> object: ...

_bo = bo
_kernel = kernel  # inside the submodules the same names mean something else

class ext:  # 2.20; a submodule
    class access_mode(_Enum):
        none: ClassVar[ext.access_mode]
        read: ClassVar[ext.access_mode]
        write: ClassVar[ext.access_mode]
        read_write: ClassVar[ext.access_mode]
        local: ClassVar[ext.access_mode]
        shared: ClassVar[ext.access_mode]
        process: ClassVar[ext.access_mode]
        hybrid: ClassVar[ext.access_mode]
        def __or__(self, other: ext.access_mode) -> ext.access_mode: ...
        def __and__(self, other: ext.access_mode) -> ext.access_mode: ...

    none: ClassVar[access_mode]
    read: ClassVar[access_mode]
    write: ClassVar[access_mode]
    read_write: ClassVar[access_mode]
    local: ClassVar[access_mode]
    shared: ClassVar[access_mode]
    process: ClassVar[access_mode]
    hybrid: ClassVar[access_mode]
    class bo(_bo):
        @overload
        def __init__(self, device: device, userptr: object, size: int, access: ext.access_mode) -> None: ...
        @overload
        def __init__(self, device: device, userptr: object, size: int) -> None: ...
        @overload
        def __init__(self, device: device, size: int, access: ext.access_mode) -> None: ...
        @overload
        def __init__(self, device: device, size: int) -> None: ...
        @overload
        def __init__(self, device: device, pid: int, export_handle: int) -> None: ...
        @overload
        def __init__(self, context: hw_context, size: int, access: ext.access_mode) -> None: ...
        @overload
        def __init__(self, context: hw_context, size: int) -> None: ...
        @overload
        def __init__(self, context: hw_context, pid: int, export_handle: int) -> None: ...

    class kernel(_kernel):
        @overload
        def __init__(self, context: hw_context, module: module, name: str) -> None: ...
        @overload
        def __init__(self, context: hw_context, name: str) -> None: ...

class graph:  # 2.12 to 2.15 (not on x86-64), and 2.26
    class access_mode(_Enum):  # 2.26; before, xrt_graph_access_mode of the module
        exclusive: ClassVar[graph.access_mode]
        primary: ClassVar[graph.access_mode]
        shared: ClassVar[graph.access_mode]

    exclusive: ClassVar[access_mode]  # 2.26
    primary: ClassVar[access_mode]  # 2.26
    shared: ClassVar[access_mode]  # 2.26
    @overload
    def __init__(
        self, device: device, uuid: uuid, name: str, mode: xrt_graph_access_mode
    ) -> None: ...  # 2.12 to 2.15
    @overload
    def __init__(self, context: hw_context, name: str) -> None: ...  # 2.26
    @overload
    def __init__(self, context: hw_context, name: str, mode: access_mode) -> None: ...  # 2.26
    def reset(self) -> None: ...
    def get_timestamp(self) -> int: ...
    def gmio_bank_id(self, gmio_name: str) -> int: ...  # 2.26
    def run(self, iterations: int = ...) -> None: ...  # no default before 2.26
    @overload
    def wait(self, cycles: int = ...) -> None: ...
    @overload
    def wait(self, timeout: timedelta) -> None: ...
    def suspend(self) -> None: ...
    def resume(self) -> None: ...
    def end(self, cycles: int = ...) -> None: ...
    def update(self, port_name: str, data: Buffer) -> None: ...  # 2.26
    def read(self, port_name: str, size: int) -> npt.NDArray[np.int8]: ...  # 2.26

class xrt_graph_access_mode(_Enum):  # 2.12 to 2.15 (not on x86-64)
    exclusive: ClassVar[xrt_graph_access_mode]
    primary: ClassVar[xrt_graph_access_mode]
    shared: ClassVar[xrt_graph_access_mode]

class aie:  # 2.26; a submodule
    class bo(_bo):
        @overload
        def __init__(self, device: device, size: int, flags: _bo.flags, group: int) -> None: ...
        @overload
        def __init__(self, context: hw_context, size: int, flags: _bo.flags, group: int) -> None: ...
        @overload
        def __init__(self, context: hw_context, size: int, group: int) -> None: ...
        @overload  # type: ignore[override]
        def sync(self, port: str, direction: xclBOSyncDirection, size: int, offset: int) -> None: ...
        @overload
        def sync(self, port: str, direction: xclBOSyncDirection) -> None: ...
