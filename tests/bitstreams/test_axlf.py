"""The reader of xclbin files: on files written here, on files of known bytes, and on damaged ones."""

import hashlib
import struct
import uuid as uuids

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.bitstreams import contents
from symlight.bitstreams.axlf import KINDS, MODES, Section, Xclbin, decode, encode, read_xclbin
from symlight.host.commands.inspect import describe_xclbin
from symlight.hw.compiler.manifest import kernel_manifest
from symlight.hw.config import CARDS
from tests.benches.bitstreams.linked import (
    SHELL,
    UUID,
    clock_topology,
    ip_layout,
    key_values,
    linked,
    memory_topology,
)

MANIFEST = kernel_manifest(CARDS["sim4"], 0x1234, {}, card="sim4", build="runtime")
READERS = (
    contents.memories,
    contents.compute_units,
    contents.connections,
    contents.clocks,
    contents.key_values,
    lambda image: contents.kernel_arguments(image, "symlight"),
)
ascii_text = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=15)
images = st.builds(
    Xclbin,
    uuid=st.uuids().map(str),
    interface_uuid=st.uuids().map(str),
    platform=ascii_text,
    mode=st.sampled_from(MODES),
    version=st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 65535)),
    time_stamp=st.integers(0, 2**64 - 1),
    sections=st.lists(
        st.builds(Section, st.integers(0, 2**32 - 1), ascii_text, st.binary(max_size=40)), max_size=6
    ),
)


@given(images)
def test_what_is_written_is_read(image):
    raw = encode(image)
    found = decode(raw)
    assert (found.size, found.sha256) == (len(raw), hashlib.sha256(raw).hexdigest())
    assert encode(found) == raw and found.sections == image.sections and found.uuid == image.uuid
    assert (found.version, found.time_stamp, found.mode, found.platform) == (
        image.version,
        image.time_stamp,
        image.mode,
        image.platform,
    )


def test_fields_lie_where_the_vendor_puts_them():
    raw = encode(
        Xclbin(
            uuid=UUID,
            interface_uuid=SHELL,
            platform="shell",
            time_stamp=77,
            sections=[Section(6, "bank", b"12345"), Section(8, "", b"x")],
        )
    )
    assert len(raw) == 456 + 2 * 40 + 8 + 8  # 496 with one section header, as the vendor's header asserts
    assert raw[:8] == b"xclbin2\0" and struct.unpack_from("<i", raw, 8) == (-1,)
    assert struct.unpack_from("<QQ", raw, 304) == (len(raw), 77)
    assert (
        raw[336:352] == uuids.UUID(SHELL).bytes
        and raw[352:357] == b"shell"
        and raw[416:432] == uuids.UUID(UUID).bytes
    )
    assert struct.unpack_from("<I", raw, 448) == (2,)
    assert struct.unpack_from("<I16s4xQQ", raw, 456) == (6, b"bank".ljust(16, b"\0"), 536, 5)
    assert struct.unpack_from("<I16s4xQQ", raw, 496) == (8, bytes(16), 544, 1) and raw[536:541] == b"12345"


def test_a_linked_kernel():
    image = decode(encode(linked(MANIFEST)))
    assert contents.compute_units(image) == [
        {"name": "symlight:symlight_1", "base": 0x1800000, "control": "ap_ctrl_hs"}
    ]
    banks = contents.memories(image)
    assert (
        banks[3] == {"tag": "HBM[3]", "base": 3 << 28, "bytes": 1 << 28, "used": True}
        and not banks[4]["used"]
    )
    assert [clock["mhz"] for clock in contents.clocks(image)] == [168, 500, 400]
    assert contents.key_values(image) == {"build_id": f"{0x1234:032x}"}
    assert contents.connections(image)[2] == {"argument": 15, "ip": 0, "memory": 2}
    arguments = contents.kernel_arguments(image, "symlight")
    assert (
        arguments[12] == {"name": "io", "offset": 0x70, "bytes": 8, "port": "m_axi_hbm00"}
        and len(arguments) == 17
    )
    assert contents.kernel_arguments(image, "other") is None
    assert image.section("DNA_CERTIFICATE") is None
    assert KINDS[image.sections[0].kind] == "BITSTREAM"


def test_sections_that_are_not_there():
    empty = Xclbin(uuid=UUID)
    assert [reader(empty) for reader in READERS] == [[], [], [], [], {}, None]


def _room(raw: bytes) -> int:
    """Bytes from the beginning of section 0 to that of section 1."""
    return struct.unpack_from("<Q", raw, 520)[0] - struct.unpack_from("<Q", raw, 480)[0]


def test_sections_may_touch():
    raw = encode(linked(MANIFEST))
    touching = raw[:488] + struct.pack("<Q", _room(raw)) + raw[496:]
    assert len(decode(touching).sections[0].data) == _room(raw)


