"""The demo model with a ReLU where its GELU table was: the table is data, so no hardware changes.

python examples/relu_table.py build/relu
.venv/bin/symlight generate --model build/relu --device cpu --prompt "In the beginning" --verify
"""

import sys
from dataclasses import replace

import numpy as np

from symlight.host.device.packages import open_package
from symlight.model.package import save_package
from symlight.model.weights import IntegerModel

TABLE = "output_head.gelu_table"

package = open_package("demo")
tensors = package.model.tensors()
gelu = tensors[TABLE].astype(np.int64)  # entry i holds the value of index i - 128
slope = gelu[255] / 127  # GELU of a large number is the number itself
relu = np.clip(np.rint(slope * np.maximum(np.arange(256) - 128, 0)), -127, 127)
changed = IntegerModel.from_tensors(package.shape, package.numerics, tensors | {TABLE: relu.astype(np.int8)})
meta = replace(package.meta, name="relu", description="the demo model with a ReLU table; not trained so")
save_package(sys.argv[1], changed, meta, package.tokenizer_bytes)
print(f"{np.count_nonzero(relu != gelu)} of 256 entries changed")
