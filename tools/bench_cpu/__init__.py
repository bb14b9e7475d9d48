"""`make bench-cpu`: the CPU engine beside other engines, in interleaved rounds on one machine."""
