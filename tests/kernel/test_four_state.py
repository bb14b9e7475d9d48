"""The packaged Verilog in a four-state simulator: from X everywhere, reset and run, no X reaches a port."""

import re
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from symlight.host.device.kernels import obtain_engine
from symlight.host.device.mailbox import Mailbox
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.host.device.state_image import pack_state, state_bytes
from symlight.hw.channel.receive import Receiver
from symlight.hw.compiler.generate import channel_verilog
from symlight.hw.config import BUILDS, Engine
from symlight.hw.interface import Command, Io
from symlight.hw.kernel.channels import CHANNEL_MODULE
from tests.benches.kernel.four_state import Session, require_icarus
from tests.benches.kernel.kernel_list import narrow
from tests.benches.places import CACHE

pytestmark = pytest.mark.timeout(900)
PROMPT, NEW = [7, 3], 1


@pytest.fixture(scope="module")
def engine() -> Engine:
    require_icarus()
    return narrow(2, "partial-kv")


def _verilog(engine: Engine) -> dict[str, str]:
    """Name -> text of the generated Verilog."""
    folder = obtain_engine(engine, CACHE).manifest.parent
    return {path.name: path.read_text() for path in sorted(folder.glob("*.v"))}


@pytest.fixture(scope="module")
def files(engine) -> dict[str, str]:
    return _verilog(engine)


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in BUILDS if name != "partial-kv"]


@pytest.mark.parametrize("mode", ["partial-kv", *OTHERS])
def test_nothing_unknown_leaves_the_kernel(tiny, tmp_path, mode):
    require_icarus()
    engine = narrow(2, mode)
    session = Session(engine, tiny, list(_verilog(engine).values()), tmp_path)
    session.command(Command.LOAD)
    session.command(Command.GENERATE, PROMPT, NEW)
    session.command(Command.DUMP)
    ended = session.run()
    assert ended.output.startswith("DONE") and len(ended.io) == 3, ended.output
    reference = ReferenceMachine(tiny)
    expected = reference.run(PROMPT, NEW, None).tokens
    boxes = [Mailbox.decode(session.mailbox(io), run + 1) for run, io in enumerate(ended.io)]
    assert all(box.ok for box in boxes) and boxes[1].n_tokens == NEW
    assert np.frombuffer(ended.io[1], "<u4", NEW, Io.TOKENS).tolist() == expected
    state = ended.io[2][Io.STATE : Io.STATE + state_bytes(session.layout)]
    assert state == pack_state(session.layout, reference.read_state()).tobytes()


def _load(engine, files, tiny, folder: Path) -> str:
    session = Session(engine, tiny, list(files.values()), folder)
    session.command(Command.LOAD)
    return session.run(limit=20_000).output


def test_a_memory_that_is_trusted_to_be_zero_is_seen(engine, files, tiny, tmp_path):
    """Traffic counters that add to what their memory held at power-up reach the mailbox."""

    def trusting(self, m, tag, ended):
        real(self, m, tag, ended)
        m.d.sync += self.count.eq(m.submodules.counts.read_port(domain="comb").data)

    real = Receiver._count
    with patch.object(Receiver, "_count", trusting):
        broken = files | {f"{CHANNEL_MODULE}.v": channel_verilog(engine)}
    assert _load(engine, broken, tiny, tmp_path).startswith("UNKNOWN: wdata of port 0")


def test_a_register_that_needs_its_initial_value_is_seen(engine, files, tiny, tmp_path):
    """The session's registers without their reset."""
    name = "symlight.v"
    module = re.search(r"^module \\symlight\.kernel\.session \(.*?^endmodule", files[name], re.M | re.S)[0]
    deaf = module.replace("if (rst)", "if (1'h0)")
    assert deaf != module
    output = _load(engine, files | {name: files[name].replace(module, deaf)}, tiny, tmp_path)
    assert output.startswith(("UNKNOWN", "FAILED"))
