"""Signatures of the kernel's bus ports: AXI4 master of one pseudo-channel, AXI4-Lite slave of the control
registers."""

from amaranth.hdl import Cat
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

RESP_OKAY = 0
BURST_INCR = 1
MAX_BURST = 16  # beats; the hardened HBM port is AXI3
PAGE_BYTES = 4096  # no burst crosses a multiple of it
# of a byte address: no buffer lies across a multiple of 16 TB, the rest is the pointer's
CARRIED_BITS = 44
BANK_BYTES = 256 << 20  # of a pseudo-channel: no buffer of the host is larger, nor one transfer to the card


def byte_address(pointer, beat, beat_bytes: int):
    """Byte address of beat `beat` behind `pointer`, a multiple of 4 KB: a sum in one short carry chain."""
    page = exact_log2(PAGE_BYTES)
    shift = exact_log2(beat_bytes)
    inside = page - shift  # bits of `beat` within a page
    high = (pointer[page:CARRIED_BITS] + beat[inside:])[: CARRIED_BITS - page]
    return Cat((beat[:inside] << shift)[:page], high, pointer[CARRIED_BITS:])


class AxiMaster(wiring.Signature):
    """Read and write channels of a memory port. INCR bursts of full beats only; no IDs, one order.

    Parameters
    ----------
    beat_bytes : int
        Bytes of a data beat.
    """

    def __init__(self, beat_bytes: int):
        super().__init__(
            {
                "araddr": Out(64),
                "arlen": Out(8),
                "arsize": Out(3),
                "arburst": Out(2),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(8 * beat_bytes),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
                "awaddr": Out(64),
                "awlen": Out(8),
                "awsize": Out(3),
                "awburst": Out(2),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(8 * beat_bytes),
                "wstrb": Out(beat_bytes),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
        )


class AxiLite(wiring.Signature):
    """AXI4-Lite with 32-bit data, as the master sees it; 12 address bits are the 4 KB that a kernel's map
    takes."""

    def __init__(self):
        super().__init__(
            {
                "awaddr": Out(12),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(12),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )
