"""Signatures of the kernel's bus ports: AXI4 master of one pseudo-channel, AXI4-Lite slave of the control
registers."""

from amaranth.hdl import C, Cat
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

ADDRESS_BITS = 64  # of a byte address
LENGTH_BITS, SIZE_BITS, RESP_BITS = 8, 3, 2
RESP_OKAY = 0
BURST_INCR = 1
MAX_BURST = 16  # beats; the hardened HBM port is AXI3
BURST_BITS = MAX_BURST.bit_length()  # of a burst's beats
PAGE_BYTES = 4096  # no burst crosses a multiple of it
CARRIED_BITS = 44  # of a byte address that may be 1: no card has memory beyond 16 TB
BANK_BYTES = 256 << 20  # of a pseudo-channel: no buffer of the host is larger, nor one transfer to the card
FAULT_BITS = 32  # low bits of a byte address that a fault reports


def byte_address(pointer, beat, beat_bytes: int):
    """Byte address of beat `beat` behind `pointer`, a multiple of 4 KB below 16 TB: a sum in one short carry
    chain."""
    page = exact_log2(PAGE_BYTES)
    shift = exact_log2(beat_bytes)
    inside = page - shift  # bits of `beat` within a page
    high = (beat[inside:] + pointer[page:CARRIED_BITS])[: CARRIED_BITS - page]
    return Cat((beat[:inside] << shift)[:page], high, C(0, ADDRESS_BITS - CARRIED_BITS))


class AxiRead(wiring.Signature):
    """Read address and read data channel of a memory port, as the master sees them: INCR bursts of full
    beats, no IDs, one order.

    Parameters
    ----------
    beat_bytes : int
        Bytes of a data beat.
    """

    def __init__(self, beat_bytes: int):
        super().__init__(
            {
                "araddr": Out(ADDRESS_BITS),
                "arlen": Out(LENGTH_BITS),
                "arsize": Out(SIZE_BITS),
                "arburst": Out(2),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(8 * beat_bytes),
                "rresp": In(RESP_BITS),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class AxiWrite(wiring.Signature):
    """Write address, write data and write response channel of a memory port, as the master sees them.

    Parameters
    ----------
    beat_bytes : int
        Bytes of a data beat.
    """

    def __init__(self, beat_bytes: int):
        super().__init__(
            {
                "awaddr": Out(ADDRESS_BITS),
                "awlen": Out(LENGTH_BITS),
                "awsize": Out(SIZE_BITS),
                "awburst": Out(2),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(8 * beat_bytes),
                "wstrb": Out(beat_bytes),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(RESP_BITS),
                "bvalid": In(1),
                "bready": Out(1),
            }
        )


class AxiMaster(wiring.Signature):
    """A memory port: `read` is an `AxiRead`, `write` an `AxiWrite`.

    Parameters
    ----------
    beat_bytes : int
        Bytes of a data beat.
    """

    def __init__(self, beat_bytes: int):
        super().__init__({"read": Out(AxiRead(beat_bytes)), "write": Out(AxiWrite(beat_bytes))})


def axi_pins(bus) -> dict:
    """AXI name ("araddr", ...) -> signal of a bus of any of these signatures: no two have a name in
    common."""
    return {path[-1]: value for path, _member, value in bus.signature.flatten(bus)}


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
                "bresp": In(RESP_BITS),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(12),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(RESP_BITS),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )
