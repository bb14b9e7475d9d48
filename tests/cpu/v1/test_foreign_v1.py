"""The V1 engine cross-compiled for NEON and run under an emulator gives the bits that it gives here."""

import shutil
import subprocess
from pathlib import Path

import pytest

from symlight.cpu.build import FLAGS, KERNELS
from symlight.cpu.isa import ISAS, runnable
from symlight.cpu.v1 import abi
from symlight.cpu.v1.engine import SOURCE

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
FUSED = [isa for isa in runnable() if isa.name != "plain"]  # these have fused multiply-add, as NEON has
NEON = [isa for isa in ISAS if isa.machine == "aarch64"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        shutil.which(COMPILER) is None or shutil.which(EMULATOR) is None or not FUSED,
        reason=f"needs {COMPILER}, {EMULATOR} (Debian: g++-aarch64-linux-gnu qemu-user) and AVX2",
    ),
]


def output(folder, compiler, isa, *emulator):
    """What the program prints when it is compiled for `isa`."""
    (folder / "v1_abi.h").write_text(abi.V1.header())
    flags = [flag for flag in FLAGS if flag not in ("-shared", "-fPIC")]
    folders = [f"-I{path}" for path in (folder, SOURCE.parent, KERNELS)]
    program, source = folder / f"program-{isa.name}", Path(__file__).with_name("foreign_v1.cpp")
    command = [compiler, *flags, *isa.flags, "-static", *folders, str(source), "-o", str(program)]
    subprocess.run(command, check=True, timeout=280)
    done = subprocess.run([*emulator, str(program)], check=True, timeout=200, capture_output=True, text=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("isa", NEON, ids=lambda isa: isa.name)
def test_the_same_bits(tmp_path, isa):
    expected = output(tmp_path, "g++", FUSED[0])
    tcam, down = map(int, expected[-1].split())
    assert tcam > 20 and down > 20  # there are spikes
    assert len(set(expected)) > 500  # and logits differ
    assert output(tmp_path, COMPILER, isa, EMULATOR) == expected
