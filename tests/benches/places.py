"""Where the tests find the repository, and where what they build is kept between runs."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "cache"  # generated kernels, as `symlight` keeps them
SIMULATORS = ROOT / "build" / "models"  # simulators of stand-in kernels
BENCH_BUILDS = ROOT / "build" / "benches"  # simulators of hardware parts
EVIDENCE = ROOT / "docs" / "evidence"
