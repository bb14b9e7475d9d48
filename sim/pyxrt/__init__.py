"""The simulated card under pyxrt's own names and semantics."""
