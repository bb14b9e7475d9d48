"""The measurement of the server: medians and ratios of made loads, the large package, a short run."""

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest

pytest.importorskip("uvicorn", reason="the server (extra `serve`) is not installed")

from symlight.model.config import preset  # noqa: E402
from symlight.model.package import load_package  # noqa: E402
from symlight.tools import serve_bench  # noqa: E402

pytestmark = pytest.mark.timeout(240)


def load(rate: float, tokens: float) -> dict:
    return {
        "requests_per_second": rate,
        "tokens_per_second_at_most": tokens,
        "time_to_first_token_ms": {"p50": rate / 10},
        "processors_used": {"server": 0.5, "clients": 0.2},
    }


def test_medians_and_ratios():
    rates = [(100, 250), (50, 200), (80, 160)]
    found = serve_bench.summary([[load(one, 10 * one), load(many, 30 * many)] for one, many in rates])
    assert found["ratios_by_round"] == {"clients_8_over_1": [2.5, 4.0, 2.0]}
    assert found["ratios"] == {"clients_8_over_1": 2.5}
    assert found["token_ratios"] == {"clients_8_over_1": 7.5}
    assert found["medians"]["1"]["requests_per_second"] == 80
    assert found["medians"]["8"]["server_ms_per_request"] == 2.5  # half a processor, 200 a second
    assert found["medians"]["8"]["clients_ms_per_request"] == 1.0


def test_the_large_package_has_text_and_is_made_once(tmp_path):
    shape = replace(preset("tiny"), vocab=600)
    path = serve_bench.large_package(tmp_path, shape)
    package = load_package(path)
    assert 500 < package.tokenizer.size <= shape.vocab
    assert "king" in package.tokenizer.decode(package.encode("the king said"))
    assert package.meta.logit_scale and package.meta.synthetic
    assert serve_bench.large_package(tmp_path) == path  # another shape is not made


def test_a_run_writes_its_figures_and_keeps_the_others(tmp_path, monkeypatch):
    out = tmp_path / "serve.json"
    out.write_text(json.dumps({"models": {"demo": {"ratios": {}}}, "long": {"commit": "c"}}))
    serve_bench.large_package(tmp_path, replace(preset("tiny"), vocab=600))
    words = ["--build", str(tmp_path), "--device", "cpu:1", "--rounds", "1", "--seconds", "1"]
    serve_bench.main(["--out", str(out), "--models", "194m", *words])
    result = json.loads(out.read_text())
    assert result["long"] == {"commit": "c"} and result["models"]["demo"] == {"ratios": {}}
    found = result["models"]["194m"]
    assert found["commit"] and set(found["medians"]) == {"1", "8"}
    for one in found["rounds"][0]:
        assert one["answered"] == one["compared"] > 0
    assert found["medians"]["1"]["server_ms_per_request"] > 0


def test_the_ratio_of_replicas():
    pytest.importorskip("ray", reason="Ray (extra `ray`) is not installed")
    from symlight.tools import replica_bench

    rates = [(10, 18), (10, 12), (20, 34)]
    parts = {"replicas": 1.2, "ray": 0.3, "clients": 0.1}
    rounds = [[load(rate, rate) | {"processors_used": parts} for rate in one] for one in rates]
    found = replica_bench.summary(rounds)
    assert found["ratios_by_round"] == {"replicas_2_over_1": [1.8, 1.2, 1.7]}
    assert found["ratios"] == {"replicas_2_over_1": 1.7}
    assert found["medians"]["2"] == {
        "requests_per_second": 18, "tokens_per_second_at_most": 18,
        "processors_used_by_replicas": 1.2, "processors_used_by_ray": 0.3, "processors_used_by_clients": 0.1,
    }  # fmt: skip


def test_processor_time_is_found_by_process():
    pytest.importorskip("ray", reason="Ray (extra `ray`) is not installed")
    from symlight.tools import replica_bench

    burn = "while True: pass"
    named = [sys.executable, "-c", burn, replica_bench.REPLICA.decode()]
    with subprocess.Popen(named) as replica, subprocess.Popen([sys.executable, "-c", burn]) as other:
        try:
            before = replica_bench.processor_seconds()
            while not all(
                replica_bench.processor_seconds()[part] > before[part] for part in ("replicas", "ray")
            ):
                time.sleep(0.05)  # both are seen, each by itself; the time limit ends a failure
        finally:
            replica.kill()
            other.kill()
    after = replica_bench.processor_seconds()
    assert after["replicas"] == after["ray"] == 0 and after["clients"] > 0
