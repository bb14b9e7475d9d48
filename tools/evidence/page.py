"""The readable page of docs/evidence/ from its JSON files."""

import json
from pathlib import Path

from symlight.base.provenance import short
from symlight.hw.config import card

from .boundaries import Port
from .gate import Facts, findings
from .loads import LIMIT as LOADS
from .utilisation import BUDGET, Resources, split

HEAD = """# Evidence without the vendor's tools

Nobody has run Vivado on this design yet. What follows was found with open tools, and `make evidence` finds
it again (it takes a while; results
are kept by content, so it can be interrupted). It says what the design is *aimed at* - {clock} MHz on an
Alveo U50 - and not what it reaches there:
only place and route by the vendor's tools on the real part can tell that.

The formal proofs have a [page of their own](formal.md).
"""
ROUTABLE = 0.8  # share of a die's resources beyond which a route is not to be expected


def read_results(folder: Path) -> dict[str, dict]:
    """The JSON files of `folder` that are there, by their names without suffix."""
    files = {name: folder / f"{name}.json" for name in SECTIONS}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def page(results: dict[str, dict]) -> str:
    """The page of `results`, as `read_results` gives them."""
    clocks = sorted({card(data["card"]).clock_mhz for data in results.values()})
    parts = [HEAD.format(clock=" and ".join(map(str, clocks)))]
    for name, data in results.items():
        parts.append(SECTIONS[name](data))
        parts.append(f"*{name}.json: {data['card']} {data['build']} at commit {short(data['commit'])}.*\n")
    return "\n".join(parts)


def contradictions(results: dict[str, dict]) -> list[str]:
    """Verdicts in `results` that are not what their own figures say; empty if all are."""
    found = []
    synthesis = results.get("synthesis", {"units": {}})
    for name, unit in synthesis["units"].items():
        for bound in ("limit", "aim"):
            if (unit["deepest"] > synthesis[bound]) != (unit[f"over_{bound}"] > 0):
                found.append(
                    f"unit {name}: deepest {unit['deepest']}, {bound} {synthesis[bound]}, "
                    f"but {unit[f'over_{bound}']} paths are over"
                )
    for port in synthesis.get("channel_ports", ()):
        if port["good"] != Port(**{key: port[key] for key in port if key != "good"}).good:
            found.append(f"port {port['name']}: good is {port['good']}")
    if kernel := synthesis.get("kernel"):
        channel, rest = (Resources(**kernel[part]) for part in ("channel", "rest"))
        if kernel["split"] != split(channel, kernel["channels"], rest):
            found.append("the split over the dies is not that of these resources")
    return found


def _table(head: list, rows: list) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def _gate(units: dict) -> str:
    """What the netlist gate finds; empty for evidence that is older than the gate."""
    if not all("gate" in unit for unit in units.values()):
        return ""
    found = [line for name, unit in units.items() for line in findings(name, Facts(**unit["gate"]))]
    lines = [f"- {line}" for line in found] or [f"Nothing, in {len(units)} units."]
    return (
        "\n## Netlist gate\n\nNets with too many loads, resets that reach too much, registers at crossings "
        "that became shift registers, UltraRAM with initial values, multipliers without registers "
        "(`tools/evidence/gate.py`):\n\n" + "\n".join(lines) + "\n"
    )


def _synthesis(data: dict) -> str:
    units = data["units"]
    worst = sorted(units.items(), key=lambda item: (-item[1]["deepest"], item[0]))
    rows = [
        (
            name,
            unit["deepest"],
            unit["over_limit"],
            unit["over_aim"],
            *((unit["paths"][0]["from"], unit["paths"][0]["to"]) if unit["paths"] else ("", "")),
        )
        for name, unit in worst
    ]
    text = f"""## Depth of logic

yosys `synth_xilinx {data["tool"]["options"]}`, every unit flat, paths across units by models of their
ports. A LUT or a MUXF is a level, a carry
chain 2 for every 32 bits begun, a multiplier 4 unless registers on both sides can be taken into its DSP
slice, a memory's output 2 unless its
output register can be. Fan-out and distance are not in it. At most {data["limit"]} levels are wanted
anywhere, {data["aim"]} aimed at; "over" counts
pairs of registers (lanes and bits of one name together). A unit's row has its own paths and those between
the units in it.

""" + _table(["unit", "deepest", f"over {data['limit']}", f"over {data['aim']}", "from", "to"], rows)
    memories = [
        (
            n,
            u["memories"],
            u["memories_with_output_register"],
            u["multipliers"],
            u["multipliers_with_registers"],
        )
        for n, u in units.items()
        if u["memories"] or u["multipliers"]
    ]
    text += (
        "\n## Registers of memories and multipliers\n\nBlock RAM and UltraRAM, those whose output "
        "register can be inferred from the netlist "
        "(each output leads to flip-flops only); DSP slices, those with operands and products in "
        "registers. The others count with their levels above.\n\n"
    )
    text += _table(["unit", "memories", "with output register", "multipliers", "with registers"], memories)
    text += _loads(units) + _gate(units)
    if "channel_ports" in data:
        ports = [p for p in data["channel_ports"] if p["side"] != "static"]
        bad = [p for p in ports if not p["good"]]
        text += (
            f"\n## Ports of a channel\n\n{len(ports) - len(bad)} of {len(ports)} ports that cross dies "
            f"or meet AXI are register to register: "
            "outputs are registers; inputs of the sequencer go to registers or memories, AXI "
            "handshakes pass at most two levels.\n\n"
        )
        if bad:
            text += _table(
                ["port", "direction", "side", "levels", "limit", "register"],
                [(p["name"], p["direction"], p["side"], p["levels"], p["limit"], p["where"]) for p in bad],
            )
    if "kernel" in data:
        text += _kernel(data["kernel"], units)
    return text


