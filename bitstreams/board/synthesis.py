"""How yosys maps the board's design: as `synth_ecp5` does, but for multipliers that are left to LUTs."""

from symlight.hw.board.generate import BOARD_MODULE

# Modules whose products go into LUTs: addresses and counts that are not due for many cycles, and the ring's
# products of two bytes. With four products in LUTs, the design took 155 of the FPGA's 156 multipliers.
SOFT_MULTIPLIERS = (
    "kernel.dispatch",
    "kernel.load",
    "kernel.channel00",
    "kernel.channel00.loader",
    "kernel.channel00.fetch.runs",
    "kernel.channel00.attention",
    "kernel.channel00.attention.intake",
    "kernel.channel00.attention.plan",
    "kernel.channel00.attention.score",
)
FIRST = "-run begin:coarse"  # options of synth_ecp5: before the modules become one


def remaining_commands(top: str) -> str:
    """What follows `synth_ecp5 FIRST -top` `top`; the name is of yosys' own rule for products in LUTs.

    yosys' check before that rule warns that the products have no driver: it does not know the name.
    """
    chosen = " ".join(f"{BOARD_MODULE}.{module}/t:$mul" for module in SOFT_MULTIPLIERS)
    return f"chtype -set $__soft_mul {chosen}\nsynth_ecp5 -top {top} -run coarse:\n"
