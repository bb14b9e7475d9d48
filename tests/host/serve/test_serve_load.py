"""`symlight bench-serve`: what it counts, what it finds wrong, and its end by a signal."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from symlight.host import cli
from symlight.host.bench import serve_load

pytestmark = pytest.mark.timeout(120)


def test_every_text_is_compared(server, capsys, tmp_path):
    out = tmp_path / "load.json"
    arguments = ["bench-serve", "--url", server.address, "--clients", "1", "4", "--seconds", "1"]
    more = [
        "--max-tokens",
        "6",
        "--leave",
        "0.3",
        "--malformed",
        "0.3",
        "--verify",
        "demo",
        "--out",
        str(out),
    ]
    assert cli.run([*arguments, *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    result = json.loads(out.read_text())
    assert len(lines) == 2 and result["commit"] and result["verified"]
    for what in ("answered", "left", "refused"):  # of both: a slow machine comes to few requests in a second
        assert sum(load[what] for load in result["loads"]) > 0, what
    for line, load in zip(lines, result["loads"], strict=True):
        assert line.startswith(f"{load['clients']} clients:") and load["ended_by"] is None
        assert load["answered"] == load["compared"]
        assert load["wrong"] == load["failed"] == 0
        assert load["server_memory_mb"]["max"] >= load["server_memory_mb"]["last"] > 10
        # the server is a thread of this process, so both are at most what all processors can do
        assert all(0 < used <= os.cpu_count() + 0.1 for used in load["processors_used"].values())


def test_wrong_texts_and_failures_are_seen(server, capsys, monkeypatch):
    arguments = ["bench-serve", "--url", server.address, "--clients", "2", "--seconds", "0.5"]
    arguments += ["--verify", "demo"]
    mixed = serve_load.mixed_asks

    def wrong(*values):
        return [replace(ask, text=f"{ask.text}!") for ask in mixed(*values)]

    monkeypatch.setattr(serve_load, "mixed_asks", wrong)
    assert cli.run(arguments) == 1
    assert "are not the reference's" in capsys.readouterr().err
    monkeypatch.setattr(serve_load, "mixed_asks", mixed)
    monkeypatch.setattr(serve_load, "MALFORMED", (b'{"prompt": "a", "max_tokens": 1}',))  # is answered
    assert cli.run([*arguments, "--malformed", "0.5"]) == 2
    assert "was answered with 200" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_what_there_is(server, tmp_path, number):
    out = tmp_path / "load.json"
    words = ["--clients", "3", "1", "--seconds", "600", "--out", str(out), "--leave", "0.5"]
    process = subprocess.Popen(
        [sys.executable, "-m", "symlight.host.cli", "bench-serve", "--url", server.address, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def served() -> float:
        return server.service.metrics.summary()["symlight_generated_tokens_total"]

    before = served()
    while served() == before:
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number and "Traceback" not in stderr, stderr
    assert stderr.splitlines()[-1] in ("symlight: interrupted", f"symlight: ended by {number.name}")
    assert re.fullmatch(rf"3 clients: .*, 0 failed \(ended by {number.name} after [\d.]+ s\)\n", stdout)
    (load,) = json.loads(out.read_text())["loads"]
    assert load["ended_by"] == number.name and load["failed"] == 0 and load["seconds"] < 100
    assert server.client.get("/ready").json() == {"ready": True}
