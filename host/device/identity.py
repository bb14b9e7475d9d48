"""Do bitstream, manifest and model belong together? Asked before a device is opened.

The last question, whether the kernel on the card is the manifest's, is the kernel's to answer
(host.device.driver).
"""

import json
from pathlib import Path

from symlight.base.errors import UserError
from symlight.bitstreams.axlf import read_xclbin
from symlight.hw.compiler.hbm_map import hbm_map
from symlight.hw.compiler.layout import Layout
from symlight.model.config import ModelShape

from .fitting import layout_on
from .kernels import KernelInfo


def check_xclbin(file: Path, kernel: KernelInfo) -> None:
    """A `UserError` unless xclbin `file` is the one that the manifest was sealed with."""
    expected = kernel.xclbin
    if expected is None:
        raise UserError(
            f"{kernel.manifest} does not say which xclbin belongs to it; run `symlight package --seal {file}`"
        )
    image = read_xclbin(file)
    for name, found, wanted in (
        ("uuid", image.uuid, expected.uuid),
        ("sha256", image.sha256, expected.sha256),
    ):
        if found != wanted:
            raise UserError(
                f"{file} has {name} {found}, {kernel.manifest} says {wanted}; "
                "use the manifest that belongs to the xclbin"
            )


def check_layout(kernel: KernelInfo, shape: ModelShape) -> Layout:
    """The layout of a model on a kernel; a `UserError` unless it fits and is stored where the package says.

    A kernel takes every model whose dimensions it holds, not only the one it was packaged for; but for that
    one the addresses of the package and of this release must agree.
    """
    layout = layout_on(kernel.engine, shape)
    packaged = kernel.hbm_map
    if packaged is None or packaged.get("shape") != shape.to_json():
        return layout
    ours = json.loads(json.dumps(hbm_map(layout)))
    for name in sorted(ours.keys() | packaged.keys()):
        if ours.get(name) != packaged.get(name):
            raise UserError(
                f"{kernel.manifest}: {name} of its hbm_map is not what this release would upload; "
                "use the release that packaged the kernel, or package and link it again"
            )
    return layout
