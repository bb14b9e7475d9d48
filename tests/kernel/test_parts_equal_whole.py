"""The kernel that is simulated in parts takes the cycles of the kernel that Verilator sees whole."""

import numpy as np
import pytest

from symlight.hw import interface
from symlight.hw.compiler.image import build_images
from symlight.hw.compiler.layout import Layout
from symlight.hw.control import CTRL, GIE, IER, ISR
from symlight.model.config import preset
from symlight.model.synthetic import random_model
from symlight.sim.build import build_model
from symlight.sim.manifest import read_kernel
from symlight.sim.model import Model
from tests.benches.kernel.kernel_list import MODELS, OPTIMISE, obtain

BANK, IO_BYTES = 0x1000_0000, 1 << 20
IO = BANK - IO_BYTES
SETTINGS = {
    "timed": {},
    "noisy": {"ar_stall": 40, "r_stall": 40, "aw_stall": 40, "w_stall": 40, "b_stall": 40},
}


class Machine:
    """The kernel at the level of registers."""

    def __init__(self, library, engine, images, settings, threads):
        self.engine = engine
        self.model = Model(
            library, channels=engine.channels, clock_mhz=175, settings=settings, threads=threads
        )
        self.arguments = {a.name: a for a in interface.arguments(engine.channels)}
        for channel, image in enumerate(images):
            self.model.attach(channel, BANK * channel, image)
        self.io = np.zeros(IO_BYTES, np.uint8)
        self.model.attach(0, IO, self.io)

    def run(self, run_id, **values):
        """(cycles until the interrupt, everything that the run wrote to the io buffer)."""
        pointers = {f"hbm{k:02d}": BANK * k for k in range(self.engine.channels)} | {"io": IO}
        values = {"run_id": run_id, "eos": interface.NO_EOS, "watchdog": 10_000_000} | values | pointers
        for name, value in values.items():
            argument = self.arguments[name]
            for word in range(argument.size // 4):
                self.model.write(argument.offset + 4 * word, value >> 32 * word)
        for register in (GIE, IER, CTRL):
            self.model.write(register, 1)
        start = self.model.cycles
        self.model.run(2_000_000)
        cycles = self.model.cycles - start
        self.model.write(ISR, self.model.read(ISR))
        self.model.read(CTRL)
        return cycles, self.io.tobytes()


def history(library, engine, shape, settings, threads=1):
    """What a load, a prompt and its continuation do, cycle counts included."""
    images = build_images(Layout(engine, shape), random_model(shape, seed=3))
    machine = Machine(library, engine, images, settings, threads)
    prompt = np.array([3, 1, 4, 1, 5], "<u4")
    machine.io[interface.Io.PROMPT : interface.Io.PROMPT + prompt.nbytes] = prompt.view(np.uint8)
    runs = [machine.run(1, command=interface.Command.LOAD)]
    runs.append(machine.run(2, command=interface.Command.GENERATE, n_prompt=len(prompt), n_new=4))
    return runs, [image.tobytes() for image in images]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_parts_equal_whole():
    folder = read_kernel(obtain("sim2").manifest)
    engine, shape = folder.engine, preset("tiny")
    parts, whole = (
        build_model(folder.sources, engine, MODELS, optimise=OPTIMISE, whole=whole) for whole in (False, True)
    )
    for name, settings in SETTINGS.items():
        expected = history(whole, engine, shape, settings)
        assert expected[0][1][0] > 1000, "the run did something"
        for threads in (1, 2):
            assert history(parts, engine, shape, settings, threads) == expected, (name, threads)
