"""The integer reference beside a device: compare every run, and find where they part.

What is visible of a pass from outside: the tokens, the nonzero counts of the event sites, and the session
state. In the order of the dataflow they narrow a difference down to an operation of a layer.
"""

from collections.abc import Sequence

import numpy as np

from symlight.base.errors import UserError
from symlight.model.reference import SITES
from symlight.model.state import State
from symlight.model.weights import IntegerModel

from .choosing import PLAIN, RunOptions
from .host_machine import HostMachine
from .machine import Machine, RunResult
from .reference_machine import ReferenceMachine


class VerificationError(UserError):
    """Device and reference differ; the message names token, layer and operation."""

    exit_code = 1


class Verifier:
    """The reference's own session, kept in step with a machine's.

    Parameters
    ----------
    model : IntegerModel
        What the machine runs.
    state : State | None
        Where the machine's session stands; None: new.
    golden : Machine | None
        What the machine is compared with (host.device.golden); None: the reference. The place of a difference
        is always looked for with the reference.
    """

    def __init__(self, model: IntegerModel, state: State | None = None, golden: Machine | None = None):
        self._model = model
        self._reference = ReferenceMachine(model) if golden is None else golden
        if state is not None:
            self._reference.write_state(state)
        # before the last run, its prompt, its tokens
        self._last: tuple[State, list[int], list[int]] | None = None

    @property
    def golden_name(self) -> str:
        """What the machine is compared with."""
        return self._reference.name

    def close(self) -> None:
        """Give back what the comparison uses."""
        self._reference.close()

    def reset(self) -> None:
        self._reference.reset()
        self._last = None

    def state(self) -> State:
        """A copy of the reference's session state."""
        return self._reference.read_state()

    def set_state(self, state: State) -> None:
        self._reference.write_state(state)
        self._last = None

    def replace_pending(self, token: int) -> None:
        """The host chose another token than the machine did."""
        self._reference.replace_pending(token)

    def check_run(
        self,
        machine: Machine,
        prompt: Sequence[int],
        n_new: int,
        eos: int | None,
        result: RunResult,
        options: RunOptions = PLAIN,
    ) -> None:
        """Run the reference on the same input; compare tokens, stop reason, counts of events and passes,
        position, pending token and logits."""
        before = self._reference.read_state()
        if isinstance(self._reference, HostMachine):
            self._reference.guess(result.tokens)
        expected = self._reference.run(prompt, n_new, eos, options=options)
        self._last = before, list(prompt), expected.tokens
        what = _token_difference(result, expected)
        if what is None and not np.array_equal(result.active, expected.active):
            layer, site = (int(i) for i in np.argwhere(result.active != expected.active)[0])
            what = (
                f"the tokens agree, but the event counts do not: layer {layer}, {SITES[site]}: the device "
                f"says {result.active[layer, site]}, the reference {expected.active[layer, site]}"
            )
        what = what or _count_difference(machine, result, self._reference, expected)
        what = what or _logit_difference(result, expected)
        if what is not None:
            raise VerificationError(f"{what}; {self._locate(machine)}")

    def check_state(self, machine: Machine) -> None:
        """Compare the whole session state."""
        difference = state_difference(machine.read_state(), self._reference.read_state())
        if difference is not None:
            raise VerificationError(
                f"the tokens agree, but the session state does not: {difference}; {self._locate(machine)}"
            )

    def _locate(self, machine: Machine) -> str:
        """The place in the last run."""
        if self._last is None:
            return "nothing has run since the session began"
        try:
            return locate(machine, self._model, *self._last)
        except VerificationError:
            raise
        except UserError as error:  # the difference itself must not get lost
            return f"and the place was not found, because {error}"


def _token_difference(result: RunResult, expected: RunResult) -> str | None:
    for index, (ours, theirs) in enumerate(zip(result.tokens, expected.tokens, strict=False)):
        if ours != theirs:
            return f"token {index} differs: the device says {ours}, the reference {theirs}"
    if len(result.tokens) != len(expected.tokens) or result.stop_reason != expected.stop_reason:
        return (
            f"token {min(len(result.tokens), len(expected.tokens))} differs: the device stopped after "
            f"{len(result.tokens)} tokens ({result.stop_reason}), the reference after {len(expected.tokens)} "
            f"({expected.stop_reason})"
        )
    return None


def _count_difference(
    machine: Machine, result: RunResult, reference: ReferenceMachine | Machine, expected: RunResult
) -> str | None:
    pairs = {
        "prompt passes": (result.prompt_passes, expected.prompt_passes),
        "decode passes": (result.decode_passes, expected.decode_passes),
        "position": (machine.position, reference.position),
        "pending token": (machine.pending, reference.pending),
    }
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            return f"the tokens agree, but {name}: the device says {ours}, the reference {theirs}"
    return None


