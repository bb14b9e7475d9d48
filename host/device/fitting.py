"""Does a model fit a kernel? And if not, which one does it fit?"""

from dataclasses import replace

from symlight.base.errors import UserError
from symlight.hw.compiler.layout import Layout
from symlight.hw.config import CARDS, Engine
from symlight.model.config import ModelShape


def layout_on(engine: Engine, shape: ModelShape) -> Layout:
    """Where a model is stored on a kernel; a `UserError` that says what it lacks, and which cards suffice."""
    try:
        return Layout(engine, shape)
    except UserError as error:
        lacks = str(error).partition(";")[0]
        cards = [name for name in CARDS if _fits(_alike(CARDS[name], engine), shape)]
        remedy = f"it fits the cards {', '.join(cards)}" if cards else "no card holds it; make it smaller"
        raise UserError(f"{lacks}; {remedy}") from error


def _alike(card: Engine, engine: Engine) -> Engine:
    """`card` with the switches of `engine`."""
    names = ("fixed_gather", "fixed_kv", "kv_resident")
    switches = {name: getattr(engine, name) for name in names}
    beats = card.resident_beats if engine.kv_resident else card.kv_beats
    return replace(card, kv_beats=beats, **switches)


def _fits(engine: Engine, shape: ModelShape) -> bool:
    try:
        Layout(engine, shape)
    except UserError:
        return False
    return True
