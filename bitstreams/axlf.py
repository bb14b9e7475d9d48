"""Xilinx's container of an FPGA image (.xclbin, "axlf"), read and written in plain Python.

    offset  bytes                                       offset  bytes
    0       8   magic "xclbin2\\0"                       332     2   mode, then 2 of actions
    8       4   length of the signature, -1: none       336     16  UUID of the shell's interface
    12      284 reserved, key block                     352     64  platform, zero-terminated
    296     8   unique id                               416     16  UUID of this link
    304     8   length of the file                      432     16  name of a debug file
    312     8   time of the link, s since 1970          448     4   number of sections, then 4 of padding
    320     8   time stamp of the shell                 456     40  a section: kind (4), name (16), 4 unused,
    328     4   version: patch (2), major, minor                    offset (8), size (8); then the next

Everything is little endian. The UUID is new for every link and no hash of the contents, so identity needs
the file's SHA-256, too.
"""

import hashlib
import struct
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from symlight.base.errors import UserError
from symlight.base.files import read_bounded

MAGIC = b"xclbin2\0"
MOST_BYTES = 1 << 30  # of a file: several times the largest device
_START = struct.Struct("<8si28s256sQ")
_HEADER = struct.Struct("<QQQHBBHH16s64s16s16sI4x")
_SECTION = struct.Struct("<I16s4xQQ")
_SECTIONS_AT = _START.size + _HEADER.size
MAX_SECTIONS = 0x10000
MODES = ("flat", "hw_pr", "tandem", "tandem_pr", "hw_emu", "sw_emu", "hw_emu_pr")

# Kinds by number, as far as the tools of Alveo cards write them.
KINDS = {
    0: "BITSTREAM",
    1: "CLEARING_BITSTREAM",
    2: "EMBEDDED_METADATA",
    3: "FIRMWARE",
    4: "DEBUG_DATA",
    5: "SCHED_FIRMWARE",
    6: "MEM_TOPOLOGY",
    7: "CONNECTIVITY",
    8: "IP_LAYOUT",
    9: "DEBUG_IP_LAYOUT",
    10: "DESIGN_CHECK_POINT",
    11: "CLOCK_FREQ_TOPOLOGY",
    12: "MCS",
    13: "BMC",
    14: "BUILD_METADATA",
    15: "KEYVALUE_METADATA",
    16: "USER_METADATA",
    17: "DNA_CERTIFICATE",
    18: "PDI",
    19: "BITSTREAM_PARTIAL_PDI",
    20: "PARTITION_METADATA",
    21: "EMULATION_DATA",
    22: "SYSTEM_METADATA",
    23: "SOFT_KERNEL",
    24: "ASK_FLASH",
    25: "AIE_METADATA",
    26: "ASK_GROUP_TOPOLOGY",
    27: "ASK_GROUP_CONNECTIVITY",
}


@dataclass(frozen=True)
class Section:
    """One section: `kind` by number (KINDS), `name` as the linker gave it, `data`."""

    kind: int
    name: str
    data: bytes

    @property
    def title(self) -> str:
        return KINDS.get(self.kind, f"kind {self.kind}")


@dataclass(frozen=True, kw_only=True)
class Xclbin:
    """Header and sections of an xclbin.

    Members
    -------
    uuid, interface_uuid : str
        As XRT prints them: of this link, and of the shell it was linked for.
    platform : str
    mode : str
        One of MODES; "hw_pr" on a card.
    version : (major, minor, patch)
    time_stamp : int
        Seconds since 1970 at which it was linked.
    sections : list of Section
    size, sha256 : int, str
        Of the whole file; 0 and "" for one that is to be written.
    """

    uuid: str
    interface_uuid: str = "00000000-0000-0000-0000-000000000000"
    platform: str = ""
    mode: str = "hw_pr"
    version: tuple[int, int, int] = (2, 13, 479)
    time_stamp: int = 0
    sections: list[Section] = field(default_factory=list)
    size: int = 0
    sha256: str = ""

    def section(self, kind: str) -> bytes | None:
        """Data of the first section of a kind, by name; None when there is none."""
        return next((section.data for section in self.sections if section.title == kind), None)


