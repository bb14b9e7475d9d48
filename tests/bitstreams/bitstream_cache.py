"""Where generated kernels are kept between runs of the tests; shared with tests/kernel."""

from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / "build" / "cache"
