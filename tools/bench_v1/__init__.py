"""The CPU paper's tables as ratios of one run: V1 against llama.cpp, random weights in all (docs/v1.md)."""
