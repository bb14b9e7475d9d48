"""The simulated memory port without a kernel: the rules for its master (each broken once and kept once), its
data, and its counters."""

import ctypes

import pytest

from symlight.base.tools import Tools
from symlight.sim.build import HERE
from tests.benches.places import ROOT
from tests.benches.sim.axi_probe import BASE, BEAT, READ, WRITE, AxiProbe

pytestmark = pytest.mark.timeout(60)
NEVER = 256  # of a *_stall setting: the port is never ready


@pytest.fixture(scope="session")
def probe_library(tmp_path_factory):
    """The probe, compiled."""
    tools, folder = Tools(), tmp_path_factory.mktemp("probe")
    source = ROOT / "tests" / "benches" / "sim" / "axi_probe.cpp"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{HERE}"]
    tools.run([tools.cxx, *flags, str(source), "-o", "libprobe.so"], folder)
    return ctypes.CDLL(str(folder / "libprobe.so"))


@pytest.fixture
def probe(probe_library):
    """probe(**settings) -> AxiProbe."""
    made = []

    def make(**settings) -> AxiProbe:
        made.append(AxiProbe(probe_library, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


# ---- what is offered stays ---------------------------------------------------------------------------------

AR, AW = READ | {"araddr": BASE}, WRITE | {"awaddr": BASE}
W = {"wvalid": 1, "wlast": 1}
OFFERS = {"AR": AR, "AW": AW, "W": W}
CHANGES = {
    "AR withdrawn": ("AR", {"arvalid": 0}),
    "AR address": ("AR", {"araddr": BASE + BEAT}),
    "AR length": ("AR", {"arlen": 1}),
    "AW withdrawn": ("AW", {"awvalid": 0}),
    "AW address": ("AW", {"awaddr": BASE + BEAT}),
    "AW length": ("AW", {"awlen": 1}),
    "W withdrawn": ("W", {"wvalid": 0}),
    "W last": ("W", {"wlast": 0}),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_is_offered_stays_until_it_is_accepted(probe, case):
    channel, change = CHANGES[case]
    offer = OFFERS[channel]
    port = probe(ar_stall=NEVER, aw_stall=NEVER, w_stall=NEVER)
    assert [port.step(**offer) for _ in range(3)] == ["", "", ""]
    assert port.step(**offer | change) == (
        f"AXI port hbm3: {channel} changed or was withdrawn before it was accepted"
    )


def test_write_data_stays_until_it_is_accepted(probe):
    port = probe(w_stall=NEVER)
    port.data(7)
    assert port.step(**W) == port.step(**W) == ""
    port.data(8)
    assert "W changed" in port.step(**W)


def test_what_was_accepted_may_change(probe):
    port = probe()
    assert port.step(**AR, **AW) == ""
    assert port.pins.arready and port.pins.awready
    assert port.step(**AR | {"araddr": BASE + 64}, rready=1) == ""
    assert port.step(rready=1) == ""


# ---- bursts ------------------------------------------------------------------------------------------------

PAGE = BASE + 4096
GOOD = {
    "one beat": {"addr": BASE},
    "sixteen beats": {"addr": BASE, "len": 15},
    "up to the page": {"addr": PAGE - 16 * BEAT, "len": 15},
    "last beat of a page": {"addr": PAGE - BEAT},
}
BAD = {
    "narrow": ({"addr": BASE, "size": 4}, "beats are not as wide as the port"),
    "wide": ({"addr": BASE, "size": 6}, "beats are not as wide as the port"),
    "fixed": ({"addr": BASE, "burst": 0}, "not of type INCR"),
    "wrapping": ({"addr": BASE, "burst": 2}, "not of type INCR"),
    "seventeen beats": ({"addr": BASE, "len": 16}, "longer than 16 beats"),
    "between beats": ({"addr": BASE + 1}, "not a multiple of the beat"),
    "half a beat": ({"addr": BASE + BEAT // 2}, "not a multiple of the beat"),
    "across a page": ({"addr": PAGE - 15 * BEAT, "len": 15}, "crosses a 4 KB boundary"),
    "two beats across a page": ({"addr": PAGE - BEAT, "len": 1}, "crosses a 4 KB boundary"),
}


def burst(channel: str, fields: dict) -> dict:
    return {"AR": READ, "AW": WRITE}[channel] | {f"{channel.lower()}{k}": v for k, v in fields.items()}


@pytest.mark.parametrize("channel", ["AR", "AW"])
@pytest.mark.parametrize("case", GOOD)
def test_good_bursts_are_taken(probe, channel, case):
    assert probe().step(**burst(channel, GOOD[case])) == ""


@pytest.mark.parametrize("channel", ["AR", "AW"])
@pytest.mark.parametrize("case", BAD)
def test_bad_bursts_are_refused(probe, channel, case):
    fields, sentence = BAD[case]
    port = probe()
    assert sentence in port.step(**burst(channel, fields))


@pytest.mark.parametrize("beats, last, good", [(1, 0, True), (3, 2, True), (3, 1, False), (2, 2, False)])
def test_wlast_comes_with_the_last_beat(probe, beats, last, good):
    port = probe()
    errors = [port.step(**burst("AW", {"addr": BASE, "len": beats - 1}))]
    errors += [port.step(wvalid=1, wlast=int(i == last)) for i in range(beats)]
    assert (errors[-1] == "") == good
    assert good or "wlast does not come with the last beat" in errors[-1]


# ---- data --------------------------------------------------------------------------------------------------


def write(port: AxiProbe, address: int, values: list[int], strobes: int = 0xFFFFFFFF) -> int:
    """A whole write burst; its response."""
    assert port.step(**burst("AW", {"addr": address, "len": len(values) - 1})) == ""
    for i, value in enumerate(values):
        port.data(value, strobes)
        assert port.step(wvalid=1, wlast=int(i == len(values) - 1)) == ""
    return response(port)


def response(port: AxiProbe) -> int:
    """The next write response."""
    for _ in range(100):
        assert port.step(bready=1) == ""
        if port.pins.bvalid:
            return port.pins.bresp
    raise AssertionError("no write response")


def test_writes_arrive_by_their_strobes(probe):
    port = probe()
    before = port.memory.copy()
    assert write(port, BASE + 4 * BEAT, [0x11, 0x22], strobes=0x80000003) == 0
    expected = before.copy()
    for beat, value in ((4, 0x11), (5, 0x22)):
        for byte in (0, 1, 31):
            expected[beat * BEAT + byte] = value
    assert (port.memory == expected).all()
    assert port.counter("write_bursts") == 1 and port.counter("write_beats") == 2


def test_the_worst_response_of_a_write_burst_is_its_own(probe):
    port = probe()
    port.fault(BASE + 2 * BEAT, BASE + 3 * BEAT, 2, reads=False, writes=True)
    before = port.memory.copy()
    assert write(port, BASE, [1, 1]) == 0 and write(port, BASE + BEAT, [2, 2, 2]) == 2
    assert (port.memory[2 * BEAT : 3 * BEAT] == before[2 * BEAT : 3 * BEAT]).all()
    assert (port.memory[3 * BEAT : 4 * BEAT] == 2).all(), "the beats beside the refused one arrive"
    assert write(port, BASE + len(port.memory), [3]) == 3


def read(port: AxiProbe, address: int, beats: int) -> list[tuple[int, int, bytes]]:
    """(response, last, data) of every beat of a burst."""
    assert port.step(**burst("AR", {"addr": address, "len": beats - 1}), rready=1) == ""
    found = []
    while len(found) < beats:
        assert port.step(rready=1) == ""
        if port.pins.rvalid:
            found.append((port.pins.rresp, port.pins.rlast, bytes(port.pins.rdata)))
    return found


def test_reads_give_the_memory_beat_by_beat(probe):
    port = probe()
    port.fault(BASE + 5 * BEAT, BASE + 6 * BEAT, 3, reads=True, writes=False)
    for beat, (answer, last, data) in enumerate(read(port, BASE + 4 * BEAT, 3), 4):
        assert (answer, last) == (3 if beat == 5 else 0, int(beat == 6))
        assert (data == port.memory[beat * BEAT : (beat + 1) * BEAT].tobytes()) == (beat != 5)
    assert port.step() == "" and port.idle()


# ---- counters ----------------------------------------------------------------------------------------------


def test_counts_of_a_read(probe):
    """An ideal port: eight cycles from the address to the first beat."""
    port = probe(ideal_cycles=8)
    port.step(**burst("AR", {"addr": BASE, "len": 2}))
    assert (port.counter("read_bursts"), port.counter("bursts_max"), port.counter("bytes_max")) == (1, 1, 96)
    for _ in range(7):
        port.step()
        assert not port.pins.rvalid
    assert port.counter("read_waits") == 7 and port.counter("read_stalls") == 0
    for _ in range(4):  # data is there, and the master is not ready
        port.step()
        assert port.pins.rvalid
    assert port.counter("read_stalls") == 4 and port.counter("read_waits") == 7
    for _ in range(3):
        port.step(rready=1)
    assert port.counter("read_beats") == 3 and port.idle()
    assert port.counter("latency_cycles") == port.counter("latency_max") == 1 + 7 + 4 + 3 - 1
    for _ in range(5):
        port.step()
    assert port.counter("read_waits") == 7, "nothing is in flight"


def test_counts_of_stalls(probe):
    port = probe(ar_stall=NEVER, aw_stall=NEVER, w_stall=NEVER)
    for _ in range(5):
        port.step(**AR)
    for _ in range(3):
        port.step(**AR, **W)
    assert port.counter("address_stalls") == 8 and port.counter("write_stalls") == 3
    assert port.counter("read_bursts") == port.counter("write_beats") == port.counter("read_waits") == 0


def test_limits_in_flight(probe):
    port = probe(bursts=2, bytes=4096, ideal_cycles=50)
    for _ in range(6):
        port.step(**AR)
    assert port.counter("read_bursts") == port.counter("bursts_max") == 2
    port = probe(bursts=64, bytes=1024, ideal_cycles=50)
    for _ in range(6):
        port.step(**burst("AR", {"addr": BASE, "len": 9}))
    assert port.counter("read_bursts") == 3 and port.counter("bytes_max") == 960
