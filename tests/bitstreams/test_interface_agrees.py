"""kernel.xml, link.cfg and Verilog of a package agree: each is read by itself, every difference is seen."""

import re

import pytest

from symlight.bitstreams.kernel_xml import kernel_xml
from symlight.bitstreams.link import link_cfg
from symlight.hw.compiler.generate import kernel_verilog
from symlight.hw.config import CARDS, build
from tests.benches.bitstreams.interface_views import (
    differences,
    of_kernel_xml,
    of_link_cfg,
    of_verilog,
    settings_of,
)

pytestmark = pytest.mark.timeout(120, func_only=True)


@pytest.fixture(scope="module")
def texts(package_folder) -> dict[str, str]:
    return {name: (package_folder / name).read_text() for name in ("kernel.xml", "link.cfg", "symlight.v")}


def check(texts: dict[str, str]) -> list[str]:
    return differences(
        of_kernel_xml(texts["kernel.xml"]), of_link_cfg(texts["link.cfg"]), of_verilog(texts["symlight.v"])
    )


def test_a_package_agrees_with_itself(texts):
    assert check(texts) == []
    view = of_verilog(texts["symlight.v"])
    assert sorted(view.ports) == ["m_axi_hbm00", "m_axi_hbm01", "m_axi_hbm02", "m_axi_hbm03"]
    assert (
        len(view.arguments) == 17 and view.memory["io"] == "m_axi_hbm00" and view.arguments["io"] == (0x70, 8)
    )


def swap(text: str, a: str, b: str) -> str:
    return text.replace(a, "\0").replace(b, a).replace("\0", b)


BROKEN = {
    "ports of two pointers swapped in kernel.xml": (
        "kernel.xml",
        lambda t: re.sub(
            r'(name="hbm0[12]".*?port="m_axi_hbm0)([12])', lambda m: m[1] + "21"[int(m[2]) - 1], t
        ),
        "memory hbm01: m_axi_hbm02 is not m_axi_hbm01",
    ),
    "width in kernel.xml": (
        "kernel.xml",
        lambda t: t.replace('dataWidth="256"', 'dataWidth="512"', 1),
        "ports m_axi_hbm00: 512 is not 256",
    ),
    "width of the control port": (
        "kernel.xml",
        lambda t: t.replace('range="0x1000"', 'range="0x10000"'),
        "control port: (16, 32) is not (12, 32)",
    ),
    "offset in kernel.xml": (
        "kernel.xml",
        lambda t: t.replace('offset="0x7c"', 'offset="0x78"'),
        "arguments hbm00: (120, 8) is not (124, 8)",
    ),
    "size of a pointer": (
        "kernel.xml",
        lambda t: re.sub(
            r'(name="hbm03".*?)size="0x8"(.*?)hostSize="0x8"', r'\1size="0x4"\2hostSize="0x4"', t
        ),
        "argument hbm03 has 4 bytes",
    ),
    "port missing in kernel.xml": (
        "kernel.xml",
        lambda t: re.sub(r' *<port name="m_axi_hbm03".*?/>\n', "", t),
        "ports m_axi_hbm03: None is not 256",
    ),
    "argument missing in kernel.xml": (
        "kernel.xml",
        lambda t: re.sub(r' *<arg name="hbm03".*?/>\n', "", t),
        "sp of hbm03: only one",
    ),
    "scalars swapped in kernel.xml": (
        "kernel.xml",
        lambda t: swap(t, '"flags"', '"watchdog"'),
        "arguments flags: (64, 4) is not (56, 4)",
    ),
    "name of the kernel": (
        "kernel.xml",
        lambda t: t.replace('kernel name="symlight"', 'kernel name="other"'),
        "kernel of kernel.xml",
    ),
    "sp line missing": (
        "link.cfg",
        lambda t: t.replace("sp=symlight_1.hbm02:HBM[2]\n", ""),
        "sp of hbm02: only one",
    ),
    "two ports on a channel": ("link.cfg", lambda t: t.replace("HBM[2]", "HBM[3]"), "HBM[3] is shared by"),
    "one port on two channels": (
        "link.cfg",
        lambda t: t.replace("io:HBM[0]", "io:HBM[5]"),
        "port m_axi_hbm00 reaches [0, 5]",
    ),
    "channel that is not there": (
        "link.cfg",
        lambda t: t.replace("HBM[3]", "HBM[32]"),
        "HBM[32] does not exist",
    ),
    "width in the Verilog": (
        "symlight.v",
        lambda t: re.sub(
            r"\[(255|31):0\] m_axi_hbm01_([rw]data|wstrb)",
            lambda m: f"[{(int(m[1]) + 1) // 2 - 1}:0] m_axi_hbm01_{m[2]}",
            t,
        ),
        "ports m_axi_hbm01: 256 is not 128",
    ),
    "offset in the Verilog": (
        "symlight.v",
        lambda t: swap(t, "10'h004:\n", "10'h006:\n"),
        "arguments command: (16, 4) is not (24, 4)",
    ),
    "pointers of two channels swapped in the Verilog": (
        "symlight.v",
        lambda t: swap(t, ".pointer(args[575:512])", ".pointer(args[639:576])"),
        "memory hbm01: m_axi_hbm01 is not m_axi_hbm02",
    ),
    "ports of two channels swapped in the Verilog": (
        "symlight.v",
        lambda t: swap(t, "(m_axi_hbm01_arready)", "(m_axi_hbm02_arready)"),
        "memory hbm01: m_axi_hbm01 is not m_axi_hbm02",
    ),
    "a port of no interface": (
        "symlight.v",
        lambda t: t.replace("  input ap_clk;", "  input ap_clk;\n  input extra;", 1),
        "extra",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_difference_is_seen(texts, case):
    file, damage, sentence = BROKEN[case]
    damaged = damage(texts[file])
    assert damaged != texts[file], "the damage changed nothing"
    found = check(texts | {file: damaged})
    assert any(sentence in one for one in found), found


@pytest.mark.parametrize("card", CARDS)
def test_every_card_preset_links(card):
    """Without the Verilog: the two files that are cheap."""
    engine = build(CARDS[card], "partial-kv")
    xml, link = of_kernel_xml(kernel_xml(engine)), of_link_cfg(link_cfg(engine))
    assert len(xml.ports) == engine.channels and set(xml.ports.values()) == {8 * engine.beat_bytes}
    assert xml.memory.keys() == link.banks.keys() and len(set(link.banks.values())) == engine.channels
    # docs/hbm-map.md: channel k has pseudo-channel k, and the io buffer is in the first
    expected = {f"hbm{k:02d}": k for k in range(engine.channels)} | {"io": 0}
    assert link.banks == expected
    assert xml.memory == {name: f"m_axi_hbm{bank:02d}" for name, bank in expected.items()}
    assert max(offset + size for offset, size in xml.arguments.values()) <= 1 << xml.control[0]
    settings = settings_of(link_cfg(engine))
    assert settings["platform"] == "xilinx_u50_gen3x16_xdma_5_202210_1"
    assert settings["kernel_frequency"] == str(engine.clock_mhz)


@pytest.mark.slow
@pytest.mark.timeout(900, func_only=True)
@pytest.mark.parametrize("name", ["partial-kv", "resident-kv"])
def test_the_full_size_agrees(name):
    engine = build(CARDS["u50c"], name)
    texts = {
        "kernel.xml": kernel_xml(engine),
        "link.cfg": link_cfg(engine),
        "symlight.v": kernel_verilog(engine),
    }
    assert check(texts) == [] and len(of_verilog(texts["symlight.v"]).ports) == 32
