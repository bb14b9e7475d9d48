"""The NEON kernels, cross-compiled and run under an emulator, equal the reference bit for bit."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from symlight.cpu import abi
from symlight.cpu.build import FINITE, FLAGS, KERNELS
from symlight.cpu.isa import ISAS
from symlight.cpu.weights import Weights
from symlight.model.config import OPTIONAL_SITES, preset
from symlight.model.reference import SITES, Reference
from symlight.model.synthetic import random_model

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
NEON = {isa.name: isa for isa in ISAS if isa.machine == "aarch64"}
BASE = 0x20_0000_0000  # where the emulated program maps the weights
LENGTHS = (1, 1, 2, 7, 1)
SEED = 31

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which(COMPILER) is None or shutil.which(EMULATOR) is None,
        reason=f"needs {COMPILER} and {EMULATOR} (Debian: g++-aarch64-linux-gnu qemu-user)",
    ),
]


class Placed(Weights):
    """Weights whose addresses are those of another process."""

    def _address(self, name: str) -> int:
        return BASE + self._places[name].offset

    def image(self) -> tuple[bytes, int]:
        """Weights and structures, to be mapped at BASE; and the address of the model."""
        model = self.structure()
        model.embedding = self._address("embedding")
        blocks = bytes(model._blocks_)
        model.blocks = BASE + self.buffer.nbytes
        return self.buffer.tobytes() + blocks + bytes(model), model.blocks + len(blocks)


@pytest.fixture(scope="module", params=NEON)
def program(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "abi.h").write_text(abi.V2.header())
    flags = [flag for flag in (*FLAGS, *FINITE) if flag not in ("-shared", "-fPIC")]
    source = Path(__file__).with_name("foreign.cpp")
    folders = [f"-I{folder}", f"-I{KERNELS}"]
    command = [COMPILER, *flags, *NEON[request.param].flags, "-static", *folders, str(source)]
    subprocess.run([*command, "-o", str(folder / "foreign")], check=True, timeout=280)
    return folder / "foreign"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("name", "extreme"),
    [("tiny", None), ("odd", None), ("wide", None), ("tiny", "saturate"), ("odd", "sites")],
)
def test_neon(program, tmp_path, name, extreme, threads):
    densities = dict.fromkeys((*SITES, *OPTIONAL_SITES), 0.3) if extreme == "sites" else 0.24
    model = random_model(preset(name), SEED, densities, extreme=None if extreme == "sites" else extreme)
    shape = model.shape
    packed = Weights.pack(model)
    image, address = Placed(shape, model.numerics, packed.buffer, packed.by_row).image()
    tokens = np.random.default_rng(SEED).integers(0, shape.vocab, sum(LENGTHS))
    (tmp_path / "image").write_bytes(image)
    (tmp_path / "tokens").write_bytes(tokens.astype(np.int32).tobytes())
    names = [str(tmp_path / name) for name in ("image", "tokens", "results")]
    command = [EMULATOR, "-cpu", "max", str(program), names[0], hex(BASE), hex(address), str(threads)]
    subprocess.run([*command, *names[1:], *map(str, LENGTHS)], check=True, timeout=500)
    results = (tmp_path / "results").read_bytes()

    def take(count: int, dtype) -> np.ndarray:
        nonlocal results
        size = count * np.dtype(dtype).itemsize
        taken, results = np.frombuffer(results[:size], dtype), results[size:]
        return taken

    reference, left = Reference(model), iter(tokens.tolist())
    for length in LENGTHS:
        expected = [reference.ingest(next(left), want_logits=True) for _ in range(length)]
        logits = take(length * shape.vocab, np.int64).reshape(length, -1)
        active = take(length * shape.layers * len(SITES), np.int32).reshape(length, shape.layers, -1)
        np.testing.assert_array_equal(logits, [result.logits for result in expected])
        np.testing.assert_array_equal(active, [result.active for result in expected])
        optional = take(length * (shape.layers + 2), np.int32).reshape(length, -1)
        counts = [(*result.out_active, *result.head_active) for result in expected]
        np.testing.assert_array_equal(optional, counts)
    state = reference.state
    for array in (state.membrane, state.decay, state.ring_k, state.ring_v):
        ours = take(array.size, array.dtype).reshape(array.shape)
        meaningful = slice(None) if array.ndim < 3 else (slice(None), slice(state.populated))
        np.testing.assert_array_equal(ours[meaningful], array[meaningful])
    assert not results
