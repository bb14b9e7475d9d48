r"""Amaranth's Verilog as the vendor's tools want it: registers in place, plain Verilog-2005, no contents
of memories that are written anyway.

The converter writes a register as its next value and an assignment of that:

    always @* begin                         always @(posedge clk) begin
      \$9  = product;                         if (valid) begin
      if (valid) begin            ───►          product <= \$1 ;
        \$9  = \$1 ;                           end
      end                                   end
    end
    always @(posedge clk)
      product <= \$9 ;

Both mean the same. But Verilator copies every register of the first form in every cycle, valid or not, and
skips the second: a pipeline of 32 lanes simulates three times as fast when busy and six times as fast when
idle.
"""

import re
from collections import Counter

CHECKS = "SYMLIGHT_CHECKS"  # macro under which a simulator sees the assertions

_NEXT = r"\\\$\d+ "  # name of a next value; an escaped identifier ends with a space
_MODULE = re.compile(r"^(?=module )", re.M)
_REGISTER = re.compile(  # a whole register, not a slice
    rf"^  always @\(posedge (?P<clock>[^)]+)\)\n    (?P<register>\\\S+ |\w+) <= (?P<next>{_NEXT});\n", re.M
)
# The condition that is never true keeps event-driven simulators from skipping a block without inputs.
_BLOCK = re.compile(
    r"^  always @\* begin\n(?:    if \(\\\$auto\$\S+ \) begin end\n)?(?P<body>(?:    .*\n)+)  end\n", re.M
)
_DECLARATION = re.compile(rf"^  reg (\[[^]]*\] )?(?P<next>{_NEXT});\n", re.M)
_JOINED = re.compile(r"^ *\{.*\} ?= ", re.M)  # slices assigned together
_TARGET = re.compile(rf"^(?P<indent> *)(?P<next>{_NEXT})(?P<slice>\[[^]]*\])? ?= (?=.*;$)", re.M)


_PROCESS = re.compile(r"^  always @.* begin\n(?:    .*\n)+  end\n", re.M)
_ASSERT = re.compile(r"^ +assert \(", re.M)
_ASSIGNMENT = re.compile(r"^ +[\w\\][^;()\"]* <?= ", re.M)
_ZEROS = re.compile(r"^  initial begin\n(?:    (?:\\\S+ |\w+)\[\d+\] = \d+'[hd]0+;\n)+  end\n", re.M)


def plain(text: str) -> str:
    """The converter's Verilog `text` as the project packages and simulates it."""
    return without_zeros(checks_guarded(registers_in_place(text)))


def checks_guarded(text: str) -> str:
    """Verilog `text` with its assertions behind `ifdef CHECKS`.

    `assert` is SystemVerilog: a tool that reads the file as plain Verilog stops at it. With the macro, one
    and the same file is what is simulated and what is packaged. The converter gives assertions processes of
    their own.
    """

    def guard(process: re.Match) -> str:
        if not _ASSERT.search(process[0]):
            return process[0]
        if _ASSIGNMENT.search(process[0]):
            raise ValueError(f"a process has assertions beside assignments:\n{process[0]}")
        return f"`ifdef {CHECKS}\n{process[0]}`endif\n"

    return _PROCESS.sub(guard, text)


def without_zeros(text: str) -> str:
    """Verilog `text` without initial values of memories that begin with zeros only.

    Such a memory is written before it is read. UltraRAM can hold no initial values, and distributed RAM that
    has some costs time in configuration only; a memory of constants keeps them.
    """
    return _ZEROS.sub("", text)


def registers_in_place(text: str) -> str:
    """Verilog `text` of the converter; a next value that only its register reads is folded into it."""
    return "".join(map(_module, _MODULE.split(text)))


def _module(text: str) -> str:
    registers = {found["next"]: found for found in _REGISTER.finditer(text)}
    declarations = {found["next"]: found for found in _DECLARATION.finditer(text)}
    uses = Counter(re.findall(_NEXT, text))
    edits = []
    for block in _BLOCK.finditer(text):
        assigned = {found["next"] for found in _TARGET.finditer(block["body"])}
        if len(assigned) != 1 or _JOINED.search(block["body"]):
            continue
        value = assigned.pop()
        register, declaration = registers.get(value), declarations.get(value)
        # Beside the block, the value may occur in its declaration and in the register only.
        if register and declaration and uses[value] == block[0].count(value) + 2:
            edits.append((*declaration.span(), ""))
            edits.append((*block.span(), ""))
            edits.append((*register.span(), _fold(block["body"], register)))
    parts, position = [], 0
    for start, end, replacement in sorted(edits):
        parts += [text[position:start], replacement]
        position = end
    return "".join([*parts, text[position:]])


def _fold(body: str, register: re.Match) -> str:
    """The register's process, from the body that computes its next value."""
    name = register["register"]
    body = _TARGET.sub(lambda found: f"{found['indent']}{name}{found['slice'] or ''} <= ", body)
    keep = f"    {name} <= {name};\n"  # the default: a register keeps its value anyway
    return f"  always @(posedge {register['clock']}) begin\n{body.removeprefix(keep)}  end\n"
