"""tools.evidence.levels on netlists of known depth."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symlight.tools.evidence.levels import analyse
from symlight.tools.evidence.netlist import read_netlist
from tests.benches.tools.made_netlist import Maker

pytestmark = pytest.mark.timeout(60)


def deepest(maker: Maker):
    return analyse(maker.netlist()).paths[0]


@pytest.mark.parametrize("count", [0, 1, 9])
def test_luts(count):
    maker = Maker()
    maker.register(maker.luts(maker.register("0", "deep[3]"), count), "end")
    maker.register(maker.luts(maker.register("0", "shallow"), 0), "end")
    path = deepest(maker)
    assert path.levels == count
    assert count == 0 or (path.start, path.end) == ("deep[3]", "end")
    assert len(path.via) == count + 1


def test_muxes_and_enables_count():
    maker = Maker()
    o = maker.net()
    maker.cell("MUXF7", I0=maker.luts(maker.register("0"), 2), I1="0", S="0", O=o)
    maker.cell("FDRE", C="clock", CE=o, D="0", R="0", Q=maker.net("enabled"))
    assert deepest(maker).levels == 3 and deepest(maker).end == "enabled (CE)"


@pytest.mark.parametrize("bits, levels", [(1, 2), (4, 2), (32, 2), (33, 4), (64, 4), (65, 6)])
def test_carry_chain(bits, levels):
    maker = Maker()
    maker.register(maker.lut(maker.carry(maker.lut(maker.register("0")), bits)))
    assert deepest(maker).levels == levels + 2


def test_carry_chain_counts_from_where_it_is_entered():
    """A late bit near the end of a long chain does not pay for the chain's beginning."""
    maker = Maker()
    late = maker.luts(maker.register("0", "late"), 5)
    low, high = [maker.net() for _ in range(4)], [maker.net() for _ in range(4)]
    carry = "0"
    for step in range(10):
        out = low if step < 9 else high
        maker.cell(
            "CARRY4",
            CI=carry,
            CYINIT="0",
            DI=["0"] * 4,
            S=[maker.register("0") if step == 0 else "0", "0", "0", late if step == 9 else "0"],
            CO=out,
            O=[maker.net() for _ in range(4)],
        )
        carry, low = out[3], [maker.net() for _ in range(4)]
    maker.register(high[3])
    path = deepest(maker)
    assert (path.levels, path.start) == (7, "late")


def test_across_a_boundary():
    """Register in a child, logic in it, in the parent, and in another child; and a way straight through a
    third."""
    first = Maker("first")
    first.port("o", "output", first.luts(first.register("0", "source"), 2))
    second = Maker("second")
    i = second.net()
    second.port("i", "input", i)
    second.register(second.luts(i, 3), "sink")
    wire = Maker("wire")
    i = wire.net()
    wire.port("i", "input", i)
    wire.port("o", "output", wire.luts(i, 1))
    wire.port("same", "output", i)
    library = {part.name: analyse(part.netlist()).ports for part in (first, second, wire)}
    parent = Maker("parent")
    a, b, c, d = (parent.net() for _ in range(4))
    parent.cell("first", ("o",), o=a)
    parent.cell("wire", ("o", "same"), i=a, o=b, same=c)
    parent.cell("second", i=parent.lut(parent.lut(b)))
    parent.cell("second", i=c)
    analysis = analyse(parent.netlist(), library)
    assert d and analysis.deepest == 2 + 1 + 2 + 3
    assert analysis.paths[0].start == "cell0.source" and analysis.paths[0].end == "cell4.sink"
    # Without the models of the children their type is not known, and that is said.
    with pytest.raises(ValueError, match="type first is unknown"):
        analyse(parent.netlist())


def test_port_model():
    maker = Maker()
    i = maker.net()
    maker.port("i", "input", i)
    maker.register(maker.luts(i, 4), "inside")
    maker.port("o", "output", maker.luts(maker.register("0", "held"), 1), maker.lut(i, maker.register("0")))
    ports = analyse(maker.netlist()).ports
    assert ports.setup == {("i", 0): (4, "inside")}
    assert ports.launch[("o", 0)] == (1, "held")
    assert ports.through == {("o", 1): {("i", 0): 1}}


@pytest.mark.parametrize("followed, levels", [(True, 0), (False, 3)])
def test_block_ram_output_register(followed, levels):
    maker = Maker()
    out = maker.net()
    maker.cell("RAMB36E2", ADDRARDADDR=maker.register("0"), CLKARDCLK="clock", DOUTADOUT=out)
    maker.register(out if followed else maker.lut(out))
    analysis = analyse(maker.netlist())
    assert analysis.deepest == levels and analysis.memories == [("cell1", "RAMB36E2", followed)]


@pytest.mark.parametrize("operand, product, levels", [(0, 0, 0), (1, 0, 5), (0, 2, 6)])
def test_multiplier_registers(operand, product, levels):
    maker = Maker()
    out = maker.net()
    maker.cell("DSP48E2", A=maker.luts(maker.register("0"), operand), P=out)
    maker.register(maker.luts(out, product))
    analysis = analyse(maker.netlist())
    assert analysis.deepest == levels
    assert analysis.multipliers[0][1:] == (operand == 0, product == 0)


def test_loops_are_found():
    maker = Maker()
    a = maker.net("round")
    b = maker.lut(a)
    maker.cell("LUT1", I0=b, O=a)
    with pytest.raises(ValueError, match="combinational loop through .*round"):
        analyse(maker.netlist())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_logic(data):
    """Against the longest path by plain recursion."""
    maker = Maker()
    nets = [maker.register("0") for _ in range(3)]
    inputs = {}
    for _ in range(data.draw(st.integers(1, 25))):
        chosen = data.draw(st.lists(st.sampled_from(nets), min_size=1, max_size=6))
        nets.append(maker.lut(*chosen))
        inputs[nets[-1]] = chosen
    ends = data.draw(st.lists(st.sampled_from(nets), min_size=1))
    for end in ends:
        maker.register(end)

    def depth(net):
        return 1 + max(map(depth, inputs[net])) if net in inputs else 0

    assert analyse(maker.netlist()).deepest == max(map(depth, ends))


def test_reads_what_yosys_writes(tmp_path):
    """Constants, hidden names, the choice of a name."""
    module = {
        "attributes": {"top": "1"},
        "ports": {"i": {"direction": "input", "bits": [2]}},
        "cells": {
            "ff": {
                "type": "FDRE",
                "parameters": {},
                "port_directions": {"C": "input", "D": "input", "Q": "output"},
                "connections": {"C": ["x"], "D": [2], "Q": [3]},
            },
            "scope": {"type": "$scopeinfo", "parameters": {}, "port_directions": {}, "connections": {}},
        },
        "netnames": {
            "long.name": {"hide_name": 0, "bits": [3]},
            "$hidden": {"hide_name": 1, "bits": [3]},
            "q": {"hide_name": 0, "bits": [3]},
        },
    }
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"modules": {"one": module}}))
    netlist = read_netlist(path)
    assert netlist.names[3] == "q" and len(netlist.cells) == 1
    assert analyse(netlist).ports.setup == {("i", 0): (0, "q")}
    path.write_text(json.dumps({"modules": {"one": module | {"attributes": {}}}}))
    with pytest.raises(ValueError, match="0 modules are marked as top"):
        read_netlist(path)
