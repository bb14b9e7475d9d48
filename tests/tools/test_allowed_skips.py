"""Continuous integration fails when a test skips for a reason that nobody has stated."""

import subprocess
import sys

import pytest

from tests.benches.places import ROOT
from tests.conftest import unexpected_skips

pytestmark = pytest.mark.timeout(60)
SKIPS = ROOT / ".ci" / "skips"


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("reason, code", [("root may write anywhere", 0), ("no such program", 1)])
def test_reasons_are_compared(tmp_path, reason, code, workers):
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(
        f"import pytest\ndef test_a():\n    pass\ndef test_b():\n    pytest.skip({reason!r})\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", workers, f"--allowed-skips={SKIPS}", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == code, run.stdout + run.stderr
    assert ("is not in" in run.stdout) == bool(code) and (not code or reason in run.stdout)


def test_missing_extras_are_not_allowed():
    """What the run installs must be there."""
    reasons = {
        "the extra `torch` is not installed",
        "could not import 'matplotlib': No module named 'matplotlib'",
        "needs the extra `mutants`",
        "Python was built without Tcl",
        "docs/evidence has no place.json; `make evidence` writes it",
    }
    assert len(unexpected_skips(SKIPS, reasons)) == 3
