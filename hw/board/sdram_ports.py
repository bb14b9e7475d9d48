"""What the SDRAM controller has at its ends: requests and the chip's pins."""

from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..axi import BURST_BITS
from .chip import SdramChip

ALL_BANKS = 1 << 10  # address bit 10 of PRECHARGE


class SdramCommand(enum.Enum, shape=3):
    """ras_n, cas_n, we_n of a selected chip, in this order from the top."""

    MODE = 0b000
    REFRESH = 0b001
    PRECHARGE = 0b010
    ACTIVATE = 0b011
    WRITE = 0b100
    READ = 0b101
    NOP = 0b111


def request_layout(chip: SdramChip, beat_bytes: int) -> data.StructLayout:
    """A burst of beats to read, or one beat to write."""
    words = 8 * beat_bytes // chip.data_bits
    return data.StructLayout(
        {
            "write": 1,
            "address": chip.address_bits - exact_log2(words),  # beat
            "beats": BURST_BITS,  # to read; of a write 1
            "data": 8 * beat_bytes,
        }
    )


def pins_signature(chip: SdramChip) -> wiring.Signature:
    """The chip's pins as the controller sees them, but for the clock; commands are low-active as on the
    chip."""
    return wiring.Signature(
        {
            "cke": Out(1),
            "command": Out(SdramCommand, init=SdramCommand.NOP),
            "ba": Out(chip.bank_bits),
            "a": Out(chip.row_bits),
            "dq_o": Out(chip.data_bits),
            "dq_oe": Out(1),
            "dq_i": In(chip.data_bits),
        }
    )
