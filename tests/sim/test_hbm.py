"""The memory model against measurements on cards and the simulations that agree with them (names of the
cases).

Expected numbers: GB/s of one pseudo-channel, nanoseconds; "native" is a 256-bit port at 450 MHz, latency 94
ns outside the DRAM.
"""

import ctypes

import numpy as np
import pytest

pytestmark = pytest.mark.timeout(60)
NATIVE = {"latency": 94, "ar_ps": 0}


@pytest.fixture
def traffic(traffic_library):
    """traffic(addresses, beats, mhz, beat_bytes, **settings) -> cycles, latencies of the bursts in cycles."""
    library = ctypes.CDLL(str(traffic_library))
    library.traffic_run.restype = ctypes.c_int64

    def run(addresses, beats, mhz=450, beat_bytes=32, seed=1, **settings):
        addresses = np.ascontiguousarray(addresses, np.uint64)
        beats = np.ascontiguousarray(np.broadcast_to(beats, addresses.shape), np.uint8)
        issued, done = np.zeros((2, addresses.size), np.int64)
        cycles = library.traffic_run(
            ",".join(f"{k}={v}" for k, v in settings.items()).encode(),
            mhz,
            beat_bytes,
            ctypes.c_uint64(seed),
            ctypes.c_int64(addresses.size),
            *(ctypes.c_void_p(a.ctypes.data) for a in (addresses, beats, issued, done)),
        )
        assert cycles > 0, f"traffic failed with {cycles}"
        return cycles, done - issued

    return run


def rate(size, cycles, mhz):
    return size * mhz / cycles / 1000


