"""How yosys maps the board's design: as `synth_ecp5` does, but for multipliers that are left to LUTs."""

from symlight.hw.board.generate import BOARD_MODULE

# Modules whose products are not due for many cycles. With them the design would take more than nine tenths
# of the FPGA's multipliers.
SOFT_MULTIPLIERS = ("kernel.dispatch", "kernel.load", "kernel.channel00.loader")
FIRST = "-run begin:coarse"  # options of synth_ecp5: before the modules become one


def remaining_commands(top: str) -> str:
    """What follows `synth_ecp5 FIRST -top` `top`; the name is of yosys' own rule for products in LUTs."""
    chosen = " ".join(f"{BOARD_MODULE}.{module}/t:$mul" for module in SOFT_MULTIPLIERS)
    return f"chtype -set $__soft_mul {chosen}\nsynth_ecp5 -top {top} -run coarse:\n"
