"""symlight: generator of an FPGA accelerator for SymbolicLight V2."""

__version__ = "0.1.0"
