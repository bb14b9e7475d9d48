"""The simulated board: verilated board core, SDRAM, serial line."""
