"""SymbolicLight V1 on the CPU engine (docs/v1.md)."""
