"""The simulated card agrees with typings/pyxrt.pyi in names and forms of call, for what it offers."""

import inspect

import pytest

from symlight.sim.pyxrt import module as pyxrt_sim
from tests.benches.contract.devices import NEWEST
from tests.benches.contract.stub import FIRST, Form, Name, present, read_stub

STUB = read_stub()
# Of no use on this card, or not possible with the binding either (see the stub).
NOT_SIMULATED = {
    "xclbin.get_axlf",
    "run.add_callback",
    "run.get_ctrl_scratchpad_bo",
    "hw_context.add_config",
    "log_message",
    "xrt_msg_level",
    "xclbinip_vector",
    "xclbinkernel_vector",
    "xclbinmem_vector",
    "xclbin.xclbinip",
    "elf",
    "program",
    "module",
    "runlist",
    "ext",
    *("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"),
}
FOREIGN = ("elf", "dict", "timedelta")  # forms of call with such arguments are not simulated
OFFERED = {name: STUB[name] for name in pyxrt_sim.__all__}


def members(name: str, entry: Name):
    """The class and its nested ones, with the simulated class of each."""
    yield name, entry, getattr(pyxrt_sim, name)
    for inner, nested in entry.members.items():
        if nested.kind == "class" and f"{name}.{inner}" not in NOT_SIMULATED:
            yield f"{name}.{inner}", nested, getattr(getattr(pyxrt_sim, name), inner)


CLASSES = [
    found for name, entry in OFFERED.items() if entry.kind == "class" for found in members(name, entry)
]


def test_every_name_of_the_stub_is_simulated_or_listed():
    missing = {name for name, entry in STUB.items() if present(entry, NEWEST)} - set(OFFERED) - NOT_SIMULATED
    assert not missing, f"neither simulated nor listed as not simulated: {missing}"
    assert not NOT_SIMULATED & set(OFFERED)


@pytest.mark.parametrize("name, entry, found", CLASSES, ids=[name for name, *_ in CLASSES])
def test_members_are_the_same(name, entry, found):
    declared = {
        member
        for member, what in entry.members.items()
        if present(what, NEWEST) and not member.startswith("_") and f"{name}.{member}" not in NOT_SIMULATED
    }
    assert declared == {member for member in dir(found) if not member.startswith("_")}


def _forms(entry: Name) -> list[Form]:
    forms = [form for form in entry.forms if NEWEST in form.span]
    return [form for form in forms if not any(kind in a for a in form.arguments for kind in FOREIGN)]


CALLS = [
    (f"{name}.{member}", what, getattr(found, member))
    for name, entry, found in CLASSES
    for member, what in entry.members.items()
    if what.kind == "function"
    and entry.bases != ("_Enum",)
    and f"{name}.{member}" not in NOT_SIMULATED
    and present(what, NEWEST)
] + [(name, entry, getattr(pyxrt_sim, name)) for name, entry in OFFERED.items() if entry.kind == "function"]


@pytest.mark.parametrize("name, entry, function", CALLS, ids=[name for name, *_ in CALLS])
def test_forms_of_call_are_the_same(name, entry, function):
    """The same numbers of arguments, and by position only: most releases give arguments no names."""
    forms = _forms(entry)
    assert forms, "listed, but only in forms that are not simulated"
    if any(form.any_number for form in forms):
        return
    counts = {len(form.arguments) - k for form in forms for k in range(form.optional + 1)}
    if hasattr(function, "counts"):
        assert set(function.counts) == counts
        return
    parameters = list(inspect.signature(function).parameters.values())["." in name :]
    assert all(p.kind is p.POSITIONAL_ONLY and p.default is p.empty for p in parameters), (
        "an argument can be named or left out"
    )
    assert {len(parameters)} == counts


def test_other_forms_of_call_are_refused():
    for call in (
        lambda: pyxrt_sim.device(0, 1),
        lambda: pyxrt_sim.device(index=0),
        lambda: pyxrt_sim.xclbin("a", "b"),
    ):
        with pytest.raises(TypeError):
            call()


def test_empty_handles_are_of_no_use():
    for call in (
        lambda: pyxrt_sim.device().get_xclbin_uuid(),
        lambda: pyxrt_sim.xclbin().get_uuid(),
        lambda: pyxrt_sim.hw_context().get_mode(),
        lambda: pyxrt_sim.run().start(),
        lambda: pyxrt_sim.run().set_arg(0, 1),
    ):
        with pytest.raises(RuntimeError, match="empty handle"):
            call()


def test_releases_are_what_the_tags_say():
    """Spot checks of the comments' reading, against the binding's source at the tags."""

    def first(path: str) -> set:
        entry, members = None, STUB
        for part in path.split("."):
            entry = members[part]
            members = entry.members
        return {form.span.since for form in entry.forms} if entry.forms else {entry.span.since}

    assert first("xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE") == {FIRST}
    assert first("xrt_info_device.vmr") == {(2, 13)} and first("xrt_info_device.electrical") == {(2, 12)}
    assert first("bo.sync") == {FIRST, (2, 16)} and first("hw_context.access_mode") == {(2, 23)}
    assert first("run.wait2") == {(2, 20)} and first("kernel.group_id") == {FIRST}
    assert not present(STUB["kernel"].members["read_register"], (2, 12)) and present(
        STUB["kernel"].members["read_register"], (2, 11)
    )
    assert (
        present(STUB["graph"], (2, 13))
        and not present(STUB["graph"], (2, 16))
        and present(STUB["graph"], (2, 26))
    )
    load = STUB["device"].members["load_xclbin"]
    assert all(form.span.warned((2, 23)) and not form.span.warned((2, 21)) for form in load.forms)
    assert (2, 15) in STUB["xclbin"].members["get_ips"].forms[0].span
    assert (2, 16) not in STUB["xclbin"].members["get_ips"].forms[0].span
