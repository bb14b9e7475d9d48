"""The driver on a fake card, and what the tests of the host say to it."""

import io

from symlight.host.device.card import Card
from symlight.host.device.driver import Accelerator
from symlight.hw.compiler.layout import Layout
from symlight.hw.interface import arguments
from tests.benches.host.fake_card import FakeCard
from tests.benches.host.fake_pyxrt import make_api

UUID = "fb8b8ac4-6ee3-4e34-9f23-2a7ba57ec1b8"
BUILD_ID = 0x0123456789ABCDEF_FEDCBA9876543210
LOGIT_SCALE = 4e-9  # spreads the test model's logits over a few octaves
TEXT = """In the beginning was the word, and the word was with us.
A light shines in the dark, and the dark has not overcome it.
The quick brown fox jumps over the lazy dog; pack my box with five dozen jugs."""


def open_accelerator(
    card: FakeCard, model=None, *, contexts: bool = True, build_id: int = BUILD_ID, **more
) -> Accelerator:
    """The driver on a fake card."""
    model = model or card.model
    opened = Card(make_api(card, contexts=contexts), 0, "fake.xclbin", arguments(card.engine.channels))
    return Accelerator(
        opened,
        Layout(card.engine, model.shape),
        model,
        build_id=build_id,
        name="xrt:0",
        cycles_per_second=1e9,
        **{"grace_ms": 50, **more},
    )


def give_lines(monkeypatch, lines: list[str | bytes]) -> None:
    """The lines of standard input that a command is going to read."""
    data = [line.encode() if isinstance(line, str) else line for line in lines]
    stream = io.TextIOWrapper(io.BytesIO(b"".join(line + b"\n" for line in data)), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", stream)
