"""The CPU engine: the integers of model.reference at the speed of memory (docs/cpu.md)."""
