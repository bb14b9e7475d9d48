"""Where the tests find the repository, and where what they build is kept between runs."""

import hashlib
import tempfile
from pathlib import Path

from symlight.base.plain_paths import is_plain, plain_parent


def _plain(folder: Path) -> Path:
    """`folder`, or one for temporary files when its path is nothing for make (base.plain_paths)."""
    if is_plain(folder):
        return folder
    key = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return plain_parent(Path(tempfile.gettempdir())) / f"symlight-{folder.name}-{key}"


ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "cache"  # generated kernels, as `symlight` keeps them
SIMULATORS = ROOT / "build" / "models"  # simulators of stand-in kernels
BENCH_BUILDS = _plain(ROOT / "build" / "benches")  # simulators of hardware parts
EVIDENCE = ROOT / "docs" / "evidence"
