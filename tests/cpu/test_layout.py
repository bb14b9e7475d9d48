"""Packed weights, held against the definition of the layouts, a byte at a time."""

import numpy as np
import pytest

from symlight.cpu.layout import buffer_bytes, pack_outputs, pack_rows, row_stride, sections
from symlight.model.config import PRESETS, preset


def weights(outputs: int, inputs: int) -> np.ndarray:
    return np.random.default_rng(outputs).integers(-127, 128, (outputs, inputs), np.int8)


@pytest.mark.parametrize(("outputs", "inputs"), [(64, 4), (131, 7), (1, 1), (1024, 3)])
def test_by_row(outputs, inputs):
    weight = weights(outputs, inputs)
    packed = pack_rows(weight)
    stride = row_stride(outputs)
    assert packed.shape == (inputs, stride) and stride % 64 == 0 and stride % 1024
    for i in range(inputs):
        for place in range(stride):
            strip, within = divmod(place, 64)
            lane, rest = divmod(within, 16)
            part, element = divmod(rest, 4)
            output = 64 * strip + 16 * part + 4 * lane + element
            assert packed[i, place] == 128 + (int(weight[output, i]) if output < outputs else 0)


@pytest.mark.parametrize(("outputs", "inputs"), [(64, 4), (131, 7), (1, 1), (17, 66)])
def test_by_output(outputs, inputs):
    weight = weights(outputs, inputs)
    packed = pack_outputs(weight)
    assert packed.shape == (-(-outputs // 64) * 4, -(-inputs // 4), 64)
    for block, group, place in np.ndindex(packed.shape):
        output, i = 16 * block + place // 4, 4 * group + place % 4
        known = output < outputs and i < inputs
        assert packed[block, group, place] == 128 + (int(weight[output, i]) if known else 0)


@pytest.mark.parametrize("name", PRESETS)
def test_sections_do_not_overlap(name):
    shape = preset(name)
    places = sorted(sections(shape).values(), key=lambda section: section.offset)
    for one, following in zip(places, places[1:], strict=False):
        assert one.offset + one.bytes <= following.offset
        assert one.offset % 64 == 0
    assert places[-1].offset + places[-1].bytes <= buffer_bytes(shape)
