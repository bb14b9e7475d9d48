"""SymbolicLight V1 in floating point: shapes, meaning, checkpoints, packages (docs/v1.md)."""
