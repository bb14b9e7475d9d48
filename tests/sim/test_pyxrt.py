"""pyxrt's names over the simulated card: opening, programming, runs."""

import gc
import json
import threading
import time

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.sim.manifest import write_kernel
from symlight.sim.options import SimOptions
from symlight.sim.pyxrt import module as pyxrt
from tests.benches.sim.standin_program import (
    ARGUMENTS,
    DONE,
    FROM,
    HBM01,
    IO,
    N_NEW,
    N_PROMPT,
    RUN_ID,
    TIMEOUT,
    Program,
)

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("context", [False, True], ids=["2.13", "2.16"])
@pytest.mark.parametrize(
    "options", [{}, {"hbm": "ideal"}, {"back_pressure": 0.4, "seed": 7}, {"clock_mhz": 300}]
)
def test_runs(standin, plug, options, context):
    plug(**options)
    program = Program(standin, context)
    for run_id, beats in enumerate((1, 64, 17)):
        program.start(run_id=run_id, n_prompt=beats, n_new=10 ** (2 * run_id), command=3)
        assert program.run.wait() is DONE and program.run.state() is DONE
        assert program.answer() == [run_id, program.sum(beats), 0, 3]


def test_same_options_same_cycles(standin, plug):
    """Though slices of wall time differ, and some are cut short by timeouts."""
    cycles = []
    for timeout in (0, 1, 3):
        card = plug(back_pressure=0.3)
        program = Program(standin)
        for beats in (5, 64):
            program.start(n_prompt=beats, n_new=40_000)
            while program.run.wait(timeout) is not DONE:
                pass
        cycles.append(card.model.cycles)
    assert len(set(cycles)) == 1


def test_timeout_leaves_the_run_alive(standin, plug):
    plug()
    program = Program(standin)
    program.start(n_prompt=3, n_new=2_000_000, run_id=5)
    begin = time.monotonic()
    assert program.run.wait(20) is TIMEOUT
    assert time.monotonic() - begin < 5
    assert program.run.state() is pyxrt.ert_cmd_state.ERT_CMD_STATE_QUEUED
    with pytest.raises(RuntimeError, match="bad command state"):
        program.run.start()
    assert program.run.wait() is DONE
    assert program.answer()[:2] == [5, program.sum(3)]
    program.start(run_id=6)
    assert program.run.wait(10_000) is DONE and program.answer()[0] == 6


def test_a_second_run_waits_for_the_first(standin, plug):
    plug()
    program = Program(standin)
    second = pyxrt.run(program.kernel)
    other = pyxrt.bo(program.owner, 4096, pyxrt.bo.normal, program.kernel.group_id(IO))
    for index, value in ((IO, other), (HBM01, program.weights), (N_PROMPT, 2), (RUN_ID, 8), (N_NEW, 0)):
        second.set_arg(index, value)
    program.start(n_prompt=1, n_new=5000, run_id=7)
    second.start()
    assert second.wait() is DONE and program.run.state() is DONE
    assert program.answer()[0] == 7
    other.sync(FROM, 4096, 0)
    assert other.read(8, 0).view(np.uint32).tolist() == [8, program.sum(2)]


def test_looking_at_the_state_is_enough(standin, plug):
    plug()
    program = Program(standin)
    assert program.run.state() is pyxrt.ert_cmd_state.ERT_CMD_STATE_NEW
    program.start(n_prompt=1, n_new=20_000)
    while program.run.state() is not DONE:
        pass


