"""Verilog from a configuration: a kernel of four channels with half the usual lanes.

python examples/verilog.py DIR
"""

import sys
from dataclasses import replace
from pathlib import Path

from symlight.host.device.kernels import obtain_engine
from symlight.hw.compiler.layout import Layout
from symlight.hw.config import build, card
from symlight.model.config import preset

engine = build(replace(card("sim4"), lanes=16, width_words=16, parameter_words=1024), "partial-kv")
layout = Layout(engine, preset("demo"))  # refuses a kernel that the demo model does not fit
kernel = obtain_engine(engine, Path(sys.argv[1]))
for file in sorted(kernel.manifest.parent.iterdir()):
    print(file)
print(f"the demo model takes {layout.size * engine.beat_bytes:,} bytes per channel")
