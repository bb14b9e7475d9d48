"""pyxrt's names over the simulated card: buffers and arguments, and the traps that a card would have, too."""

import gc

import numpy as np
import pytest

from symlight.sim.card import BANK_BYTES
from symlight.sim.pyxrt import module as pyxrt
from tests.benches.sim.standin_program import (
    ARGUMENTS,
    COMMAND,
    DONE,
    FROM,
    HBM01,
    IO,
    N_NEW,
    RUN_ID,
    TO,
    Program,
)

pytestmark = pytest.mark.timeout(60)


def test_host_and_device_memory_differ_until_sync(standin, plug):
    plug()
    program = Program(standin)
    program.start(n_prompt=4, run_id=1)
    program.run.wait()
    assert not program.io.read(16, 0).any(), "nothing was synchronised yet"
    assert program.answer()[0] == 1
    program.io.map()[0] = 77
    program.io.sync(FROM)  # the 2.16 form: the whole buffer
    assert program.io.read(1, 0)[0] == 1, "an unsynchronised write to the mapping is lost"
    program.weights.write(np.zeros(32, np.uint8), 0)
    program.start(n_prompt=1)
    program.run.wait()
    assert program.answer()[1] == program.sum(1), "the device still has the old data"
    program.weights.sync(TO, 32, 0)
    program.start()
    program.run.wait()
    assert program.answer()[1] == 0


def test_fresh_device_memory_is_not_zero(standin, plug):
    plug()
    program = Program(standin)
    fresh = pyxrt.bo(program.device, 4096, pyxrt.bo.normal, 1)
    fresh.sync(FROM, 4096, 0)
    assert fresh.read(4096, 0).all()


def test_buffers(standin, plug):
    plug()
    program = Program(standin)
    make = lambda size, bank=1: pyxrt.bo(program.device, size, pyxrt.bo.normal, bank)  # noqa: E731
    a, b = make(100), make(5000)
    assert a.size() == 100 and b.address() - a.address() == 4096 and a.address() % 4096 == 0
    assert BANK_BYTES <= a.address() < 2 * BANK_BYTES
    address = a.address()
    del a
    gc.collect()
    assert make(4096).address() == address, "freed memory is used again"
    part = pyxrt.bo(b, 1000, 4096 - 96)
    b.write(bytes(range(200)), 4000)
    assert part.read(3, 10).tolist() == [10, 11, 12] and part.address() == b.address() + 4000
    with pytest.raises(RuntimeError, match="write past"):
        b.write(b"xy", 4999)
    with pytest.raises(RuntimeError, match="read past"):
        b.read(1, 5000)
    with pytest.raises(RuntimeError, match="past buffer"):
        b.sync(TO, 5000, 1)
    with pytest.raises(MemoryError):
        make(BANK_BYTES + 1)
    with pytest.raises(MemoryError, match="no room"):
        make(BANK_BYTES)  # there are others in the bank
    with pytest.raises(IndexError):
        make(4096, 32)
    with pytest.raises(IndexError):
        make(4096, program.kernel.group_id(COMMAND))
    with pytest.raises(RuntimeError, match="p2p"):
        pyxrt.bo(program.device, 4096, pyxrt.bo.p2p, 0)


def test_a_freed_buffer_stays_while_a_run_uses_it(standin, plug):
    plug()
    program = Program(standin)
    program.start(n_prompt=64, run_id=3)
    program.weights = program.run._buffers = None
    gc.collect()
    assert program.run.wait() is DONE
    assert program.answer() == [3, program.sum(64), 0, 0]


def test_scalars_are_signed_32_bit(standin, plug):
    plug()
    program = Program(standin)
    for value in (1 << 31, -(1 << 31) - 1, 1.0, "1", None):
        with pytest.raises(TypeError):
            program.run.set_arg(RUN_ID, value)
    program.start(run_id=-1, n_prompt=np.int64(1))
    program.run.wait()
    assert program.answer()[0] == 0xFFFFFFFF
    with pytest.raises(IndexError):
        program.run.set_arg(len(ARGUMENTS), 0)


def test_calling_the_kernel_swallows_bad_arguments(standin, plug):
    plug()
    program = Program(standin)
    unused = [0] * (IO - N_NEW)  # from the number of new tokens to the last scalar
    started = program.kernel(1, 1 << 31, 2, *unused, program.io, program.io, program.weights)
    assert started.wait() is DONE
    assert program.answer() == [0, program.sum(2), 0, 1], "the run id did not fit and was left out"


def test_buffer_on_the_wrong_bank_is_refused(standin, plug):
    plug()
    program = Program(standin)
    with pytest.raises(RuntimeError, match="connectivity"):
        program.run.set_arg(HBM01, program.io)
    with pytest.raises(RuntimeError, match="scalar"):
        program.run.set_arg(RUN_ID, program.io)