DAMAGE = {
    "empty": (lambda raw: b"", "begins with b'', not with"),
    "another file": (lambda raw: b"PK\3\4" + raw, "is not an xclbin"),
    "an old container": (lambda raw: b"xclbin0\0" + raw[8:], "begins with b'xclbin0"),
    "only a beginning": (lambda raw: raw[:300], "300 bytes do not hold the header"),
    "cut": (lambda raw: raw[:-1], "its header says"),
    "something behind": (lambda raw: raw + b"\0", "its header says"),
    "mode": (lambda raw: raw[:332] + b"\x63\0" + raw[334:], "mode 99"),
    "number of sections": (
        lambda raw: raw[:448] + b"\xff\xff\0\0" + raw[452:],
        "65535 section headers do not fit",
    ),
    "far too many sections": (lambda raw: raw[:448] + b"\xff" * 4 + raw[452:], "do not fit"),
    "offset behind the end": (
        lambda raw: raw[:480] + struct.pack("<Q", len(raw)) + raw[488:],
        r"section 0 .BITSTREAM. is said",
    ),
    "offset in the header": (lambda raw: raw[:480] + struct.pack("<Q", 8) + raw[488:], "outside the file's"),
    "offset near 2^64": (lambda raw: raw[:480] + b"\xff" * 8 + raw[488:], "outside the file's"),
    "size": (lambda raw: raw[:488] + struct.pack("<Q", 1 << 40) + raw[496:], "outside the file's"),
    "overlap by a byte": (
        lambda raw: raw[:488] + struct.pack("<Q", _room(raw) + 1) + raw[496:],
        "0 and 1 overlap",
    ),
    "overlap": (lambda raw: raw[:488] + struct.pack("<Q", 60) + raw[496:], "sections 0 and 1 overlap"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_one_sentence(tmp_path, case):
    damage, sentence = DAMAGE[case]
    file = tmp_path / "x.xclbin"
    file.write_bytes(damage(encode(linked(MANIFEST))))
    with pytest.raises(UserError, match=sentence) as caught:
        read_xclbin(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    for file in (tmp_path / "none.xclbin", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            read_xclbin(file)


@pytest.mark.parametrize(
    "kind, data, sentence",
    [
        ("MEM_TOPOLOGY", memory_topology(3, 3)[:-1], "3 entries"),
        ("MEM_TOPOLOGY", b"\1\0\0\0", "4 bytes"),
        ("MEM_TOPOLOGY", struct.pack("<i4x", -1), "-1 entries"),
        ("IP_LAYOUT", ip_layout([(1, 0, 0, "a")] * 2)[:150], "2 entries"),
        ("CLOCK_FREQ_TOPOLOGY", clock_topology([(1, 1, "a")])[:-1], "1 entries"),
        ("CONNECTIVITY", b"\2\0\0\0" + bytes(12), "2 entries"),
        ("KEYVALUE_METADATA", b"{", "JSON"),
        ("KEYVALUE_METADATA", b'{"keyvalue_metadata": {"key_values": [5]}}', "TypeError"),
        ("KEYVALUE_METADATA", b"\xff\xfe{}", "Decode"),
        ("KEYVALUE_METADATA", key_values({})[5:], "JSON"),
        ("EMBEDDED_METADATA", b"<project>", "no element found"),
        (
            "EMBEDDED_METADATA",
            b'<project><kernel name="symlight"><arg name="x" offset="y" size="4"/></kernel></project>',
            "invalid literal",
        ),
    ],
)
def test_a_damaged_section_is_one_sentence(kind, data, sentence):
    image = linked(MANIFEST, **{kind: data})
    with pytest.raises(UserError, match=f"section {kind} of the xclbin is damaged .*{sentence}"):
        for reader in READERS:
            reader(image)


@pytest.mark.parametrize("seconds", [0, 1 << 40, (1 << 64) - 1])
def test_any_time_can_be_shown(tmp_path, seconds):
    file = tmp_path / "x.xclbin"
    file.write_bytes(encode(Xclbin(uuid=UUID, time_stamp=seconds)))
    assert describe_xclbin(file)["linked"] == (
        "1970-01-01 00:00:00 UTC" if seconds == 0 else f"{seconds} s after 1970"
    )


RAW = encode(linked(MANIFEST))
edits = st.lists(
    st.tuples(st.integers(0, len(RAW) - 1), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4
)
# Headers decide more than contents.
header_edits = st.lists(
    st.tuples(st.integers(300, 456 + 7 * 40), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4
)


@settings(max_examples=400, deadline=None)
@given(edits | header_edits, st.integers(0, len(RAW)) | st.just(len(RAW)))
def test_no_damage_is_a_traceback(tmp_path_factory, edits, end):
    raw = bytearray(RAW)
    for place, data in edits:
        raw[place : place + len(data)] = data
    file = tmp_path_factory.getbasetemp() / "damaged.xclbin"
    file.write_bytes(raw[:end])
    try:
        describe_xclbin(file)
    except UserError as error:
        assert "\n" not in str(error)
    for reader in READERS:
        try:
            reader(decode(bytes(raw[:end])))
        except UserError:
            pass


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=700))
def test_nor_is_any_other_file(raw):
    with pytest.raises(UserError):
        decode(raw)
    with pytest.raises(UserError):
        decode(b"xclbin2\0" + raw)
