"""An open board: the kernel behind an SDRAM controller and a serial link (docs/board.md)."""
