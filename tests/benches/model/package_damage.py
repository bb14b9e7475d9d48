"""Ways to damage a package, and the check that it is refused."""

import hashlib
import json

import pytest

from symlight.base.errors import UserError
from symlight.model.package import MANIFEST, PackageMeta, load_package

META = PackageMeta(
    name="test", description="ü", eos=3, synthetic=True, logit_scale=1e-6, provenance={"seed": 1}
)


def reseal(path):
    """Make the manifest agree with the files, so that the checks behind the hashes are reached."""
    manifest = json.loads((path / MANIFEST).read_text())
    for name in manifest["files"]:
        data = (path / name).read_bytes()
        manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    (path / MANIFEST).write_text(json.dumps(manifest))


def edit_json(path, name, change):
    data = json.loads((path / name).read_text())
    change(data)
    (path / name).write_text(json.dumps(data))
    if name != MANIFEST:
        reseal(path)


def refuse(path, *parts):
    with pytest.raises(UserError) as error:
        load_package(path)
    for part in parts:
        assert str(part) in str(error.value), (part, str(error.value))
