"""Which die of the card each part of the kernel is meant for.

One table for the reduction of the drain bus, the vendor's floorplan and the page on resources.

The memory and its interconnect are beside die 0. The channels are halved; sequencer and vector unit lie on
die 1, where their size makes up for the interconnect's.
"""

DIES = 2
SEQUENCER_DIE = 1


def channels_of_die(channels: int) -> tuple[range, range]:
    """Numbers of the channels on die 0 and on die 1."""
    middle = -(-channels // DIES)
    return range(middle), range(middle, channels)
