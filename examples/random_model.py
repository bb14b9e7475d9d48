"""A model from random weights to tokens: on the integer reference, and by the CPU engine.

python examples/random_model.py
"""

import tempfile
from pathlib import Path

import symlight
from symlight.model.config import preset
from symlight.model.package import PackageMeta, save_package
from symlight.model.synthetic import random_model

with tempfile.TemporaryDirectory() as folder:
    package = Path(folder) / "tiny"
    save_package(package, random_model(preset("tiny"), seed=1), PackageMeta(name="tiny", synthetic=True))
    tokens = {}
    for device in ("reference", "cpu"):
        with symlight.open_model(package, device=device) as model:
            tokens[device] = model.complete([1, 2, 3], max_new_tokens=8).ids
    print(tokens["cpu"])
    assert tokens["cpu"] == tokens["reference"]