def _logit_difference(result: RunResult, expected: RunResult) -> str | None:
    for name in ("logits", "candidates"):
        ours, theirs = getattr(result, name), getattr(expected, name)
        if theirs is None:
            continue
        if ours is None or ours.shape != theirs.shape:
            shape = None if ours is None else list(ours.shape)
            return (
                f"the tokens agree, but the device gives {name} {shape}, the reference {list(theirs.shape)}"
            )
        different = np.argwhere(ours != theirs)
        if len(different):
            index = tuple(map(int, different[0]))
            return (
                f"the tokens agree, but {name}{list(index)} is {ours[index]} on the device, "
                f"{theirs[index]} in the reference"
            )
    return None


def locate(
    machine: Machine, model: IntegerModel, before: State, prompt: Sequence[int], tokens: Sequence[int]
) -> str:
    """Replay a run from `before`, a pass at a time, and say where machine and reference part first."""
    reference = ReferenceMachine(model)
    reference.write_state(before)
    machine.reset()
    machine.write_state(before)
    ingested = "the pending token"
    for index, token in enumerate([*prompt, *tokens]):
        inside = reference.pending
        expected, ours = reference.run([token], 0, None), machine.run([token], 0, None)
        difference = pass_difference(
            ours.active, expected.active, machine.read_state(), reference.read_state()
        )
        if difference is not None:
            where = (
                "before any pass"
                if inside is None
                else f"while ingesting {ingested} (id {inside}, position {reference.position - 1})"
            )
            return f"first visible difference {where}: {difference}"
        ingested = f"prompt token {index}" if index < len(prompt) else f"token {index - len(prompt)}"
    return (
        "replayed a pass at a time all states agree: the operation is the head (prior, logits or choice) "
        f"or down of layer {model.shape.layers - 1}, or the difference comes and goes"
    )


def pass_difference(
    active: np.ndarray, expected_active: np.ndarray, state: State, expected: State
) -> str | None:
    """The first visible difference of a pass in the order of the dataflow, and the operation it points at."""
    if (state.position, state.pending) != (expected.position, expected.pending):
        return state_difference(state, expected)
    if not np.array_equal(state.membrane, expected.membrane):
        return f"operation embed: {_first('membrane', state.membrane, expected.membrane)}"
    shape = expected.shape

    def count(layer: int, site: str, operation: str) -> str | None:
        index = SITES.index(site)
        ours, theirs = int(active[layer, index]), int(expected_active[layer, index])
        return None if ours == theirs else f"{operation}: {ours} nonzero inputs of {site} instead of {theirs}"

    for layer in range(shape.layers):
        here = f"layer {layer}, operation"
        source = f"layer {layer - 1}, operation down" if layer else "operation embed"
        found = (
            count(layer, "qkv", source)
            or count(layer, "decay", source)
            or _ring(state, expected, layer, f"{here} qkv")
            or _array(f"{here} decay", "decay state", state.decay[layer], expected.decay[layer])
            or count(layer, "up", f"{here} attention or out")
            or count(layer, "down", f"{here} up")
        )
        if found:
            return found
    return None


def _ring(state: State, expected: State, layer: int, operation: str) -> str | None:
    for name, ours, theirs in (("k", state.ring_k, expected.ring_k), ("v", state.ring_v, expected.ring_v)):
        different = np.argwhere(ours[layer, : expected.populated] != theirs[layer, : expected.populated])
        if len(different):
            slot, element = (int(i) for i in different[0])
            head, place = divmod(element, expected.shape.head_width)
            return (
                f"{operation}: ring {name}, slot {slot}, head {head}, element {place}: "
                f"{ours[layer, slot, element]} instead of {theirs[layer, slot, element]}"
            )
    return None


def _array(operation: str, name: str, ours: np.ndarray, theirs: np.ndarray) -> str | None:
    return None if np.array_equal(ours, theirs) else f"{operation}: {_first(name, ours, theirs)}"


def _first(name: str, ours: np.ndarray, theirs: np.ndarray) -> str:
    different = np.flatnonzero(ours != theirs)
    index = int(different[0])
    return f"{name}[{index}] is {ours[index]} instead of {theirs[index]} ({len(different)} elements differ)"


def state_difference(state: State, expected: State) -> str | None:
    """The first difference of two session states in the order of the dataflow."""
    for name in ("position", "pending"):
        ours, theirs = getattr(state, name), getattr(expected, name)
        if ours != theirs:
            return f"{name} is {ours} instead of {theirs}"
    nothing = np.zeros((expected.shape.layers, len(SITES)), np.int64)
    return pass_difference(nothing, nothing, state, expected)