def _loads(units: dict) -> str:
    if not all("wide_nets" in unit for unit in units.values()):
        return ""
    wide = [(name, net["net"], net["loads"]) for name, unit in units.items() for net in unit["wide_nets"]]
    resets, registers = (
        sum(unit[key] * _instances(units, name) for name, unit in units.items())
        for key in ("registers_with_reset", "registers")
    )
    text = (
        f"\n## Fan-out and resets\n\n{resets:,} of {registers:,} registers have a reset. "
        f"Nets with more than {LOADS} loads, clocks and resets left out:\n\n"
    )
    return text + (_table(["unit", "net", "loads"], wide) if wide else "none.\n")


def _instances(units: dict, name: str) -> int:
    """How often a unit is in the whole design."""
    uses = [(parent, unit["instances_in_it"].get(name, 0)) for parent, unit in units.items()]
    above = sum(count * _instances(units, parent) for parent, count in uses if count)
    return above or 1


def _kernel(kernel: dict, units: dict) -> str:
    split, available = kernel["split"], kernel["available_per_slr"]
    names = ("lut", "ff", "bram", "uram", "dsp")
    rows = [
        ("one channel", *(round(kernel["channel"][n], 1) for n in names)),
        (
            f"{kernel['channels']} channels",
            *(round(kernel["channel"][n] * kernel["channels"], 1) for n in names),
        ),
        ("everything else", *(round(kernel["rest"][n], 1) for n in names)),
        ("whole kernel", *(round(kernel["whole"][n], 1) for n in names)),
        ("memory interconnect, allowed for", *(round(split["interconnect"][n]) for n in names)),
        ("one SLR has", *(available[n] for n in names)),
        (
            f"SLR0: {split['channels_on_slr0']} channels and the interconnect",
            *(f"{split['slr0_share'][n]:.0%}" for n in names),
        ),
        (
            f"SLR1: {split['channels_on_slr1']} channels and the rest",
            *(f"{split['slr1_share'][n]:.0%}" for n in names),
        ),
    ]
    verdict = "fits" if split["fits"] else "does not fit"
    text = (
        f"\n## Resources\n\nEvery unit once, times its instances; the split is the floorplan's "
        f"(hw/floorplan.py), and {verdict}. The interconnect between ports and memory is an allowance, "
        "an assumption: no link report of such a kernel is public for this card; estimates run from 60,000 "
        f"to 100,000 LUTs. Aimed at: at most {BUDGET:.0%} of LUTs and DSP slices on either die, which "
        f"{'holds' if split['within_budget'] else 'does not hold'}.\n\n"
    )
    text += _table(["", "LUT", "FF", "RAMB36", "UltraRAM", "DSP"], rows)
    fullest = max(max(split[f"slr{die}_share"].values()) for die in (0, 1))
    text += (
        "\nThese are counts alone: yosys leaves additions after a multiplier in LUTs that the slice could "
        "take, and adds two numbers a carry chain where the vendor's tools add three; how much these save is "
        "not known here.\n"
    )
    if split["fits"] and fullest > ROUTABLE:
        text += (
            f"A die filled to {fullest:.0%} of a kind is more than a router can be expected to manage "
            f"(beyond {ROUTABLE:.0%} it seldom does).\n"
        )
    text += "\nThe same of every unit, with the units in it:\n\n"
    return text + _table(
        ["unit", "LUT", "FF", "RAMB36", "UltraRAM", "DSP"],
        [(n, *(round(u["resources"][k], 1) for k in names)) for n, u in units.items()],
    )


def _place(data: dict) -> str:
    rows = [
        (
            m["module"],
            f"{m['lanes']} of {m['of']}" if m["of"] else "-",
            m["fmax_mhz"],
            m["cells"].get("TRELLIS_COMB", 0),
            m["cells"].get("TRELLIS_FF", 0),
            m["cells"].get("DP16KD", 0),
            m["cells"].get("MULT18X18D", 0),
        )
        for m in data["modules"]
    ]
    return f"""## A real place and route, on another part

nextpnr on a Lattice ECP5-85F, speed grade 8, seed {data["seed"]}; the list was fixed beforehand, and a
fraction of the lanes is stated where not all were placed.
An older and slower part with LUTs of four inputs: its megahertz are its own, and show which modules would
hold others back.

""" + _table(["module", "lanes", "Fmax, MHz", "LUT4", "FF", "block RAM", "multipliers"], rows)


def _lint(data: dict) -> str:
    text = "## Lint\n\n"
    for tool in ("verilator", "slang"):
        found = data[tool]["findings"]
        text += (
            f"{tool} {data[tool]['version']}: {'clean' if not found else f'{len(found)} findings'}, "
            f"with all warnings as errors but\n\n"
        )
        text += _table(["waived", "because"], list(data[tool]["waived"].items())) + "\n"
    return text


SECTIONS = {"synthesis": _synthesis, "place": _place, "lint": _lint}  # in the order of the page
