"""An xclbin as the linker would make it for a packaged kernel, as far as its sections are read.

The sections follow the vendor's structures and are written by hand, not by the code that reads them.
"""

import json
import struct

from symlight.bitstreams.axlf import Section, Xclbin

UUID = "fb8b8ac4-6ee3-4e34-9f23-2a7ba57ec1b8"
SHELL = "16e2362f-82d2-feab-3552-9da27134b76d"


def name(text: str, size: int) -> bytes:
    return text.encode().ljust(size, b"\0")


def memory_topology(banks: int, used: int) -> bytes:
    entries = b"".join(
        struct.pack("<BB6xQQ", 6, k < used, (256 << 20) >> 10, k * (256 << 20)) + name(f"HBM[{k}]", 16)
        for k in range(banks)
    )
    return struct.pack("<i4x", banks) + entries


def ip_layout(units: list[tuple[int, int, int, str]]) -> bytes:
    """Units: type (1: kernel), properties, base, name."""
    return struct.pack("<i4x", len(units)) + b"".join(
        struct.pack("<IIQ", *unit[:3]) + name(unit[3], 64) for unit in units
    )


def clock_topology(clocks: list[tuple[int, int, str]]) -> bytes:
    """Clocks: MHz, type (1: data, 2: kernel), name."""
    return struct.pack("<h", len(clocks)) + b"".join(
        struct.pack("<HB5x", *clock[:2]) + name(clock[2], 128) for clock in clocks
    )


def embedded_metadata(arguments: list[tuple[str, int, int, str]], kernel: str = "symlight") -> bytes:
    """Arguments: name, offset, bytes, port."""
    args = "".join(
        f'<arg name="{n}" addressQualifier="{int(size == 8)}" id="{i}" port="{port}" size="{size:#x}" '
        f'offset="{offset:#x}" hostOffset="0x0" hostSize="{size:#x}" type="int"/>'
        for i, (n, offset, size, port) in enumerate(arguments)
    )
    core = f'<core><kernel name="{kernel}">{args}</kernel></core>'
    text = f'<project name="p"><platform><device>{core}</device></platform></project>'
    return text.encode() + b"\0"


def key_values(pairs: dict[str, str]) -> bytes:
    content = {
        "keyvalue_metadata": {"key_values": [{"key": key, "value": value} for key, value in pairs.items()]}
    }
    return json.dumps(content, indent=4).encode()


def linked(manifest: dict, **replaced: bytes | None) -> Xclbin:
    """An xclbin of the package of `manifest`; `replaced` exchanges sections by kind (None: not there)."""
    channels = manifest["engine"]["channels"]
    registers = [r for r in manifest["interface"]["control"]["registers"] if r["offset"] >= 0x10]
    ports = {n: memory["port"] for memory in manifest["interface"]["memory"] for n in memory["arguments"]}
    arguments = [
        (r["name"], r["offset"], r["bytes"], ports.get(r["name"], "s_axi_control")) for r in registers
    ]
    sections = {
        "BITSTREAM": (0, b"configuration of the device"),
        "EMBEDDED_METADATA": (2, embedded_metadata(arguments)),
        "MEM_TOPOLOGY": (6, memory_topology(32, channels)),
        "CONNECTIVITY": (
            7,
            struct.pack("<i", channels)
            + b"".join(struct.pack("<iii", len(arguments) - channels + k, 0, k) for k in range(channels)),
        ),
        "IP_LAYOUT": (
            8,
            ip_layout([(1, 0x0001, 0x1800000, "symlight:symlight_1"), (5, 0, 0x330000, "hmss_0")]),
        ),
        "CLOCK_FREQ_TOPOLOGY": (
            11,
            clock_topology([(168, 1, "DATA_CLK"), (500, 2, "KERNEL_CLK"), (400, 3, "hbm_aclk")]),
        ),
        "KEYVALUE_METADATA": (15, key_values({"build_id": manifest["build_id"]})),
    }
    return Xclbin(
        uuid=UUID,
        interface_uuid=SHELL,
        platform="xilinx_u50_gen3x16_xdma_base_5",
        time_stamp=1_700_000_000,
        sections=[
            Section(number, "", replaced.get(kind, data))
            for kind, (number, data) in sections.items()
            if replaced.get(kind, data) is not None
        ],
    )
