"""Measuring: a kernel pass by pass, the standard table, the measuring protocol, telemetry, plots."""
