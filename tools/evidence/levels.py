"""Deepest paths of a mapped netlist in levels of logic (netlist.py says what a level is).

A module is analysed once; its ports' share of paths is kept as a `PortModel`, so that paths across module
boundaries are found in the
parent without flattening it: from registers to outputs, from inputs to registers, from inputs straight to
outputs.
"""

import re
from dataclasses import dataclass, field

from .netlist import (
    BLOCK_RAMS,
    CARRIES,
    CARRY_BITS,
    CARRY_LEVELS,
    DSPS,
    FLIP_FLOPS,
    ULTRA_RAMS,
    Cell,
    Model,
    Netlist,
    model,
)


@dataclass(frozen=True)
class DeepPath:
    """A path from clock edge to clock edge."""

    levels: int
    start: str
    end: str
    via: tuple = ()  # nets on the way, named by the design where it has a name


@dataclass
class PortModel:
    """Levels between a module's ports and its registers; keys are (port, bit index)."""

    setup: dict = field(default_factory=dict)  # input -> (levels, name of the end)
    launch: dict = field(default_factory=dict)  # output -> (levels, name of the start)
    through: dict = field(default_factory=dict)  # output -> {input: levels}


@dataclass
class Analysis:
    """What was found in one module."""

    paths: list  # the deepest path of each (start, end), deepest first; bits and lanes of a name count as one
    ports: PortModel
    memories: list  # (cell, type, its output register can be inferred)
    multipliers: list  # (cell, operands are registered, products are registered)

    @property
    def deepest(self) -> int:
        return self.paths[0].levels if self.paths else 0


def analyse(netlist: Netlist, library: dict[str, PortModel] | None = None) -> Analysis:
    """Deepest paths of `netlist`; `library` has the models of the modules that it instantiates."""
    return _Graph(netlist, library or {}).analysis()


def _group(name: str) -> str:
    """Name of a register without bit and lane numbers."""
    return re.sub(r"\d+", "*", re.sub(r"\[\d+\]$", "", name))


