"""What the host asks of the probe, and what it gets: fields in the kernel's usual arguments and counters.

The probe has registers, memory ports and mailbox of every kernel of this project (`interface`), so
that the same package, the same scripts and the same driver carry it:

    n_prompt    bursts that every port reads
    n_new       bursts of a port that may be on their way, 1 .. `MOST_FLYING`
    eos         bursts after which a port begins again at its first address
    flags       `Pattern`
    watchdog    `gap`: cycles without a beat that count as a gap, as a refresh makes one

A port answers in four 64-bit counters of the mailbox, `PortResult`: counters 4k .. 4k + 3 for port k.
"""

from amaranth.lib import data

from ..axi import BURST_BITS
from ..interface import CHANNEL_BITS, COUNTERS

MOST_FLYING = 64
STRIDE_BITS = 16
PORTS_BITS = CHANNEL_BITS + 1
LATENCY_BITS = 16  # cycles, saturating
PORT_COUNTERS = 4  # 64-bit counters of a port
MOST_PORTS = COUNTERS // PORT_COUNTERS
ARGUMENTS = {"bursts": "n_prompt", "flying": "n_new", "span": "eos", "pattern": "flags", "gap": "watchdog"}


class Pattern(data.Struct):
    """Argument `flags`."""

    ports: PORTS_BITS  # ports 0 .. ports - 1 read
    beats: BURST_BITS  # beats of a burst, 1 .. 16
    stride: STRIDE_BITS  # beats from the begin of a burst to that of the next; no burst may cross 4 KB


class PortResult(data.Struct):
    """Four 64-bit words; times in cycles of the kernel's clock."""

    cycles: 32  # from the first address to the last beat
    beats: 32
    latency_least: LATENCY_BITS  # from an address taken to the first beat of its burst
    latency_most: LATENCY_BITS
    gap_longest: 32  # cycles in a row without a beat while bursts are on their way
    latency_sum: 64  # over all bursts
    gaps: 32  # gaps of at least `gap` cycles
    gap_cycles: 32  # in all of these together
