"""pyxrt's names over a `fake_card.FakeCard`.

Everything the driver gives or gets goes through byte arrays: one copy on the host, one on the card, equal
only after `sync`. What XRT would answer with silence or a hang is an assertion here.
"""

import enum
from types import SimpleNamespace

import numpy as np

BYTE = np.uint8
UNTOUCHED = 0x5A  # what device memory holds before anything is copied there


class FakeState(enum.Enum):
    ERT_CMD_STATE_NEW = 1
    ERT_CMD_STATE_COMPLETED = 4
    ERT_CMD_STATE_ERROR = 5
    ERT_CMD_STATE_ABORT = 6
    ERT_CMD_STATE_TIMEOUT = 8
    ERT_CMD_STATE_NORESPONSE = 9


class FakeDirection(enum.Enum):
    XCL_BO_SYNC_BO_TO_DEVICE = 0
    XCL_BO_SYNC_BO_FROM_DEVICE = 1


def make_api(card, *, contexts: bool = True) -> SimpleNamespace:
    """A module like pyxrt: with `contexts` like 2.16 and newer, else like 2.13."""

    class Uuid:
        def to_string(self):
            return "0000-fake"

    class Xclbin:
        def __init__(self, path):
            self.path = path

        def get_uuid(self):
            return Uuid()

    class Device:
        def __init__(self, index):
            if index not in (0, "0000:3b:00.1"):
                raise RuntimeError(f"No such device with index '{index}'")
            card.opened += 1

        def get_info(self, what):
            return {"name": "fake_card", "bdf": "0000:3b:00.1"}[what]

        def get_xclbin_uuid(self):
            return Uuid()

    class Kernel:
        exclusive, shared = "exclusive", "shared"

        def __init__(self, owner, *rest):
            assert rest[-1] == "exclusive" if not contexts else owner.mode == "exclusive"

        def group_id(self, index):
            port = card.arguments[index].port
            return int(port[-2:]) if port else 65535

    class Bo:
        normal = 0

        def __init__(self, device, size, flags, group):
            assert size % 4096 == 0 and size <= 1 << 28
            # old data everywhere: nothing may rely on zeros
            self.host, self.card = np.full(size, 0xA5, BYTE), np.full(size, UNTOUCHED, BYTE)
            self.group = group

        def write(self, buffer, seek):
            raw = np.frombuffer(buffer, BYTE)
            self.host[seek : seek + raw.size] = raw

        def read(self, size, skip):
            return self.host[skip : skip + size].view(np.int8).copy()

        def sync(self, direction, size, offset):
            if not (0 <= offset and offset + size <= self.host.size):
                raise RuntimeError("attempting to sync past buffer size")
            part = slice(offset, offset + size)
            if direction is FakeDirection.XCL_BO_SYNC_BO_TO_DEVICE:
                self.card[part] = self.host[part]
            else:
                self.host[part] = self.card[part]

    class Run:
        def __init__(self, kernel):
            self.values = {}

        def set_arg(self, index, value):
            port = card.arguments[index].port
            if isinstance(value, Bo):
                assert value.group == int(port[-2:]), "buffer on the wrong bank"
            elif not -(1 << 31) <= value < 1 << 31:
                raise TypeError("int too large")
            self.values[index] = value

        def start(self):
            card.start(self.values)

        def wait(self, milliseconds):
            return card.wait()

    class Context:
        class access_mode(enum.Enum):
            exclusive = 0

        def __init__(self, device, uuid, mode):
            self.mode = mode.name

    names = {
        "device": Device,
        "xclbin": Xclbin,
        "uuid": Uuid,
        "kernel": Kernel,
        "bo": Bo,
        "run": Run,
        "ert_cmd_state": FakeState,
        "xclBOSyncDirection": FakeDirection,
        "xrt_info_device": SimpleNamespace(name="name", bdf="bdf"),
    }
    if contexts:
        names["hw_context"] = Context
        names["enumerate_devices"] = lambda: 1
        Device.register_xclbin = lambda self, image: Uuid()
    else:
        Device.load_xclbin = lambda self, image: Uuid()
    return SimpleNamespace(**names)