class _Graph:
    """Bits and carry cells as nodes, arcs with levels."""

    def __init__(self, netlist: Netlist, library: dict[str, PortModel]):
        self.netlist = netlist
        self.into: dict = {}  # node -> [(source node, levels)]
        self.out: dict = {}  # node -> [(target node, levels)]
        self.starts: dict = {}  # node -> (levels, name)
        self.ends: dict = {}  # node -> [(levels, name)]
        self.exposed = self._exposed()
        self.registered = {bit for cell in netlist.cells if cell.kind in FLIP_FLOPS for bit in cell.pins["Q"]}
        self.memories: list[tuple[str, str, bool]] = []
        self.multipliers: list[tuple[str, bool, bool]] = []
        carries = []
        for cell in netlist.cells:
            if cell.kind in library:
                self._instance(cell, library[cell.kind])
            elif cell.kind in CARRIES:
                carries.append(cell)
            else:
                self._cell(cell)
        self._carries(carries)
        self.order = self._sort()

    def name(self, bit) -> str:
        name: str = self.netlist.names.get(bit, f"net {bit}")
        return name

    def arc(self, source, target, levels: int):
        self.into.setdefault(target, []).append((source, levels))
        self.out.setdefault(source, []).append((target, levels))

    def _start(self, bit, levels: int, name: str):
        self.starts[bit] = (levels, name)

    def _end(self, bit, levels: int, name: str):
        self.ends.setdefault(bit, []).append((levels, name))

    def _exposed(self) -> frozenset:
        """Bits that lead to anything but data inputs of flip-flops."""
        found: set = set()
        for cell in self.netlist.cells:
            for pin, bits in cell.pins.items():
                if cell.directions.get(pin, "input") == "input" and not (
                    cell.kind in FLIP_FLOPS and pin == "D"
                ):
                    found.update(bits)
        for direction, bits in self.netlist.ports.values():
            if direction == "output":
                found.update(bits)
        return frozenset(found)

    def _cell(self, cell: Cell):
        found = model(cell, self.exposed)
        if cell.kind in DSPS:
            operands = all(source in self.registered for source, _target, _levels in found.arcs)
            products = all(target not in self.exposed for _source, target, _levels in found.arcs)
            self.multipliers.append((cell.name, operands, products))
            if operands and products:
                found = Model(
                    starts=[(bit, 0) for bit in {arc[1] for arc in found.arcs}],
                    ends=[(bit, 0, "operand") for bit in {arc[0] for arc in found.arcs}],
                )
        elif cell.kind in BLOCK_RAMS or cell.kind in ULTRA_RAMS:
            self.memories.append((cell.name, cell.kind, all(levels == 0 for _bit, levels in found.starts)))
        label = self.name(cell.pins["Q"][0]) if cell.kind in FLIP_FLOPS else cell.name
        for source, target, levels in found.arcs:
            self.arc(source, target, levels)
        for bit, levels in found.starts:
            self._start(bit, levels, label)
        for bit, levels, pin in found.ends:
            self._end(bit, levels, label if pin == "D" else f"{label} ({pin})")

    def _instance(self, cell: Cell, ports: PortModel):
        def bit(key):
            return cell.pins[key[0]][key[1]] if key[0] in cell.pins else "x"

        for key, (levels, name) in ports.setup.items():
            if not isinstance(bit(key), str):
                self._end(bit(key), levels, f"{cell.name}.{name}")
        for key, (levels, name) in ports.launch.items():
            self._start(bit(key), levels, f"{cell.name}.{name}")
        for target, sources in ports.through.items():
            for source, levels in sources.items():
                if not isinstance(bit(source), str):
                    self.arc(bit(source), bit(target), levels)

    def _carries(self, cells: list):
        """Arcs of carry chains: CARRY_LEVELS for every CARRY_BITS bits begun between entry and exit."""
        by_carry_out = {cell.pins["CO"][-1]: cell for cell in cells}
        before = {}  # cell -> cell it follows in a chain
        for cell in cells:
            carry_in = cell.pins["CI"][0]
            if not isinstance(carry_in, str) and carry_in in by_carry_out:
                before[id(cell)] = by_carry_out[carry_in]
        for cell in cells:
            width = CARRIES[cell.kind]
            entry = ("entry", id(cell))  # stands for all inputs of the cell, for the cells after it
            inputs = [(j, bit) for pin in ("S", "DI") for j, bit in enumerate(cell.pins[pin])]
            inputs += [(0, bit) for bit in cell.pins.get("CYINIT", [])]
            if id(cell) not in before:
                inputs += [(0, bit) for bit in cell.pins["CI"]]
            inputs = [(j, bit) for j, bit in inputs if not isinstance(bit, str)]
            for _j, bit in inputs:
                self.arc(bit, entry, 0)
            outputs = [(k, bit, pin) for pin in ("O", "CO") for k, bit in enumerate(cell.pins.get(pin, []))]
            own = set(cell.pins["S"])
            for k, target, pin in outputs:
                for j, source in inputs:
                    # The sum of a position takes its carry from below; only its own S reaches it directly.
                    if (
                        j < k
                        or j == k
                        and (pin == "CO" or source in own and source == cell.pins["S"][k])
                        or j == k == 0
                    ):
                        self.arc(source, target, CARRY_LEVELS)
                bits, step = width, cell
                while id(step) in before:
                    step = before[id(step)]
                    bits += CARRIES[step.kind]
                    self.arc(("entry", id(step)), target, CARRY_LEVELS * -(-bits // CARRY_BITS))

    def _sort(self) -> list:
        waiting = {node: len(arcs) for node, arcs in self.into.items()}
        nodes = set(self.into) | set(self.out) | set(self.starts) | set(self.ends)
        order = [node for node in nodes if not waiting.get(node)]
        for node in order:
            for target, _levels in self.out.get(node, ()):
                waiting[target] -= 1
                if not waiting[target]:
                    order.append(target)
        if len(order) != len(nodes):
            stuck = sorted(self.name(node) for node in nodes - set(order))
            raise ValueError(f"module {self.netlist.name}: combinational loop through {', '.join(stuck[:5])}")
        return order

    def analysis(self) -> Analysis:
        early = self._early()
        found: dict = {}
        for node, ends in self.ends.items():
            if node in early:
                reached, _before, start = early[node]
                for levels, name in ends:
                    key = (_group(start), _group(name))
                    if key not in found or reached + levels > found[key][0]:
                        found[key] = (reached + levels, start, name, node)
        paths = [
            DeepPath(levels, start, name, self._via(early, node))
            for levels, start, name, node in sorted(found.values(), key=lambda path: (-path[0], path[1:3]))
        ]
        return Analysis(paths, self._ports(early), self.memories, self.multipliers)

    def _early(self) -> dict:
        """Node -> (levels from the farthest register, node before it, name of the register)."""
        early: dict = {}
        for node in self.order:
            levels, name = self.starts.get(node, (-1, ""))
            best = (levels, None, name) if levels >= 0 else None
            for source, cost in self.into.get(node, ()):
                if source in early and (best is None or early[source][0] + cost > best[0]):
                    best = (early[source][0] + cost, source, early[source][2])
            if best:
                early[node] = best
        return early

    def _via(self, early, node) -> tuple:
        way = []
        while node is not None:
            if not isinstance(node, tuple):
                way.append(self.name(node))
            node = early[node][1]
        return tuple(reversed(way))

    def _ports(self, early) -> PortModel:
        ports = PortModel()
        late: dict = {}  # node -> (levels to the farthest register, its name)
        for node in reversed(self.order):
            options = list(self.ends.get(node, ()))
            options += [
                (late[target][0] + cost, late[target][1])
                for target, cost in self.out.get(node, ())
                if target in late
            ]
            if options:
                late[node] = max(options)
        inputs = {}
        for port, (direction, bits) in self.netlist.ports.items():
            for index, bit in enumerate(bits):
                if direction == "input":
                    inputs[bit] = (port, index)
                    if bit in late:
                        ports.setup[port, index] = late[bit]
                elif bit in early:
                    ports.launch[port, index] = (early[bit][0], early[bit][2])
        self._through(inputs, ports)
        return ports

    def _through(self, inputs: dict, ports: PortModel):
        """Longest ways from inputs straight to outputs."""
        outputs = {
            bit: (port, index)
            for port, (direction, bits) in self.netlist.ports.items()
            if direction == "output"
            for index, bit in enumerate(bits)
        }
        leads = set()  # nodes that lead to an output
        for node in reversed(self.order):
            if node in outputs or any(target in leads for target, _cost in self.out.get(node, ())):
                leads.add(node)
        reached: dict = {}
        for node in self.order:
            if node not in leads:
                continue
            longest = {inputs[node]: 0} if node in inputs else {}
            for source, cost in self.into.get(node, ()):
                for key, levels in reached.get(source, {}).items():
                    if levels + cost > longest.get(key, -1):
                        longest[key] = levels + cost
            if longest:
                reached[node] = longest
        for port, (direction, bits) in self.netlist.ports.items():
            for index, bit in enumerate(bits if direction == "output" else ()):
                if bit in reached:
                    ports.through[port, index] = reached[bit]
                elif bit in inputs:  # a wire from an input to an output
                    ports.through[port, index] = {inputs[bit]: 0}
