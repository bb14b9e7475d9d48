"""What the sections of an xclbin say: kernels, arguments, addresses, memories, clocks, key-value pairs.

Every function takes an `axlf.Xclbin`, answers with an empty list or dictionary when the section is absent,
and with a `UserError` when it is damaged.
"""

import json
import struct
import xml.etree.ElementTree as ElementTree

from symlight.base.errors import UserError

from .axlf import Xclbin

_MEMORY = struct.Struct("<BB6xQQ16s")  # type, used, size in KB, base address, tag
_IP = struct.Struct("<IIQ64s")  # type, properties, base address, name
_CLOCK = struct.Struct("<HB5x128s")  # MHz, type, name
_CONNECTION = struct.Struct("<iii")  # argument, entry of IP_LAYOUT, entry of MEM_TOPOLOGY
_KERNEL_IP = 1
_CONTROLS = ("ap_ctrl_hs", "ap_ctrl_chain", "ap_ctrl_none", "me", "accel", "fast")
_CLOCK_TYPES = ("unused", "data", "kernel", "system")


def _damaged(kind: str, why: str) -> UserError:
    return UserError(f"section {kind} of the xclbin is damaged ({why}); link it again")


def _text(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode("ascii", "replace")


def _entries(image: Xclbin, kind: str, count_format: str, first: int, entry: struct.Struct) -> list[tuple]:
    """The structs of a section that begins with their number; the first is at byte `first`."""
    raw = image.section(kind)
    if raw is None:
        return []
    if len(raw) < first:
        raise _damaged(kind, f"{len(raw)} bytes")
    (count,) = struct.unpack_from(count_format, raw)
    if count < 0 or first + count * entry.size > len(raw):
        raise _damaged(kind, f"{count} entries in {len(raw)} bytes")
    return [entry.unpack_from(raw, first + i * entry.size) for i in range(count)]


def memories(image: Xclbin) -> list[dict]:
    """Memory banks: tag, base, size in bytes, used. Their place in the list is pyxrt's group."""
    return [
        {"tag": _text(tag), "base": base, "bytes": size << 10, "used": bool(used)}
        for _, used, size, base, tag in _entries(image, "MEM_TOPOLOGY", "<i", 8, _MEMORY)
    ]


def compute_units(image: Xclbin) -> list[dict]:
    """Instances of kernels: name "kernel:instance", base address, control protocol."""
    found = []
    for kind, properties, base, name in _entries(image, "IP_LAYOUT", "<i", 8, _IP):
        control = properties >> 8 & 0xFF
        if kind == _KERNEL_IP:
            protocol = _CONTROLS[control] if control < len(_CONTROLS) else f"control {control}"
            found.append({"name": _text(name), "base": base, "control": protocol})
    return found


def connections(image: Xclbin) -> list[dict]:
    """Which argument of which IP_LAYOUT entry lives in which memory, by index."""
    entries = _entries(image, "CONNECTIVITY", "<i", 4, _CONNECTION)
    return [{"argument": argument, "ip": ip, "memory": memory} for argument, ip, memory in entries]


def clocks(image: Xclbin) -> list[dict]:
    """Clocks: name, type, MHz that the linker settled on."""
    return [
        {
            "name": _text(name),
            "type": _CLOCK_TYPES[kind] if kind < len(_CLOCK_TYPES) else f"type {kind}",
            "mhz": mhz,
        }
        for mhz, kind, name in _entries(image, "CLOCK_FREQ_TOPOLOGY", "<h", 2, _CLOCK)
    ]


def key_values(image: Xclbin) -> dict[str, str]:
    """Pairs that `xclbinutil --key-value USER:key:value` has added."""
    raw = image.section("KEYVALUE_METADATA")
    if raw is None:
        return {}
    try:
        pairs = json.loads(raw.rstrip(b"\0"))["keyvalue_metadata"]["key_values"]
        return {str(pair["key"]): str(pair["value"]) for pair in pairs}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged("KEYVALUE_METADATA", type(error).__name__) from error


def kernel_arguments(image: Xclbin, kernel: str) -> list[dict] | None:
    """Arguments of a kernel as the linker recorded them: name, offset, bytes, port. None: no such kernel."""
    raw = image.section("EMBEDDED_METADATA")
    if raw is None:
        return None
    try:
        root = ElementTree.fromstring(raw.rstrip(b"\0"))
        found = next((node for node in root.iter("kernel") if node.get("name") == kernel), None)
        if found is None:
            return None
        return [
            {
                "name": arg.get("name", ""),
                "offset": int(arg.get("offset", ""), 0),
                "bytes": int(arg.get("size", ""), 0),
                "port": arg.get("port", ""),
            }
            for arg in found.findall("arg")
        ]
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise _damaged("EMBEDDED_METADATA", str(error)) from error
