"""The curl examples of docs/serving.md, run."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(60)
PAGE = next(
    folder / "docs" / "serving.md"
    for folder in Path(__file__).resolve().parents
    if (folder / "docs").is_dir()
)
EXAMPLES = re.findall(r"^curl .*$", PAGE.read_text(encoding="utf-8"), re.M)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_answered(server, example):
    words = shlex.split(example.replace("http://127.0.0.1:8000", server.address))
    done = subprocess.run([*words, "--fail-with-body"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and done.stdout and '"error"' not in done.stdout, done.stdout
