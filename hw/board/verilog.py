"""Verilog of a component under plain port names: members joined by one underscore."""

from amaranth.back import verilog
from amaranth.hdl import Value
from amaranth.lib import wiring

from ..compiler.verilog import plain


def flat_ports(component: wiring.Component) -> dict:
    """Verilog name -> (signal, None) of every port; the converter infers the direction."""
    return {
        "_".join(map(str, path)): (Value.cast(value), None)
        for path, _member, value in component.signature.flatten(component)
    }


def component_verilog(component: wiring.Component, name: str) -> str:
    """Module `name`: the component's ports, and clock and reset of every domain."""
    text = verilog.convert(
        component, name=name, ports=flat_ports(component), emit_src=False, strip_internal_attrs=True
    )
    return plain(text[text.index("*/") + 2 :].lstrip() if text.startswith("/*") else text)
