"""What results are compared with: the integer reference, or the CPU engine once that has been checked.

The test suite compares the engine with the reference on small models. Here the two are compared once more on
the very package, with the very library that is going to be used: logits, counts and state of a few tokens, in
one pass and in several. The result is kept in the cache, so that a package is checked once.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from symlight.base.cache import cached, room
from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.cpu.build import ROOM
from symlight.cpu.engine import Feed, Session, Want
from symlight.model.package import Package
from symlight.model.reference import Reference

from .cpu_machine import CpuMachine
from .machine import Machine, Progress, silent
from .opening import DeviceOptions, OpenedDevice
from .reference_machine import ReferenceMachine

PASSES = (1, 4, 1, 1)  # tokens of the passes that are compared
CHECKS = "checks"  # room of the cache
SEED = 5  # of the tokens


def golden_machine(package: Package, options: DeviceOptions, progress: Progress = silent) -> Machine:
    """The machine that runs of the device in `options` are compared with; its `name` says which it is.

    The CPU engine is compared with the reference. Every other device is compared with the engine, which is
    much faster, when it can be compiled here and has been checked.
    """
    if options.device.partition(":")[0] in ("cpu", "reference"):
        return ReferenceMachine(package.model)
    opened = OpenedDevice(replace(options, device="cpu", drafts=False), package, progress)
    machine = opened.machine
    if not isinstance(machine, CpuMachine):  # no compiler
        return machine
    _check_once(machine, package, room(options.cache, ROOM), progress)
    machine.name = "CPU engine, checked against the reference on this package"
    return machine


def _check_once(machine: CpuMachine, package: Package, cache: Path, progress: Progress) -> None:
    """A `UserError` unless the engine equals the reference on the package."""
    identity = repr((package.digest, machine.engine.library, PASSES, SEED))

    def make(folder: Path) -> None:
        progress("check engine", 0, 0)
        check_engine(machine, package)
        about = {"package": package.digest, "library": machine.engine.library, "tokens": sum(PASSES)}
        (folder / "equal.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
        progress("check engine", 1, 1)

    cached(cache / CHECKS, hashlib.sha256(identity.encode()).hexdigest()[:32], make)


def check_engine(machine: CpuMachine, package: Package) -> None:
    """Compare engine and reference on `PASSES`; a `UserError` names what differs."""
    reference, session = Reference(package.model), Session.new(package.shape)
    tokens = np.random.default_rng(SEED).integers(0, package.shape.vocab, sum(PASSES)).tolist()
    for count in PASSES:
        part, tokens = tokens[:count], tokens[count:]
        fed = machine.engine.run([Feed(session, part, Want.ALL, logits=True)])[0]
        for index, token in enumerate(part):
            expected = reference.ingest(token, want_logits=True)
            for what, ours, theirs in (
                ("logits", present(fed.logits)[index], present(expected.logits)),
                ("event counts", fed.active[index], expected.active),
            ):
                if not np.array_equal(ours, theirs):
                    raise _differs(package, f"the {what} of position {expected.position}")
    difference = session.state.first_difference(reference.state)
    if difference is not None:
        raise _differs(package, f"the state: {difference}")


def _differs(package: Package, what: str) -> UserError:
    return UserError(
        f"the CPU engine differs from the reference on package {package.path} in {what}; please report it, "
        "and compare with the reference meanwhile"
    )
