"""symlight trace: signals out of waveform files, operations, Perfetto's format, the timeline."""

import json
import xml.etree.ElementTree as xml

import numpy as np
import pytest
from amaranth.lib import data

from symlight.base.errors import UserError
from symlight.host.trace.events import WINDOW, PassTrace, Segment, passes, read_beats, signals
from symlight.host.trace.perfetto import trace_events
from symlight.host.trace.record import advance
from symlight.host.trace.timeline import timeline
from symlight.host.trace.waveform import WaveSignals
from symlight.hw.interface import Phase
from symlight.hw.types import OpEntry

pytestmark = pytest.mark.timeout(60)

VCD = """$timescale 1ps $end
$scope module top $end
$var wire 1 ! clk $end
$scope module part $end
$var wire 1 " valid $end
$var wire 4 # word [3:0] $end
$upscope $end
$upscope $end
$enddefinitions $end
#0
0!
0"
b0000 #
#2
1"
b10x1 #
#3
b1111 #
#4
0"
#7
1!
"""


def test_settled_signals_of_a_vcd_file(tmp_path):
    file = tmp_path / "a.vcd"
    file.write_text(VCD)
    found = list(WaveSignals(file, ["part.valid", "word"]).settled())
    assert found == [
        (0, {"part.valid": 0, "word": 0}),
        (1, {"part.valid": 1, "word": 9}),  # x reads as 0; what changes after the edge shows a cycle later
        (2, {"part.valid": 0, "word": 15}),
    ]


@pytest.mark.parametrize(
    "text, words", [(VCD, "0 signals are called absent"), ("#0\n", "not a waveform file")]
)
def test_refused_files(tmp_path, text, words):
    file = tmp_path / "a.vcd"
    file.write_text(text)
    with pytest.raises(UserError, match=words):
        WaveSignals(file, ["absent"])


def entry(phase: Phase) -> int:
    return int(phase) << data.Layout.cast(OpEntry)["phase"].offset


def cycles_of(*rows, channels=1):
    """(cycle, values) per row of (running, waiting, ending phase or None, closing, transfer)."""
    for cycle, (running, waiting, ending, closing, beat) in enumerate(rows):
        values = dict.fromkeys(signals(channels), 0)
        values |= {"phase_counters.running": running, "phase_counters.waiting": waiting}
        values |= {"phase_counters.ending": int(ending is not None), "phase_counters.closing": closing}
        values |= {"phase_counters.entry": entry(ending) if ending is not None else 0}
        values |= {"channel_00.bus__rvalid": beat, "channel_00.bus__rready": 1}
        yield cycle + 10, values


def test_operations_of_a_pass():
    rows = [
        (0, 0, None, 0, 1),
        (1, 1, None, 0, 1),
        (1, 1, None, 0, 0),
        (1, 0, None, 0, 1),
        (1, 1, Phase.QKV, 0, 0),  # the first cycle of the next operation
        (1, 0, None, 0, 0),
        (1, 0, Phase.HEAD, 1, 0),
        (0, 0, None, 0, 0),
    ]
    changes = list(cycles_of(*rows))
    assert read_beats(changes, 1, 18) == [3]
    (one,) = passes(changes, 1, 18)
    assert one.segments == [
        Segment("qkv", 0, "stream", 11, 13),
        Segment("qkv", 0, "turnaround", 13, 14),
        Segment("head", None, "stream", 14, 15),
        Segment("head", None, "turnaround", 15, 16),
        Segment("control", None, "turnaround", 16, 17),
    ]
    assert one.cycles()["qkv"] == (2, 1) and one.cycles()["head"] == (1, 1)
    assert one.cycles()["control"] == (0, 1) and one.cycles()["up"] == (0, 0)
    assert one.beats.tolist() == [[2]]  # the first beat comes before the pass


@pytest.fixture
def one_pass() -> PassTrace:
    segments = [
        Segment("embed", None, "stream", 100, 140),
        Segment("qkv", 0, "stream", 140, 200),
        Segment("qkv", 0, "turnaround", 200, 210),
        Segment("control", None, "turnaround", 210, 212),
    ]
    return PassTrace(segments, np.array([[WINDOW, 5, 0, 1], [0, 0, 0, 0]]))


def test_trace_events(one_pass):
    found = json.loads(json.dumps(trace_events([one_pass], 200)))["traceEvents"]
    slices = [event for event in found if event["ph"] == "X"]
    assert sum(event["dur"] for event in slices if event["tid"] == 1) == pytest.approx(112 / 200)
    qkv = next(event for event in slices if event["name"] == "qkv")
    assert (qkv["ts"], qkv["dur"]) == (pytest.approx(0.2), pytest.approx(0.35))
    assert qkv["args"] == {"pass": 0, "layer": 0, "cycles": 70}
    counters = [event for event in found if event["ph"] == "C"]
    assert len(counters) == 8 and counters[0]["args"] == {"beats per cycle": 1.0}


def test_timeline(one_pass):
    text = timeline(one_pass, "a <pass>")
    root = xml.fromstring(text)
    boxes = [box for box in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len([box for box in boxes if box.get("class") == "beat"]) == 3
    assert "prefers-color-scheme: dark" in text and "a &lt;pass&gt;" in text
    assert "qkv, layer 0: 70 cycles" in text


class Counting:
    """A machine that counts passes as a session does: the first token is pending only."""

    def __init__(self):
        self.pending, self.passes = False, 0

    def run(self, prompt, n_new, eos):
        count = len(prompt) + n_new - (not self.pending)
        self.pending = True
        self.passes += count
        return count


@pytest.mark.parametrize("first", [0, 1, 3, 4, 7])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_run_per_pass(first, length):
    machine, prompt = Counting(), list(range(length))
    if first:
        assert advance(machine, prompt, 0, first) == first
    for number in range(first, first + 4):
        assert advance(machine, prompt, number, 1) == 1
    assert machine.passes == first + 4
