"""SymbolicLight V1 on the host: its machine, its measurements, files on the hub."""
