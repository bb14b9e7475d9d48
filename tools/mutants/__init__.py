"""Mutation testing: does a test fail when a line is wrong? `python -m symlight.tools.mutants` runs it."""
