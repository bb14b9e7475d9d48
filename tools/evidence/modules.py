"""Generated Verilog as text: its modules, what they instantiate, and the units that are synthesised one by
one."""

import hashlib
import re
from dataclasses import dataclass, field

BLACK_BOX = "(* blackbox *)\n"
UNIT_BYTES = 16_000  # a module with more text than this, submodules included, is synthesised by itself

_START = re.compile(r"^(?=(?:\(\*.*?\*\)\n)?module )", re.M)
_NAME = re.compile(r"module (?:\\(\S+) |(\w+))")
_INSTANCE = re.compile(r"^  (?:\\(\S+) |(\w+)) (?:\\\S+ |\w+) \($", re.M)
_PORT = re.compile(r"^  (?:input|output) .*;$", re.M)
_HEADER = re.compile(r"^module .*?\);$", re.M | re.S)
_NUMBER = re.compile(r"_n\d+")
_ESCAPED = re.compile(r"\\\S*\$\S* ")


def split(text: str) -> dict[str, str]:
    """Module name -> its text. The converter's $ in names, which yosys takes for names of its own, become
    _n."""
    found = {}
    text = _ESCAPED.sub(lambda name: name[0].replace("$", "_n"), text)
    for part in _START.split(text):
        name = _NAME.search(part)
        if name:
            found[name[1] or name[2]] = part
    return found


def children(text: str, known) -> list[str]:
    """Modules of `known` that a module instantiates, one entry an instance."""
    names = (escaped or plain for escaped, plain in _INSTANCE.findall(text))
    return [name for name in names if name in known]


@dataclass
class Unit:
    """A module that is synthesised flat, except for the units in it, which are black boxes."""

    name: str
    text: str  # Verilog of the module, of what is flattened into it, and of the black boxes' ports
    units: dict = field(default_factory=dict)  # units in it -> instances

    @property
    def key(self) -> str:
        """Hash of the text, free of its name and of the numbers that the converter counts over the whole
        design.

        Numbers in names of ports and of black boxes stay: netlists are put together by these names.
        """
        text = (
            self.text if self.units else self.text.replace(self.name, "unit")
        )  # equal parts are synthesised once
        own, *boxes = text.split(BLACK_BOX)
        fixed = "".join([_header(own), *_PORT.findall(_START.split(own)[1]), *boxes])
        order = {number: number for number in _NUMBER.findall(fixed)}
        text = _NUMBER.sub(lambda found: order.setdefault(found[0], f"_m{len(order)}"), text)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _header(text: str) -> str:
    """A module's first statement: its name and the names of its ports."""
    found = _HEADER.search(text)
    if found is None:
        raise ValueError(f"no module begins in {text[:80]!r}")
    return found[0]


def black_box(text: str) -> str:
    """The ports of a module alone."""
    return f"{BLACK_BOX}{_header(text)}\n" + "\n".join(_PORT.findall(text)) + "\nendmodule\n"


def units(text: str, top: str) -> list[Unit]:
    """Units of the design below `top`, parents after the units in them."""
    known = split(text)
    sizes: dict[str, int] = {}

    def size(name):  # text that is synthesised flat with the module
        if name not in sizes:
            inside = dict.fromkeys(children(known[name], known))
            sizes[name] = len(known[name]) + sum(size(child) for child in inside if size(child) <= UNIT_BYTES)
        return sizes[name]

    done: dict[str, Unit] = {}

    def visit(name):
        if name in done:
            return
        flat: dict[str, str] = {}
        boxes: dict[str, int] = {}

        def gather(module):
            flat[module] = known[module]
            for child in children(known[module], known):
                if size(child) > UNIT_BYTES:
                    visit(child)
                    boxes[child] = boxes.get(child, 0) + 1
                elif child not in flat:
                    gather(child)

        gather(name)
        done[name] = Unit(name, "".join([*flat.values(), *(black_box(known[box]) for box in boxes)]), boxes)

    visit(top)
    return list(done.values())
