"""A component with its inside in view: proofs by induction speak of registers that are no ports.

The hardware is the component's own: `elaborate` of the real class, module by module; nothing is written again
here. Only read ports are added to memories, for invariants about their contents, and broken designs overrule
an assignment.
"""

import sys

from amaranth.hdl import Module, Value
from amaranth.hdl._ast import (
    AnySeq,  # 0.5 exports it under no public name but the deprecated `amaranth.asserts`
)
from amaranth.lib import wiring
from amaranth.lib.memory import Memory


class Opened:
    """`component`, elaborated; add `module` to the proof in its place.

    Attributes
    ----------
    component : wiring.Component
        Its ports.
    module : Module
        Its inside. An assignment that is added here comes last, so it wins over the component's own.
    """

    def __init__(self, component: wiring.Component):
        self.component = component
        self._locals: dict[str, Value] = {}
        self.module = self._elaborate()
        self.module._flush()
        component._MustUse__used = True
        self._parts = {}
        for name, (part, where) in list(self.module._named_submodules.items()):
            if isinstance(part, wiring.Component) and not isinstance(part, Memory):
                self._parts[name] = opened = Opened(part)
                self.module._named_submodules[name] = opened.module, where

    def part(self, *path: str) -> "Opened":
        """The submodule `path`."""
        return self._parts[path[0]].part(*path[1:]) if path else self

    def _elaborate(self) -> Module:
        """Elaborate, and keep the local variables of its methods: most signals have no other name."""

        def profile(frame, event, _argument):
            if event == "return" and frame.f_locals.get("self") is self.component:
                self._locals |= {
                    name: value for name, value in frame.f_locals.items() if isinstance(value, Value)
                }

        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            return self.component.elaborate(None)
        finally:
            sys.setprofile(before)

    def signal(self, name: str) -> Value:
        """What the component's `elaborate`, or a method of it, calls `name` (ports: by `component`)."""
        if name not in self._locals:
            raise LookupError(
                f"{type(self.component).__name__} has no {name!r}; it has {', '.join(sorted(self._locals))}"
            )
        return self._locals[name]

    def domain(self, signal) -> str:
        """The domain in which the component drives all of `signal`."""
        domain: str = self.module._driving[signal][0]
        return domain

    def ongoing(self, state: str, fsm: str = "fsm") -> Value:
        """Whether the state machine `fsm` is in `state`."""
        return self.module._generated[fsm].ongoing(state)

    def memory(self, name: str = "memory") -> Memory:
        """The memory `name`, with its ports."""
        return self.module._named_submodules[name][0]

    def row(self, address, memory: str = "memory"):
        """What memory `memory` holds at `address` now."""
        port = self.memory(memory).read_port(domain="comb")
        self.module.d.comb += port.addr.eq(address)
        return port.data


def drive_freely(m: Module, component: wiring.Component, but: tuple[str, ...] = ()):
    """Let every input port of `component` take any value in any cycle, but those of members `but`."""
    for path, member, value in component.signature.flatten(component):
        if member.flow is wiring.In and path[0] not in but:
            value = Value.cast(value)
            m.d.comb += value.eq(AnySeq(value.shape()))
