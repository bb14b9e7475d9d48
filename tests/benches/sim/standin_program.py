"""A program of pyxrt's names for the stand-in kernel, and short names of theirs."""

import numpy as np

from symlight.hw.interface import arguments
from symlight.sim.pyxrt import module as pyxrt

ARGUMENTS = [argument.name for argument in arguments(2)]  # of a kernel with two channels
COMMAND, RUN_ID, N_PROMPT, N_NEW, EOS, FLAGS, WATCHDOG = range(7)
IO, HBM00, HBM01 = map(ARGUMENTS.index, ("io", "hbm00", "hbm01"))
TO, FROM = (
    pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE,
    pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE,
)
DONE, TIMEOUT = pyxrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED, pyxrt.ert_cmd_state.ERT_CMD_STATE_TIMEOUT


class Program:
    """What a host does: open, allocate, run the stand-in kernel, look at its answer."""

    def __init__(self, standin, context=False, beats=64):
        self.device = pyxrt.device(0)
        if context:
            uuid = self.device.register_xclbin(pyxrt.xclbin(str(standin.path)))
            self.owner = pyxrt.hw_context(self.device, uuid)
            self.kernel = pyxrt.kernel(self.owner, "symlight")
        else:
            self.owner = self.device
            uuid = self.device.load_xclbin(str(standin.path))
            self.kernel = pyxrt.kernel(self.device, uuid, "symlight:{symlight_1}", pyxrt.kernel.shared)
        self.io = pyxrt.bo(self.owner, 4096, pyxrt.bo.normal, self.kernel.group_id(IO))
        self.weights = pyxrt.bo(self.owner, beats * 32, pyxrt.bo.normal, self.kernel.group_id(HBM01))
        self.data = np.random.default_rng(1).integers(0, 1 << 32, (beats, 8), np.uint32)
        self.weights.write(self.data, 0)
        self.weights.sync(TO, beats * 32, 0)
        self.run = pyxrt.run(self.kernel)
        self.run.set_arg(IO, self.io)
        self.run.set_arg(HBM01, self.weights)

    def start(self, **values):
        for name, value in values.items():
            self.run.set_arg(globals()[name.upper()], value)
        self.run.start()

    def answer(self):
        self.io.sync(FROM, 4096, 0)
        return self.io.read(16, 0).view(np.uint32).tolist()

    def sum(self, beats):
        return int(self.data[:beats, 0].sum(dtype=np.uint32))
