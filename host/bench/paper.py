"""Figures of the SymbolicLight V2 paper (section 5.1 and table 5) that the benchmarks stand beside.

All at 175 MHz on an Alveo U50C. Device passes/s are derived from board cycles; the paper does not say at
which prefix they were counted. Host-observed tokens/s are continuous decode of 128 tokens after the named
prefix and include the host's share.
"""

CLOCK_MHZ = 175
DEVICE_PASSES_PER_SECOND = {"resident-dense": 519.66, "sparse-gather": 603.46, "partial-kv": 730.25}
HOST_TOKENS_PER_SECOND = {
    ("resident-dense", 32): 474.6,
    ("sparse-gather", 32): 544.2,
    ("partial-kv", 32): 643.2,
}
HOST_CYCLES_P480 = 437_828  # partial-kv, host-observed, after 480 tokens


def device_cycles(build: str) -> int | None:
    """Cycles of a decode pass on the paper's device, or None for a build that it does not have."""
    rate = DEVICE_PASSES_PER_SECOND.get(build)
    return None if rate is None else round(CLOCK_MHZ * 1e6 / rate)


def host_cycles(build: str, prefix: int) -> int | None:
    """Cycles of a token as the paper's host observed them, or None where it gives no figure."""
    if (build, prefix) == ("partial-kv", 480):
        return HOST_CYCLES_P480
    rate = HOST_TOKENS_PER_SECOND.get((build, prefix))
    return None if rate is None else round(CLOCK_MHZ * 1e6 / rate)
