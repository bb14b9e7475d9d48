"""tools.evidence.loads: loads are counted through units, and a net with too many is found."""

from symlight.tools.evidence.loads import LIMIT, loads_of
from tests.benches.tools.made_netlist import Maker


def wide(loads: int):
    """A register that drives `loads` LUTs, and a child with an input that drives ten."""
    child = Maker("child")
    i = child.net()
    child.port("i", "input", i)
    for _ in range(10):
        child.lut(i)
    parent = Maker("parent")
    q = parent.register("0")
    for _ in range(loads - 10):
        parent.lut(q)
    parent.cell("child", i=q)
    return child.netlist(), parent.netlist()


def test_counts_through_units():
    for loads, found in ((LIMIT, 0), (LIMIT + 1, 1)):
        child, parent = wide(loads)
        inside = loads_of(child, {})
        assert inside.ports == {("i", 0): 10} and not inside.wide
        result = loads_of(parent, {"child": inside})
        assert len(result.wide) == found and result.registers == 1
        assert not found or result.wide[0][0] == LIMIT + 1