def ascending(size, count=1 << 17, seed=0):
    """Addresses of pieces of `size` bytes, each read with probability 0.24."""
    chosen = np.random.default_rng(seed).random(count * 32 // size) < 0.24
    return np.flatnonzero(chosen) * size


def test_sequential(traffic):
    addresses = np.arange(4096) * 512
    cycles, _ = traffic(addresses, 16, **NATIVE)
    assert rate(addresses.size * 512, cycles, 450) == pytest.approx(13.29, rel=0.01)


@pytest.mark.parametrize("stride, span, expected", [(4096, 8192, 6.66), (4096, 256 << 20, 2.43)])
def test_strided(traffic, stride, span, expected):
    """Page hits in one bank group; page misses."""
    addresses = np.arange(32768) * stride % span
    cycles, _ = traffic(addresses, 1, **NATIVE)
    assert rate(addresses.size * 32, cycles, 450) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("tfaw", [22, 40, 0])
def test_four_activations_in_a_window(traffic, tfaw):
    """Every read opens a row of another bank: four activations in tFAW ticks, or one in tRRD."""
    banks = np.array([[0, 32, 8192, 8224][group] + 2048 * bank for bank in range(4) for group in range(4)])
    addresses = (np.arange(2048)[:, None] * 16384 + banks).reshape(-1)
    cycles, _ = traffic(addresses, 1, tfaw=tfaw, trefi=0, **NATIVE)
    ticks = max(tfaw / 4, 4)  # of an activation; tRRD = 4
    assert rate(addresses.size * 32, cycles, 450) == pytest.approx(32 * 0.9 / ticks, rel=0.02)


@pytest.mark.parametrize("stride, expected", [(32, 121), (16384, 155)])
def test_idle_latency(traffic, stride, expected):
    """One read at a time, refreshes included: page hits (within one page) and page misses."""
    addresses = np.arange(8000) * stride % (1024 if stride == 32 else 256 << 20)
    _, latency = traffic(addresses, 1, bursts=1, **NATIVE)
    assert latency.mean() / 0.45 == pytest.approx(expected, rel=0.02)


def test_default_latency(traffic):
    """The default: a slow shell, 198 ns for an idle page hit."""
    _, latency = traffic(np.arange(8000) * 32 % 1024, 1, 175, bursts=1)
    assert latency.mean() / 0.175 == pytest.approx(198, rel=0.02)


ROWS = {  # piece: 256b@175 and 512b@175 with 32 and 64 bursts in flight, then 256b@300 with 64
    32: (5.24, 5.49, 5.22, 5.47, 8.99),
    64: (5.50, 5.60, 10.42, 10.90, 9.53),
    128: (5.60, 5.60, 10.92, 10.92, 9.52),
    512: (5.60, 5.60, 10.84, 10.84, 9.46),
}


@pytest.mark.parametrize("size", ROWS)
def test_ascending_pieces(traffic, size):
    ports = [(175, 32, 32), (175, 32, 64), (175, 64, 32), (175, 64, 64), (300, 32, 64)]
    addresses = ascending(size)
    for (mhz, beat, bursts), expected in zip(ports, ROWS[size], strict=True):
        aligned = addresses // beat * beat  # a piece narrower than a beat reads the whole beat
        cycles, _ = traffic(aligned, max(1, size // beat), mhz, beat, bursts=bursts, **NATIVE)
        assert rate(addresses.size * size, cycles, mhz) == pytest.approx(expected, rel=0.02), (
            mhz,
            beat,
            bursts,
        )


def test_limits_in_flight(traffic):
    """The slow shell with 32 or 64 bursts in flight, and with 2 KB."""
    addresses = ascending(32)
    for bursts, expected in ((32, 4.38), (64, 5.39)):
        cycles, _ = traffic(addresses, 1, 175, bursts=bursts, ar_ps=0)
        assert rate(addresses.size * 32, cycles, 175) == pytest.approx(expected, rel=0.02)
    sequential = np.arange(4096) * 512
    cycles, _ = traffic(sequential, 16, 175, bytes=2048)
    assert rate(sequential.size * 512, cycles, 175) == pytest.approx(5.33, rel=0.02)


def test_address_rate(traffic):
    """One address in 4.44 ns on average, also where that is no whole number of cycles."""
    addresses = ascending(32)
    cycles, _ = traffic(addresses, 1, 300, bursts=64, latency=94)
    assert rate(addresses.size * 32, cycles, 300) == pytest.approx(6.9, rel=0.02)


def test_latency_under_load(traffic):
    """256b@175, 32-byte pieces: mean latency by bursts in flight."""
    for bursts, expected in ((8, 134), (16, 145), (24, 157), (32, 193), (64, 363)):
        _, latency = traffic(ascending(32), 1, 175, bursts=bursts, **NATIVE)
        assert latency.mean() / 0.175 == pytest.approx(expected, rel=0.04), bursts


def test_ideal(traffic):
    """Eight cycles, then a beat in every cycle, whatever the address."""
    addresses = np.arange(1000) * 4096
    cycles, latency = traffic(addresses, 16, 175, ideal=1, ideal_cycles=8, ar_ps=0)
    assert cycles == 1 + 8 + 16000 - 1 and latency[0] == 8 + 15


def test_refresh_phases_differ_by_seed(traffic):
    addresses = np.arange(200) * 512
    times = {traffic(addresses, 16, 175, seed=seed)[0] for seed in range(20)}
    assert len(times) > 1
    assert traffic(addresses, 16, 175, seed=3)[0] == traffic(addresses, 16, 175, seed=3)[0]
    assert traffic(addresses, 16, 175, trefi=0, seed=1)[0] == traffic(addresses, 16, 175, trefi=0, seed=2)[0]


@pytest.mark.parametrize("beats, address", [(17, 1024), (16, 3840)])
def test_bad_bursts_are_refused(traffic, beats, address):
    """More than 16 beats; across a 4 KB boundary."""
    with pytest.raises(AssertionError, match="-2"):
        traffic([address], beats)


def test_unknown_setting(traffic):
    with pytest.raises(AssertionError, match="-1"):
        traffic([0], 1, no_such_name=1)


def test_latency_before_the_dram_is_a_part_of_it(traffic):
    _, latency = traffic(np.arange(8000) * 32 % 1024, 1, 175, bursts=1, request=85)
    assert latency.mean() / 0.175 == pytest.approx(198, rel=0.02)


@pytest.mark.parametrize("buffer, expected", [(4, 4 * 32 / 205), (48, 5.6)])
def test_return_buffer(traffic, buffer, expected):
    """A column waits for room: `buffer` beats in the time until they are taken, or the rate of the port."""
    addresses = np.arange(4096) * 512
    cycles, _ = traffic(addresses, 16, 175, buffer=buffer, trefi=0)
    assert rate(addresses.size * 512, cycles, 175) == pytest.approx(expected, rel=0.05)


def test_a_large_return_buffer_changes_nothing(traffic):
    addresses = ascending(64)
    base, _ = traffic(addresses, 2, 175, request=85, bytes=8192)
    large, _ = traffic(addresses, 2, 175, request=85, bytes=8192, buffer=1024)
    assert large == pytest.approx(base, rel=0.005)


def test_idle_cycles_between_bursts(traffic):
    addresses = np.arange(4096) * 512
    cycles, _ = traffic(addresses, 16, 175, idle=4, trefi=0)
    assert rate(addresses.size * 512, cycles, 175) == pytest.approx(5.6 * 16 / 20, rel=0.01)
