"""Verilog of a kernel whose registers hold anything when the card is switched on.

The converter gives every register its reset value as an initial value, also those without a reset, and a
simulator then starts from a state that no fault and no second session ever sees again. Without the initial
values Verilator draws them (`--x-initial unique`, by the card's seed), as it does the contents of memories,
and a four-state simulator begins with X: what the reset does not set must not matter.

Memories of constants keep their contents: they are never written.
"""

import re

_CHECK = re.compile(rb"if \(!(.+) ?\)\n +(\$write\(.*\);)\n +assert \(\1 ?\);")
_MODULE = re.compile(rb"^(?=module )", re.M)
_INITIAL = re.compile(rb"^(  reg (?:\[[^]]*\] )?(\\\S+ |\w+)) = [^;]*;$", re.M)
_WRITTEN = re.compile(rb"^ +(\\\S+ |\w+)(?: ?\[[^]]*\])? ?<= ", re.M)


def checks_switchable(text: bytes) -> bytes:
    """Verilog `text` whose assertions say why they fail only where they are switched on: before its reset a
    design is in no state that they speak of. The converter writes the message beside the assertion."""
    return _CHECK.sub(rb"assert (\1) else begin \2 $stop; end", text)


def without_register_initials(text: bytes) -> bytes:
    """Verilog `text` without initial values of what a clocked process writes."""
    return b"".join(map(_module, _MODULE.split(text)))


def _module(text: bytes) -> bytes:
    written = {name.strip() for name in _WRITTEN.findall(text)}

    def bare(found: re.Match[bytes]) -> bytes:
        return found[1].rstrip() + b" ;" if found[2].strip() in written else found[0]

    return _INITIAL.sub(bare, text)
