"""A component as an instance of a Verilog module of its own: converted once, instantiated many times."""

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring


class ModuleInstance(wiring.Component):
    """Stands for a component in a design; its hardware is module `name`, converted separately.

    Parameters
    ----------
    signature : wiring.Signature
        Its ports.
    name : str
        Module name in the Verilog of the component (`hw.compiler.generate` converts it under this name).
    reset : Value or None
        Synchronous reset of the instance, a register; None: the domain's.

    Members
    -------
    As the signature's.
    """

    def __init__(self, signature: wiring.Signature, name: str, *, reset=None):
        self._name, self._reset = name, reset
        super().__init__(signature)

    def elaborate(self, platform):
        m = Module()
        ports = {
            "i_clk": ClockSignal(),
            "i_rst": ResetSignal() if self._reset is None else self._reset,
        }
        for path, member, value in self.signature.flatten(self):
            direction = "i" if member.flow is wiring.In else "o"
            ports[f"{direction}_{'__'.join(map(str, path))}"] = value
        m.submodules.instance = Instance(self._name, **ports)
        return m
