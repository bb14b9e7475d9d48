"""Waveform files of a simulated kernel: the signals agree with the memory model's counters."""

import pytest

from symlight.base.errors import UserError
from symlight.base.tools import Tools
from symlight.host.trace.waveform import WaveSignals
from symlight.sim.build import FST_HEADERS, build_model
from symlight.sim.options import WAVEFORMS, SimOptions
from tests.benches.places import SIMULATORS
from tests.sim.test_model import StandIn

pytestmark = pytest.mark.timeout(280)


@pytest.mark.parametrize("waveform", WAVEFORMS)
def test_signals_agree_with_the_counters(standin, tmp_path, waveform):
    if waveform == "fst":
        try:
            Tools().require_headers("FST", FST_HEADERS)
        except UserError as missing:
            pytest.skip(str(missing))
    kernel = StandIn(build_model(standin.sources, standin.engine, SIMULATORS, trace=waveform))
    file, begin = tmp_path / f"run.{waveform}", kernel.model.cycles
    kernel.model.trace(file)
    assert kernel.run(n_prompt=20, flags=0)[1] == kernel.sum(20)
    end = kernel.model.cycles
    kernel.model.end_trace()
    names = [f"symlight.m_axi_hbm01_r{name}" for name in ("valid", "ready")]
    changes = list(WaveSignals(file, names).settled())
    assert changes[0][0] == begin
    following = [cycle for cycle, _ in changes[1:]] + [end]
    beats = sum(
        after - cycle
        for (cycle, values), after in zip(changes, following, strict=True)
        if all(values[name] for name in names)
    )
    assert beats == kernel.model.counter("read_beats", 1) == 20


def test_a_missing_header_is_a_sentence():
    with pytest.raises(UserError, match=r"find no_such_header.h.*apt-get install no-such-package"):
        Tools().require_headers("waveforms", {"no_such_header.h": "no-such-package"})


@pytest.mark.parametrize("options", [{"traceable": "lxt"}, {"traceable": ""}])
def test_an_unknown_format_is_refused(options):
    with pytest.raises(UserError, match=r"\.vcd or \.fst"):
        SimOptions(**options)
