"""`make bench-cpu`: ratios of made-up rounds, the workers' pipe, and our own worker on a small model."""

import json
import sys

import pytest

from symlight.model.config import preset
from symlight.model.package import PackageMeta, save_package
from symlight.model.synthetic import random_model
from symlight.tools.bench_cpu.cells import CELLS, Cell
from symlight.tools.bench_cpu.report import BEGIN, END, MEANING, MUST, figures, write_table
from symlight.tools.bench_cpu.run import Record, Worker, measure

RESULT = {"machine": "a machine", "rounds": 3, "commit": "abc"}


def made_up(seconds: float) -> dict:
    """A round in which every pass takes `seconds`, two threads and eight sessions half of it."""
    one = {}
    for cell in CELLS:
        half = cell.name.endswith("2t") or "8_sessions" in cell.name
        one[cell.name] = {"seconds": seconds / 2 if half else seconds, "bytes": 50.0, "tokens": [1]}
        if cell.name.startswith("memory"):
            one[cell.name] = {"peak_mb": 7.0}
        if cell.name.startswith("bandwidth"):
            one[cell.name] = {"bytes_a_second": 200.0 / seconds if half else 100.0 / seconds}
    return one


def test_ratios():
    found = figures([made_up(1.0), made_up(2.0), made_up(4.0)])
    assert set(found["ratios"]) == set(MUST) == set(MEANING)
    expected = dict.fromkeys(MUST, 1.0) | {"bandwidth_share": 0.5, "sessions_8_over_1": 2.0}
    assert found["ratios"] == expected
    assert found["cells"]["ours_p32_1t"] == {"seconds": 2.0, "bytes": 50.0}


def test_a_missing_peer_has_no_ratio():
    one = {name: value for name, value in made_up(1.0).items() if not name.startswith("llama")}
    assert "decode_over_llamacpp_q8" not in figures([one])["ratios"]


@pytest.mark.parametrize("case", ["quoting", "given"])
def test_drafts_that_change_the_text_are_found(case):
    one = made_up(1.0)
    one[f"{case}_drafts"]["tokens"] = [2]
    with pytest.raises(AssertionError, match="drafts changed the text"):
        figures([one])


def test_the_table_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nstale\n{END}\nafter\n")
    write_table(RESULT | figures([made_up(1.0)]), page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "stale" not in text
    assert "| `bandwidth_share` | 0.50 | 0.75 |" in text
    assert "| RWKV-7 Q8_0 | 1 | 1 | 1 | 2 | 2 | 2 | 7 |" in text
    page.write_text("no place")
    with pytest.raises(SystemExit, match="no place for the table"):
        write_table(RESULT | figures([made_up(1.0)]), page)


@pytest.mark.timeout(120)
def test_our_worker(tmp_path):
    package = tmp_path / "package"
    save_package(package, random_model(preset("mid"), 3), PackageMeta(name="mid", synthetic=True))
    worker = Worker([sys.executable, "-m", "symlight.tools.bench_cpu.ours", str(package)])
    try:
        for cell in CELLS:
            if cell.worker == "ours" and cell.name != "golden_reference" and "_p480" not in cell.name:
                figures_of = cell.seconds(worker.ask(cell.request, **cell.arguments))
                figures_of.pop("drafts", None), figures_of.pop("tokens", None)
                assert figures_of and min(figures_of.values()) > 0, cell.name
        assert worker.ask("peak_mb") > 1
    finally:
        worker.close()


class Counting:
    """A worker that counts what it is asked."""

    def __init__(self):
        self.asked = 0

    def ask(self, request: str, **arguments) -> list[float]:
        self.asked += 1
        return [float(self.asked)]


def test_a_run_goes_on_where_it_ended(tmp_path):
    worker, cells = (
        Counting(),
        [Cell("often", "w", "x"), Cell("once", "w", "x", once=True), Cell("not", "n", "x")],
    )
    found, about, file = {"w": worker, "n": "missing"}, {"commit": "a"}, tmp_path / "rounds.json"
    assert not measure(found, cells, 2, Record.read(file, about), end=0.0) and worker.asked == 0
    assert measure(found, cells, 1, Record.read(file, about), end=float("inf")) and worker.asked == 2
    record = Record.read(file, about)
    assert measure(found, cells, 2, record, end=float("inf")) and worker.asked == 3
    assert record.rounds == [
        {"often": {"seconds": 1.0}, "once": {"seconds": 2.0}},
        {"often": {"seconds": 3.0}},
    ]
    assert Record.read(file, about).rounds == record.rounds
    assert Record.read(file, {"commit": "b"}).rounds == []  # of another commit


def test_a_worker_that_ends_is_an_error():
    with pytest.raises(RuntimeError, match="ended with status 3"):
        Worker([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(OSError):
        Worker(["no-such-program"])


def test_arguments_are_json():
    json.dumps([cell.arguments for cell in CELLS])
    assert len({cell.name for cell in CELLS}) == len(CELLS)
