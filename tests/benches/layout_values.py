"""Values of layouts as plain Python: for the simulation side of benches, whose signals are bit patterns."""

from amaranth.hdl import Const, Shape
from amaranth.lib import data


def bits(layout, item: dict) -> int:
    """Bit pattern of a layout from plain field values (masked to each field's width)."""
    return Const.cast(data.Layout.cast(layout).const(item)).value


def fields(layout, word: int):
    """Plain field values of a bit pattern: nested dicts and lists of integers, signed where the field is
    signed."""
    try:
        layout = data.Layout.cast(layout)
    except TypeError:
        shape = Shape.cast(layout)
        word &= (1 << shape.width) - 1
        return word - (1 << shape.width) if shape.signed and word >> (shape.width - 1) else word
    values = {}
    for key, field in layout:
        values[key] = fields(field.shape, (word >> field.offset) & ((1 << field.width) - 1))
    return [values[k] for k in range(len(values))] if isinstance(layout, data.ArrayLayout) else values
