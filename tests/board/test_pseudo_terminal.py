"""A simulated board behind a pseudo-terminal, opened as a real one is, and what goes wrong on such a line."""

import pytest

from symlight.base.errors import UserError
from symlight.host.device.opening import DeviceOptions, OpenedDevice
from symlight.sim.board.line import PseudoTerminal
from symlight.sim.board.manifest import write_manifest

pytest.importorskip("serial", reason="pyserial is not installed")


@pytest.fixture
def on_line(simulated, library, tmp_path):
    """on_line(lose=..., build_id=...) -> options of a device on a pseudo-terminal, and the terminal."""
    opened = []

    def make(*, lose=frozenset(), build_id=None):
        line = PseudoTerminal(simulated, lose=lose)
        opened.append(line)
        bitstream = write_manifest(library, tmp_path / "bits", build_id=build_id)
        return DeviceOptions(device=f"serial:{line.path}", bitstream=bitstream), line

    yield make
    for line in opened:
        line.close()


def test_a_model_runs_over_the_line(on_line, tiny):
    options, line = on_line()
    with OpenedDevice(options, tiny) as machine:
        tokens = machine.run([1, 2, 3], 5, None).tokens
    with OpenedDevice(DeviceOptions(device="reference"), tiny) as reference:
        assert tokens == reference.run([1, 2, 3], 5, None).tokens
    assert line.error is None


def test_another_bitstream(on_line, tiny):
    options, _ = on_line(build_id=5)
    with pytest.raises(UserError, match="the board holds bitstream .* load the bitstream"):
        OpenedDevice(options, tiny)


def test_a_lost_byte(on_line, tiny):
    """A byte in the middle of the upload: the board says so, or its silence is noticed."""
    options, _ = on_line(lose=frozenset({5000}))
    with pytest.raises(UserError, match="lost on the way to the board"):
        OpenedDevice(options, tiny)


def test_a_pulled_cable(on_line, tiny):
    options, line = on_line()
    opened = OpenedDevice(options, tiny)
    line.close()
    with pytest.raises(UserError, match="the board is gone .*plug its cable in|did not answer"):
        opened.machine.run([1], 1, None)