def test_opening(standin, plug, tmp_path):
    plug(index=0)
    plug(index=3)
    assert pyxrt.enumerate_devices() == 2
    with pytest.raises(RuntimeError, match="No such device"):
        pyxrt.device(1)
    device = pyxrt.device("0000:03:00.0")
    with pytest.raises(RuntimeError, match="before an xclbin"):
        pyxrt.bo(device, 4096, pyxrt.bo.normal, 0)
    with pytest.raises(RuntimeError, match="mismatch"):
        pyxrt.kernel(device, pyxrt.xclbin(str(standin.path)).get_uuid(), "symlight")
    with pytest.raises(UserError, match="does not exist"):
        device.load_xclbin(str(tmp_path))
    image = pyxrt.xclbin(str(standin.path / "manifest.json"))
    uuid = device.load_xclbin(image)
    assert uuid.to_string() == device.get_xclbin_uuid().to_string() == image.get_uuid().to_string()
    assert [k.get_name() for k in image.get_kernels()] == ["symlight"]
    assert image.get_kernels()[0].get_num_args() == len(ARGUMENTS)
    banks = image.get_mems()
    assert len(banks) == 32 and [m.get_used() for m in banks[:3]] == [True, True, False]
    assert (banks[1].get_tag(), banks[1].get_base_address(), banks[1].get_size_kb()) == (
        "HBM[1]",
        1 << 28,
        1 << 18,
    )
    with pytest.raises(RuntimeError, match="No such kernel"):
        pyxrt.kernel(device, uuid, "other")
    alone = pyxrt.kernel(device, uuid, "symlight", pyxrt.kernel.exclusive)
    with pytest.raises(RuntimeError, match="Conflicting access"):
        pyxrt.kernel(device, uuid, "symlight")
    del alone
    gc.collect()
    pyxrt.kernel(device, uuid, "symlight", pyxrt.kernel.exclusive)
    with pytest.raises(RuntimeError, match="not registered"):
        pyxrt.hw_context(pyxrt.device(0), uuid)


def test_loading_the_same_again_does_nothing(standin, plug, tmp_path):
    card = plug()
    program = Program(standin)
    program.start(n_prompt=1, n_new=1_000_000)
    model = card.model
    program.device.load_xclbin(str(standin.path))
    assert card.model is model and program.run.wait(1) is TIMEOUT
    other = write_kernel(
        tmp_path,
        engine=standin.engine,
        build_id="f" * 32,
        files={"symlight.v": standin.sources[0].read_text()},
    )
    with pytest.raises(RuntimeError, match="busy"):
        program.device.load_xclbin(str(other.path))
    assert program.run.wait() is DONE
    program.device.load_xclbin(str(other.path))
    assert card.model is not model
    kernel = pyxrt.kernel(program.device, program.device.get_xclbin_uuid(), "symlight")
    run = pyxrt.run(kernel)
    for index, value in ((IO, program.io), (HBM01, program.weights), (N_PROMPT, 2), (RUN_ID, 8)):
        run.set_arg(index, value)
    run.start()
    assert run.wait() is DONE and program.answer()[:2] == [8, program.sum(2)], "buffers survive programming"


def test_broken_kernel_is_an_error_and_can_be_loaded_again(standin, plug):
    plug()
    program = Program(standin)
    program.start(n_prompt=1, flags=1)
    with pytest.raises(RuntimeError, match="assertion"):
        program.run.wait()
    assert program.run.state() is pyxrt.ert_cmd_state.ERT_CMD_STATE_ERROR
    again = Program(standin)
    again.start(n_prompt=1, flags=0)
    assert again.run.wait() is DONE


def test_information(standin, plug):
    plug(clock_mhz=300)
    device = pyxrt.device(0)
    what = pyxrt.xrt_info_device
    assert device.get_info(what.bdf) == "0000:00:00.0" and device.get_info(what.name) == "symlight_simulated"
    assert device.get_info(what.max_clock_frequency_mhz) == "300"
    electrical = json.loads(device.get_info(what.electrical))
    assert electrical["power_rails"] == [] and electrical["power_consumption_watts"] == "N/A"
    assert json.loads(device.get_info(what.thermal)) == {"thermals": []}
    with pytest.raises(TypeError):
        device.get_info("bdf")


def test_ctrl_c_while_waiting(standin, plug):
    """The exception arrives soon, and the run can still be waited for."""
    import signal

    plug()
    program = Program(standin)
    program.start(n_prompt=1, n_new=8_000_000, run_id=4)
    threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        program.run.wait()
    assert time.monotonic() - begin < 5
    assert program.run.wait() is DONE and program.answer()[0] == 4


def test_progress(standin, plug):
    told = []
    plug(progress=lambda *event: told.append(event))
    program = Program(standin)
    program.start(n_prompt=1, n_new=500_000)
    program.run.wait()
    cycles = [done for stage, done, _ in told if stage == "simulate"]
    assert len(cycles) > 2 and cycles == sorted(cycles) and cycles[-1] >= 500_000


def test_bad_options():
    for options in ({"hbm": "fast"}, {"back_pressure": 1.0}, {"bursts": 0}, {"bytes": 512}):
        with pytest.raises(UserError):
            SimOptions(**options)