def read_xclbin(path: Path) -> Xclbin:
    """Read an xclbin; everything that is wrong with it is one `UserError`."""
    try:
        raw = read_bounded(path, MOST_BYTES)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; give an .xclbin file") from error
    return decode(raw, str(path))


def decode(raw: bytes, name: str = "xclbin") -> Xclbin:
    """The xclbin in `raw`; `name` is what messages call it."""
    if not raw.startswith(MAGIC):
        raise UserError(f"{name} is not an xclbin: it begins with {raw[:8]!r}, not with {MAGIC!r}")
    if len(raw) < _SECTIONS_AT:
        raise UserError(
            f"{name} is cut off: {len(raw)} bytes do not hold the header of {_SECTIONS_AT}; copy it again"
        )
    _, signature, *_ = _START.unpack_from(raw)
    (length, time_stamp, _, patch, major, minor, mode, _, interface, platform, identity, _, count) = (
        _HEADER.unpack_from(raw, _START.size)
    )
    if len(raw) < length or (len(raw) > length and signature < 0):
        raise UserError(f"{name} has {len(raw)} bytes, its header says {length}; copy it again")
    if mode >= len(MODES):
        raise UserError(f"{name}: mode {mode} of the header is unknown; link it again")
    return Xclbin(
        uuid=str(uuid.UUID(bytes=identity)),
        interface_uuid=str(uuid.UUID(bytes=interface)),
        platform=_text(platform),
        mode=MODES[mode],
        version=(major, minor, patch),
        time_stamp=time_stamp,
        sections=_sections(raw, length, count, name),
        size=len(raw),
        sha256=hashlib.sha256(raw).hexdigest(),
    )


def _sections(raw: bytes, length: int, count: int, name: str) -> list[Section]:
    end = _SECTIONS_AT + count * _SECTION.size
    if count > MAX_SECTIONS or end > length:
        raise UserError(f"{name}: its {count} section headers do not fit the file; copy it again")
    found, places = [], []
    for i in range(count):
        kind, title, offset, size = _SECTION.unpack_from(raw, _SECTIONS_AT + i * _SECTION.size)
        section = Section(kind, _text(title), raw[offset : offset + size])
        if size and (offset < end or offset + size > length):
            raise UserError(
                f"{name}: section {i} ({section.title}) is said to be at bytes {offset} to {offset + size}, "
                f"outside the file's {end} to {length}; copy it again"
            )
        found.append(section)
        places.append((offset, size, i))
    used = sorted(place for place in places if place[1])
    for (offset, size, i), (following, _, k) in zip(used, used[1:], strict=False):
        if offset + size > following:
            raise UserError(f"{name}: sections {i} and {k} overlap; copy it again")
    return found


def _text(field_: bytes) -> str:
    return field_.split(b"\0")[0].decode("ascii", "replace")


def encode(image: Xclbin) -> bytes:
    """The bytes of an xclbin; sections follow each other at multiples of 8 bytes."""
    offset = _SECTIONS_AT + len(image.sections) * _SECTION.size
    headers, body = b"", b""
    for section in image.sections:
        headers += _SECTION.pack(section.kind, section.name.encode(), offset, len(section.data))
        padded = section.data + bytes(-len(section.data) % 8)
        body += padded
        offset += len(padded)
    major, minor, patch = image.version
    header = _HEADER.pack(
        offset,
        image.time_stamp,
        0,
        patch,
        major,
        minor,
        MODES.index(image.mode),
        0,
        uuid.UUID(image.interface_uuid).bytes,
        image.platform.encode(),
        uuid.UUID(image.uuid).bytes,
        b"",
        len(image.sections),
    )
    return _START.pack(MAGIC, -1, b"\xff" * 28, b"\xff" * 256, 0) + header + headers + body
