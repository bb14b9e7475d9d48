"""hw.board.sdram on the chip's model: data, order, timing, share of the peak, broken controllers."""

import random
from dataclasses import replace

import pytest

from symlight.hw.board.board import board
from symlight.hw.board.chip import ULX3S_SDRAM, Cycles
from symlight.hw.board.sdram import SdramController
from symlight.sim.board.controller import Request, SdramViolation, SimulatedController

pytestmark = pytest.mark.timeout(300)

MHZ = board("ulx3s-85f").sdram_mhz
WORD_BYTES = 2
WARM = [Request(0)]  # waits for the power-up of the chip


def simulated(beat_bytes=8, mhz=MHZ, **chip):
    controller = SdramController(chip=replace(ULX3S_SDRAM, **chip), mhz=mhz, beat_bytes=beat_bytes)
    return SimulatedController(controller, beat_bytes=beat_bytes, mhz=mhz)


@pytest.fixture(scope="module", params=[8, 16])
def bench(request):
    bench = simulated(request.param)
    bench.beat_bytes = request.param
    bench.run(WARM)
    yield bench
    bench.close()


def test_reads_and_writes_in_order(bench):
    """Random bursts and single writes over rows and banks, with pauses, against a plain memory."""
    random_bytes, size = random.Random(3), bench.beat_bytes
    beats = ULX3S_SDRAM.size // size
    for near in (400, beats - 16):
        memory, expected, requests = bytearray(bench.memory(0, ULX3S_SDRAM.size)), [], []
        for _ in range(1500):
            address = random_bytes.randrange(near)
            if random_bytes.random() < 0.4:
                requests.append(Request(address, data=random_bytes.randbytes(size)))
                memory[address * size : (address + 1) * size] = requests[-1].data
            else:
                requests.append(Request(address, random_bytes.randrange(1, 17)))
                expected.append(bytes(memory[address * size : (address + requests[-1].beats) * size]))
        gaps = [random_bytes.choice((0, 0, 3, 40)) for _ in requests]
        read, _ = bench.run(requests, gaps=gaps)
        assert read == expected
        assert bench.memory(0, len(memory)) == bytes(memory)


def kernel_like(random_source, beats, rows):
    """Reads as the gather makes them: rows of `beats` beats, some skipped, in bursts of at most 16."""
    requests, row = [], 0
    for _ in range(rows):
        row += 1 if random_source.random() < 0.5 else random_source.randrange(2, 6)
        first = row * beats
        requests += [Request(first + b, min(16, beats - b)) for b in range(0, beats, 16)]
    return requests


@pytest.mark.parametrize("beats", [16, 48, 64])
def test_share_of_the_peak(bench, beats):
    """At least 85 % of two bytes a cycle on rows of the demo's matrices, refresh included."""
    requests = kernel_like(random.Random(beats), beats, 1000)
    _, cycles = bench.run(requests)
    moved = sum(request.beats for request in requests) * bench.beat_bytes
    assert moved / (WORD_BYTES * cycles) >= 0.85


def test_refreshes_go_on_without_requests(bench):
    before = bench.counter("refreshes")
    idle = 200_000
    bench.idle(idle)
    due = idle // Cycles(ULX3S_SDRAM, MHZ).refresh
    assert abs(bench.counter("refreshes") - before - due) <= 1


def thrash():
    """Rows of one bank in turn: everything that timing rules are about."""
    row = 512 * 4 * WORD_BYTES // 8  # beats from a row to the next of the same bank
    requests = []
    for i in range(40):
        requests += [Request(i % 7 * row, data=bytes(8)), Request(i % 5 * row), Request(i % 3 * row, 2)]
    return requests


# The controller's pipeline alone keeps t_RCD and t_RAS; test_sdram_model.py breaks these.
@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        ({"rp_ns": 10, "rc_ns": 10}, "t_RP"),
        ({"wr_ns": 0}, "t_WR"),
        ({"rfc_ns": 10}, "t_RFC"),
        ({"power_up_ns": 1000}, "stable for 200 us"),
        ({"power_up_refreshes": 2}, "before precharge and refreshes"),
        ({"refresh_ns": 40_000}, "refresh is late"),
    ],
)
def test_wrong_timing_is_caught(broken, rule):
    bench = simulated(**broken)
    with pytest.raises(SdramViolation, match=rule):
        bench.run(WARM + thrash())
        bench.idle(200_000)
    bench.close()


def test_the_right_timing_is_not():
    bench = simulated()
    bench.run(WARM + thrash())
    bench.idle(200_000)
    bench.close()


def test_wrong_words_are_seen():
    """A controller that takes the words of a read a cycle late reads others."""

    class Late(SdramController):
        PAD_LATENCY = SdramController.PAD_LATENCY + 1

    bench = SimulatedController(Late(chip=ULX3S_SDRAM, mhz=MHZ, beat_bytes=8), beat_bytes=8, mhz=MHZ)
    read, _ = bench.run([Request(40, 4)])
    assert read[0] != bench.memory(40 * 8, 4 * 8)
    bench.close()
