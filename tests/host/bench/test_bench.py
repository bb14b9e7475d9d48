"""What `symlight bench` makes of measured passes, the standard table, and the documents that quote it."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.bench import paper
from symlight.host.bench import table as bench_table
from symlight.host.bench.bench_report import bench_json, executed_macs, measurement_json, useful_shares
from symlight.host.bench.measure import DECODE, FIRST, PROMPT, Measurement, Pass
from symlight.host.bench.simulation import BenchSettings, BuildClock
from symlight.host.terminal.results import write_json
from symlight.hw import config
from symlight.hw.compiler.image import build_images
from symlight.hw.compiler.layout import Layout
from symlight.hw.interface import Phase, Traffic
from symlight.model.config import preset
from symlight.model.synthetic import random_model
from symlight.sim.estimate.estimate_report import Question, ask
from symlight.sim.estimate.memory import Memory
from symlight.sim.hbm import header_constants
from tests.benches.places import ROOT

RESULTS = ROOT / "benchmarks" / "kernel"
TINY = Layout(config.build(config.card("sim4"), "partial-kv"), preset("tiny"))
ABOUT = {"build": "partial-kv", "prefix": 32}


def one_pass(kind: str, cycles: int, beats: int = 0) -> Pass:
    """A pass that waits for QKV alone and reads `beats` beats of it."""
    phases = {phase.name.lower(): (0, 0) for phase in Phase} | {"qkv": (cycles - 10, 10)}
    read = {kind.name.lower(): 0 for kind in Traffic} | {"qkv": beats * 32, "io": 32}
    ports = {"read_beats": beats + 1, "read_waits": 7, "read_stalls": 3, "address_stalls": 1}
    return Pass(kind, cycles, phases, read, np.ones((2, 4), np.int64), ports)


def measurement(clock: int = 175, **more) -> Measurement:
    passes = [one_pass(PROMPT, 400), one_pass(PROMPT, 420), one_pass(FIRST, 900)]
    passes += [one_pass(DECODE, cycles, 1000) for cycles in (1000, 1500, 1100)]
    return Measurement(clock, passes, tokens=[1, 2, 3, 4], simulated_cycles=5000, wall_seconds=0.5, **more)


def test_kinds_of_passes_are_kept_apart():
    result = bench_json([measurement()], TINY, ABOUT)
    assert result["decode_cycles"] == {"min": 1000, "median": 1100, "max": 1500}
    assert result["prompt_cycles"] == {"min": 400, "median": 410, "max": 420}
    assert result["first_token_cycles"] == {"min": 900, "median": 900, "max": 900}
    assert result["phases"]["qkv"] == {"stream": 1190, "hand_over": 10}
    assert result["bytes_read"]["qkv"] == 32000 and "io" not in result["bytes_read"]
    assert result["simulation_cycles_per_second"] == 10000
    assert result["paper"] == {"device_cycles": 239644, "host_observed_cycles": 272077}
    json.dumps(result)


def test_a_clock_that_was_not_run_has_no_rate():
    assert bench_json([measurement()], TINY, ABOUT)["passes_per_second"] == {
        "175": round(175e6 / 1100, 1),
        "300": None,
    }
    both = bench_json([measurement(), measurement(300)], TINY, ABOUT)
    assert both["passes_per_second"]["300"] == round(300e6 / 1100, 1)
    assert both["other_clocks"]["300"]["clock_mhz"] == 300


def test_utilisation_counts_no_padding_and_no_prompt_words():
    result = measurement_json(measurement(), TINY)
    share = useful_shares(TINY)["qkv"]
    assert result["port_utilisation"] == pytest.approx(share * 3000 / (4 * 3600))
    parts = result["decode"]["port_cycles"]
    assert sum(parts.values()) == pytest.approx(1) and parts["beats"] == pytest.approx(3000 / (4 * 3600))


def test_a_difference_is_not_bit_exact():
    good, bad = measurement(), measurement(300, difference="token 3")
    assert bench_json([good], TINY, ABOUT)["bit_exact"] is True
    assert bench_json([good, bad], TINY, ABOUT)["bit_exact"] is False


@pytest.mark.parametrize("shape, card", [("odd", "sim4"), ("wide", "sim6"), ("tiny", "sim2")])
def test_useful_shares_are_the_image_without_its_zeros(shape, card):
    """With weights that are never zero, the share of nonzero bytes in a matrix's region is the share without
    padding."""
    layout = Layout(config.build(config.card(card), "resident-dense"), preset(shape))
    model = random_model(preset(shape), 3)
    for block in model.blocks:
        for name in ("q", "k", "v", "decay", "out", "up", "down"):
            weight = getattr(block, name).weight
            weight[weight == 0] = 1
    images = build_images(layout, model)
    shares, lanes = useful_shares(layout), layout.engine.lanes
    for name in ("qkv", "decay", "out", "up", "down"):
        plan, base = getattr(layout, name), layout.bases[0][name] * lanes
        regions = [image[base : base + plan.size * lanes] for image in images[: plan.groups * plan.columns]]
        assert shares[name] == pytest.approx(
            np.mean([np.count_nonzero(region) / region.size for region in regions])
        ), name


def test_executed_products_of_the_full_size():
    shape = preset("194m")
    nothing, everything = np.zeros((12, 4), np.int64), np.tile([768, 768, 768, 4096], (12, 1))
    assert executed_macs(shape, everything * 5, 5) == 1
    dense = 12 * 768 * 768 + 768 * 192 + 48000 * 960
    assert executed_macs(shape, nothing, 3) == pytest.approx(
        dense / (dense + 12 * 768 * (4 * 768 + 2 * 4096))
    )
    assert executed_macs(shape, (everything * 0.24).astype(int), 1) == pytest.approx(0.498, abs=0.003)


def test_the_papers_cycles():
    assert [paper.device_cycles(name) for name in ("resident-dense", "sparse-gather", "partial-kv")] == [
        336759,
        289994,
        239644,
    ]
    assert paper.host_cycles("partial-kv", 480) == 437828
    assert paper.device_cycles("resident-kv") is None and paper.host_cycles("partial-kv", 64) is None


def test_the_standard_table():
    rows = bench_table.rows()
    names = [bench_table.row_name(row) for row in rows]
    assert len(set(names)) == len(rows) == 24
    for build in config.BUILDS:
        assert {(row.prefix, row.max_bytes) for row in rows if row.build == build} == {
            (p, b) for p in (32, 480) for b in (2048, 4096)
        }
    assert [row.clocks() for row in rows if row.clock] == [[300], [300]]
    assert {row.card for row in rows if row.prefix == 32} == {"u50c", "u50c28", "u50c16"}
    assert [dict(row.hbm_set) for row in rows if row.hbm_set] == [
        {"request": 85, "buffer": 48, "trefi": 1755},
        {"request": 85, "buffer": 48, "trefi": 1755},
        {"trefi": 1755},
        {"trefi": 1755},
    ]
    known = header_constants()
    assert all(name in known for row in rows for name, _ in row.hbm_set)


def test_the_headline_has_its_range(tmp_path):
    settings = [replace(bench_table.HEADLINE, **memory) for memory in ({}, *bench_table.MEMORIES.values())]
    for cycles, row in zip((84_000, 89_000, 92_000), settings, strict=True):
        assert bench_table.headline(tmp_path) == ""
        result = full_result(row) | {"decode_cycles": {"median": cycles}}
        write_json(tmp_path / f"{bench_table.row_name(row)}.json", result)
    text = bench_table.headline(tmp_path)
    assert "**84,000 cycles a decode pass, 2,083 passes/s at 175 MHz**" in text
    assert "89,000 (1,966 passes/s) with the pessimistic memory" in text
    assert "92,000 (1,902 passes/s) with the worst memory" in text
    document = f"{bench_table.BEGIN}\n{bench_table.END}"
    assert text in bench_table.with_results(document, [], text)
    write_json(
        tmp_path / f"{bench_table.row_name(settings[1])}.json",
        full_result(settings[1]) | {"bit_exact": False},
    )
    assert bench_table.headline(tmp_path) == ""


def test_rows_say_their_ports_and_their_memory():
    rows = bench_table.rows()
    table = bench_table.results_table([full_result(row) for row in rows]).splitlines()[2:]
    assert sum("partial-kv, 16 ports" in line for line in table) == 1
    assert sum("request 85, buffer 48, trefi 1755" in line for line in table) == 2
    assert len({line.split("| 1,100 |")[0] for line in table}) == len(rows), "two rows look the same"


def test_a_row_is_current_only_for_the_same_kernel_package_and_settings():
    facts = {"build_id": "aa", "package": "bb", **asdict(BenchSettings()), "also_clocks": ()}
    result = json.loads(json.dumps({**facts, "bit_exact": True, "decode_cycles": {"median": 1}}))
    assert bench_table.is_current(result, facts)
    for key, other in {
        "build_id": "cc",
        "package": "dd",
        "prefix": 480,
        "max_bytes": 2048,
        "bit_exact": False,
    }.items():
        assert not bench_table.is_current({**result, key: other}, facts), key
    assert not bench_table.is_current(None, facts)


def test_a_result_that_is_no_json_is_one_sentence(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(UserError, match="a.json is not the result of a benchmark"):
        bench_table.read_row(tmp_path / "a.json")
    assert bench_table.read_row(tmp_path / "b.json") is None


def test_a_result_is_written_whole(tmp_path):
    write_json(tmp_path / "r.json", {"a": 1})
    assert json.loads((tmp_path / "r.json").read_text()) == {"a": 1} and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(FileNotFoundError, match="no/r.json"):
        write_json(tmp_path / "no" / "r.json", {})


def test_the_stages_of_a_build_are_timed_and_passed_on():
    seen = []
    clock = BuildClock(lambda *what: seen.append(what))
    for stage in ("generate", "compile", "simulate"):
        clock(stage, 0, 1)
        clock(stage, 1, 1)
    assert set(clock.seconds) == {"generate", "compile"} and len(seen) == 6


def full_result(settings: BenchSettings) -> dict:
    """A result with the keys of the settings, as a file of the table holds it."""
    facts = asdict(settings) | {"clock": settings.clocks()[0]}
    return json.loads(json.dumps(bench_json([measurement(settings.clocks()[0])], TINY, facts)))


def test_the_results_table_and_its_place(tmp_path):
    for row in bench_table.rows()[:5]:
        write_json(tmp_path / f"{bench_table.row_name(row)}.json", full_result(row))
    results = bench_table.read_results(tmp_path)
    assert len(results) == 5
    text = bench_table.with_results(f"a\n{bench_table.BEGIN}\nold\n{bench_table.END}\nb\n", results)
    assert text.startswith("a\n") and text.endswith("\nb\n") and "old" not in text
    assert "| partial-kv | p32 | 175 MHz, 64 x 4 KB | 1,100 | 239,644, 272,077 | 410 |" in text
    assert "| partial-kv | p480 | 175 MHz, 64 x 4 KB | 1,100 | 239,644, 437,828 | 410 |" in text
    with pytest.raises(UserError, match="has no lines"):
        bench_table.with_results("nothing", results)


def test_the_plot(tmp_path):
    pytest.importorskip("matplotlib")
    from symlight.host.bench.plot import plot

    assert plot(tmp_path) == []
    for row in bench_table.rows():
        write_json(tmp_path / f"{bench_table.row_name(row)}.json", full_result(row))
    (file,) = plot(tmp_path)
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "document, first", [("README.md", bench_table.FIRST_ROWS), ("benchmarks/README.md", None)]
)
def test_documents_show_the_committed_results(document, first):
    text = (ROOT / document).read_text()
    lead = bench_table.headline(RESULTS) if first else ""
    assert bench_table.with_results(text, bench_table.read_results(RESULTS, first), lead) == text


@pytest.mark.parametrize("row", bench_table.rows(), ids=bench_table.row_name)
def test_committed_results_are_whole_and_bit_exact(row):
    result = bench_table.read_row(RESULTS / f"{bench_table.row_name(row)}.json")
    if result is None:
        pytest.skip("not measured yet")
    assert result["bit_exact"] is True and result["commit"]
    expected = asdict(replace(row, clock=row.clocks()[0]))
    result = {"hbm_set": []} | result  # results that are older than --hbm-set
    assert {key: result[key] for key in expected} == json.loads(json.dumps(expected))
    assert result["executed_macs"] == pytest.approx(0.498, abs=0.003)
    phases = sum(sum(phase.values()) for phase in result["phases"].values())
    decode = [cycles for kind, cycles in result["pass_cycles"] if kind == DECODE]
    assert phases == pytest.approx(sum(decode) / len(decode)) and len(decode) == row.new_tokens - 1


@pytest.mark.parametrize(
    "row",
    [row for row in bench_table.rows() if row.max_bytes == 4096 and not row.hbm_set],
    ids=bench_table.row_name,
)
def test_the_estimate_stands_beside_the_committed_results(row):
    """Full size, 3 %. A failure after a change of the design says that the results are old: `make bench`."""
    result = bench_table.read_row(RESULTS / f"{bench_table.row_name(row)}.json")
    if result is None:
        pytest.skip("not measured yet")
    memory = Memory(clock_mhz=result["clock"], hbm=row.hbm, bursts=row.max_bursts, bytes=row.max_bytes)
    found = ask(
        Question(
            engine=config.build(config.card(row.card), row.build),
            shape=preset(result["provenance"]["preset"]),
            memory=memory,
            densities=np.array(result["decode"]["density_by_layer"]),
            prefix=row.prefix,
            new_tokens=row.new_tokens,
        )
    )
    assert found["decode_cycles"] == pytest.approx(result["decode_cycles"]["median"], rel=0.03)
    # A loaded state leaves one prompt pass, at the end of the prompt.
    if row.state == "ingest":
        assert found["prompt_cycles"] == pytest.approx(result["prompt_cycles"]["median"], rel=0.03)
