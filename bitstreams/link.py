"""link.cfg: how v++ places the kernel and which pseudo-channel each of its pointers lives in."""

from symlight.hw.config import Engine
from symlight.hw.interface import KERNEL_NAME, arguments

from .platform import AlveoU50CPlatform

INSTANCE = f"{KERNEL_NAME}_1"


def bank(port: str) -> int:
    """Pseudo-channel of a memory port: its number."""
    return int(port.removeprefix("m_axi_hbm"))


def link_cfg(engine: Engine) -> str:
    """The file for a kernel of `engine`, one instance.

    No `slr` line: the kernel is across both dies, and which part of it is where is the floorplan's
    matter (floorplan.py).
    """
    lines = [
        f"platform={AlveoU50CPlatform.vitis_platform}",
        f"kernel_frequency={engine.clock_mhz}",
        "save-temps=1",
        "",
        "[connectivity]",
        f"nk={KERNEL_NAME}:1:{INSTANCE}",
    ]
    lines += [f"sp={INSTANCE}.{a.name}:HBM[{bank(a.port)}]" for a in arguments(engine.channels) if a.port]
    return "\n".join(lines) + "\n"
