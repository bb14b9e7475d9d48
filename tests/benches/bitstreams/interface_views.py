"""The kernel's interface as three files tell it, each read by itself: kernel.xml, link.cfg, and the Verilog.

A view is a `View`; none of these readers knows a table of the generator.
"""

import configparser
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field


@dataclass
class View:
    """What a file says; a part that it does not name stays None.

    ports : port -> bits of its data
    arguments : name -> (offset, bytes)
    memory : pointer argument -> memory port
    banks : pointer argument -> pseudo-channel
    control : (address bits, data bits) of the control port
    """

    ports: dict[str, int] | None = None
    arguments: dict[str, tuple[int, int]] | None = None
    memory: dict[str, str] | None = None
    banks: dict[str, int] | None = None
    control: tuple[int, int] | None = None
    kernel: str | None = None
    protocol_ports: set[str] = field(default_factory=set)


def of_kernel_xml(text: str) -> View:
    (kernel,) = ElementTree.fromstring(text).findall("kernel")
    view = View(ports={}, arguments={}, memory={}, kernel=kernel.get("name"))
    for port in kernel.findall("ports/port"):
        name, bits = port.get("name"), int(port.get("dataWidth"))
        if port.get("mode") == "master":
            assert int(port.get("range"), 16) == (1 << 64) - 1, "a memory port addresses all of 64 bits"
            view.ports[name] = bits
        else:
            view.control = (int(port.get("range"), 16).bit_length() - 1, bits)
            slave = name
    for i, arg in enumerate(kernel.findall("args/arg")):
        assert int(arg.get("id")) == i, "ids count from 0"
        assert arg.get("hostSize") == arg.get("size")
        view.arguments[arg.get("name")] = int(arg.get("offset"), 16), int(arg.get("size"), 16)
        if arg.get("addressQualifier") == "1":
            view.memory[arg.get("name")] = arg.get("port")
        else:
            assert arg.get("addressQualifier") == "0" and arg.get("port") == slave
    return view


def of_link_cfg(text: str) -> View:
    pairs = [line.partition("=")[::2] for line in text.splitlines() if "=" in line]
    (nk,) = (value for key, value in pairs if key == "nk")
    kernel, count, instance = nk.split(":")
    assert count == "1"
    assert all(value.split(":")[0] == instance for key, value in pairs if key == "slr")
    view = View(banks={}, kernel=kernel)
    for key, value in pairs:
        if key == "sp":
            found = re.fullmatch(rf"{instance}\.(\w+):HBM\[(\d+)\]", value)
            assert found, value
            assert found[1] not in view.banks, f"two sp lines for {found[1]}"
            view.banks[found[1]] = int(found[2])
    return view


def settings_of(text: str) -> dict[str, str]:
    """Everything of link.cfg before its first section."""
    parser = configparser.ConfigParser(strict=False)
    parser.read_string("[all]\n" + text)
    return dict(parser["all"])


_PORT = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);$", re.M)
_INSTANCE = re.compile(r"^  (?:\\(\S+) |(\w+)) +(?:\\(\S+) |(\w+)) \(\n(.*?)^  \);$", re.M | re.S)
_CONNECTION = re.compile(r"\.(?:\\(\S+) |(\w+))\((.*?)\)(?=,?\n)")


def _modules(text: str) -> dict[str, str]:
    parts = re.split(r"^module (?:\\(\S+) |(\w+))", text, flags=re.M)[1:]
    return {escaped or plain: body for escaped, plain, body in zip(*[iter(parts)] * 3, strict=True)}


def _instances(body: str) -> dict[str, dict[str, str]]:
    """Instance -> its port -> the net that is connected."""
    found = {}
    for _, _, escaped, plain, connections in _INSTANCE.findall(body):
        found[escaped or plain] = {e or p: net.strip() for e, p, net in _CONNECTION.findall(connections)}
    return found


def _width(body: str, signal: str) -> int:
    for _, high, name in _PORT.findall(body):
        if name == signal:
            return int(high or 0) + 1
    raise AssertionError(f"no port {signal}")


def of_verilog(text: str, top: str = "symlight") -> View:
    """Ports out of the top module's declarations; arguments out of the control registers' decoder; which
    pointer a channel takes, and which port it drives, out of the connections of its instance."""
    modules = _modules(text)
    names = {name: direction for direction, _, name in _PORT.findall(modules[top])}
    ports = {
        name.removesuffix("_rdata"): _width(modules[top], name) for name in names if name.endswith("_rdata")
    }
    slave = next(name for name in ports if f"{name}_arlen" not in names)
    control = _width(modules[top], f"{slave}_awaddr"), ports.pop(slave)
    for port, bits in ports.items():
        assert (
            _width(modules[top], f"{port}_wdata") == bits
            and _width(modules[top], f"{port}_wstrb") == bits // 8
        )
        assert _width(modules[top], f"{port}_araddr") == _width(modules[top], f"{port}_awaddr") == 64
    view = View(ports=ports, control=control, kernel=top)
    view.protocol_ports = {name for name in names if not name.startswith((slave, *ports))}
    fields = _decoder(modules[f"{top}.kernel.control"])
    view.arguments = {name: place[:2] for name, place in fields.items()}
    view.memory = _pointers(modules, top, {place[2]: name for name, place in fields.items()})
    return view


