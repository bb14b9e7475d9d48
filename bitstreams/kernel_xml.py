"""kernel.xml: what Vitis and XRT know of the kernel's ports and arguments."""

import xml.etree.ElementTree as ElementTree

from symlight.hw.axi import AxiLite
from symlight.hw.compiler.manifest import CONTROL_PORT, CONTROL_PROTOCOL
from symlight.hw.config import Engine
from symlight.hw.interface import KERNEL_NAME, arguments

# Of the packaged IP: its component.xml must say the same, so package_kernel.tcl takes them from settings.tcl.
VENDOR, LIBRARY, VERSION = "symlight", "kernel", "1.0"
_SCALAR, _POINTER = "0", "1"  # addressQualifier


def kernel_xml(engine: Engine) -> str:
    """The file for a kernel of `engine`."""
    control = AxiLite().members
    root = ElementTree.Element("root", versionMajor="1", versionMinor="6")
    kernel = ElementTree.SubElement(
        root,
        "kernel",
        name=KERNEL_NAME,
        language="ip_c",
        vlnv=f"{VENDOR}:{LIBRARY}:{KERNEL_NAME}:{VERSION}",
        attributes="",
        preferredWorkGroupSizeMultiple="0",
        workGroupSize="1",
        interrupt="true",
        hwControlProtocol=CONTROL_PROTOCOL,
    )
    table = arguments(engine.channels)
    ports = ElementTree.SubElement(kernel, "ports")
    _port(ports, CONTROL_PORT, "slave", 1 << control["awaddr"].shape, control["wdata"].shape)
    for name in dict.fromkeys(a.port for a in table if a.port):
        _port(ports, name, "master", (1 << 64) - 1, 8 * engine.beat_bytes)
    args = ElementTree.SubElement(kernel, "args")
    for i, argument in enumerate(table):
        ElementTree.SubElement(
            args,
            "arg",
            name=argument.name,
            addressQualifier=_POINTER if argument.port else _SCALAR,
            id=str(i),
            port=argument.port or CONTROL_PORT,
            size=f"{argument.size:#x}",
            offset=f"{argument.offset:#x}",
            hostOffset="0x0",
            hostSize=f"{argument.size:#x}",
            type="void*" if argument.port else "int",
        )
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _port(parent: ElementTree.Element, name: str, mode: str, size: int, data_bits: int) -> None:
    ElementTree.SubElement(
        parent,
        "port",
        name=name,
        mode=mode,
        range=f"{size:#X}".replace("X", "x"),
        dataWidth=str(data_bits),
        portType="addressable",
        base="0x0",
    )
