"""Netlists made by hand, for tests of what reads them."""

from symlight.tools.evidence.netlist import Cell, Netlist

OUTPUTS = {"Q", "O", "CO", "P", "DOUTADOUT"}


class Maker:
    """Collects cells; nets are numbers, as yosys counts them."""

    def __init__(self, name: str = "made"):
        self.name, self.cells, self.ports, self.names, self._next = name, [], {}, {}, 2

    def net(self, name: str = "") -> int:
        self._next += 1
        if name:
            self.names[self._next] = name
        return self._next

    def cell(self, kind: str, outputs: tuple = (), **pins) -> Cell:
        pins = {pin: bits if isinstance(bits, list) else [bits] for pin, bits in pins.items()}
        directions = {pin: "output" if pin in OUTPUTS or pin in outputs else "input" for pin in pins}
        self.cells.append(Cell(f"cell{len(self.cells)}", kind, {}, directions, pins))
        return self.cells[-1]

    def register(self, data, name: str = "") -> int:
        """Output of a flip-flop."""
        q = self.net(name)
        self.cell("FDRE", C="clock", CE="1", D=data, R="0", Q=q)
        return q

    def lut(self, *inputs) -> int:
        o = self.net()
        self.cell(f"LUT{len(inputs)}", O=o, **{f"I{k}": bit for k, bit in enumerate(inputs)})
        return o

    def luts(self, bit, count: int) -> int:
        """A row of LUTs after `bit`."""
        for _ in range(count):
            bit = self.lut(bit)
        return bit

    def carry(self, first, bits: int) -> int:
        """Sum bit at the end of a chain of `bits` bits that `first` enters at the bottom."""
        carry, out = "0", None
        for base in range(0, bits, 4):
            co, o = [self.net() for _ in range(4)], [self.net() for _ in range(4)]
            self.cell(
                "CARRY4",
                CI=carry,
                CYINIT="0",
                DI=["0"] * 4,
                S=[first if base == 0 else "0", "0", "0", "0"],
                CO=co,
                O=o,
            )
            carry, out = co[3], o[(bits - 1) % 4]
        return out

    def port(self, name: str, direction: str, *bits):
        self.ports[name] = (direction, list(bits))

    def netlist(self) -> Netlist:
        return Netlist(self.name, self.ports, self.cells, self.names)