def _decoder(body: str) -> dict[str, tuple[int, int, tuple[int, int]]]:
    """Argument -> offset, bytes, bits within the register of all arguments."""
    words = {}  # lowest bit -> byte offset
    for case, block in re.findall(r"^        10'h([0-9a-f]+):\n(.*?)^          end$", body, re.M | re.S):
        bits = re.findall(r"written\[(\d+):(\d+)\] <=", block)
        if bits:
            words[min(int(low) for _, low in bits)] = 4 * int(case, 16)
    found = {}
    for name, high, low in re.findall(r"assign \\written\.(\w+)  = written\[(\d+):(\d+)\];", body):
        high, low = int(high), int(low)
        offsets = [words[low + 32 * k] for k in range((high + 1 - low) // 32)]
        assert offsets == list(range(offsets[0], offsets[0] + 4 * len(offsets), 4)), name
        found[name] = offsets[0], 4 * len(offsets), (high, low)
    return found


def _pointers(modules: dict[str, str], top: str, by_bits: dict[tuple[int, int], str]) -> dict[str, str]:
    outside = {}  # port of the kernel module -> memory port
    for port, net in _instances(modules[top])["kernel"].items():
        if found := re.fullmatch(r"(m_axi_\w+)_arready", net):
            outside[port] = found[1]
    body = modules[f"{top}.kernel"]
    found = {}
    for name, connections in _instances(body).items():
        inside = modules.get(f"{top}.kernel.{name}", "")
        channel = next((ports for ports in _instances(inside).values() if "io_pointer" in ports), None)
        if channel is None:
            continue
        port = outside[_reference(body, connections["bus__read__arready"])[0]]
        for pointer in ("pointer", "io_pointer"):
            net, high, low = _reference(inside, channel[pointer])
            register, top_bit, bottom = _reference(body, connections[net])
            assert register == "args", f"{name}.{pointer} comes from {register}"
            assert low is not None or top_bit - bottom == 63
            bits = (bottom + (63 if high is None else high), bottom + (low or 0))
            # every channel gets the io pointer; the host allocates its buffer for the first
            found.setdefault(by_bits.get(bits, f"args[{bits[0]}:{bits[1]}]"), port)
    return found


def _reference(body: str, net: str) -> tuple[str, int | None, int | None]:
    """Signal and bits of "signal", "signal[high:low]", or of what such a name is assigned from in `body`."""
    found = re.fullmatch(r"\\?([^\s\[]+) ?(?:\[(\d+):(\d+)\])?", net)
    assert found, net
    name, high, low = found.groups()
    if high is None:
        alias = re.search(rf"^  assign \\?{re.escape(name)}  ?= ([^;\s]+ ?\[\d+:\d+\]);$", body, re.M)
        if alias:
            return _reference(body, alias[1])
        return name, None, None
    return name, int(high), int(low)


def differences(xml: View, link: View, rtl: View) -> list[str]:
    """Every way in which the three disagree, or break what the linker and XRT want."""
    found = []

    def compare(what, a, b):
        if a != b:
            found.append(f"{what}: {a} is not {b}")

    compare("kernel of kernel.xml and link.cfg", xml.kernel, link.kernel)
    compare("kernel of kernel.xml and Verilog", xml.kernel, rtl.kernel)
    compare("control port", xml.control, rtl.control)
    compare("clock, reset and interrupt", rtl.protocol_ports, {"ap_clk", "ap_rst_n", "interrupt"})
    for what, a, b in (
        ("ports", xml.ports, rtl.ports),
        ("arguments", xml.arguments, rtl.arguments),
        ("memory", xml.memory, rtl.memory),
    ):
        for name in sorted(a.keys() | b.keys()):
            compare(f"{what} {name}", a.get(name), b.get(name))
    for name in sorted(xml.memory.keys() | link.banks.keys()):
        if (name in xml.memory) != (name in link.banks):
            found.append(f"sp of {name}: only one of kernel.xml and link.cfg has it")
    by_port, by_bank = {}, {}
    for name in xml.memory.keys() & link.banks.keys():
        by_port.setdefault(xml.memory[name], set()).add(link.banks[name])
        by_bank.setdefault(link.banks[name], set()).add(xml.memory[name])
    found += [f"port {port} reaches {sorted(banks)}" for port, banks in by_port.items() if len(banks) != 1]
    found += [
        f"HBM[{bank}] is shared by {sorted(ports)}" for bank, ports in by_bank.items() if len(ports) != 1
    ]
    found += [f"HBM[{bank}] does not exist" for bank in by_bank if bank >= 32]
    found += [f"port {port} has no pointer" for port in xml.ports if port not in xml.memory.values()]
    end = 0x10
    for name, (offset, size) in sorted(xml.arguments.items(), key=lambda item: item[1]):
        if offset < end or offset % 4:
            found.append(f"argument {name} at {offset:#x} overlaps or is not aligned")
        if size != (8 if name in xml.memory else 4):
            found.append(f"argument {name} has {size} bytes")
        end = offset + size
    if end > 1 << xml.control[0]:
        found.append("the arguments do not fit the control port's range")
    return found
