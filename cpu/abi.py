"""The structures that Python and the kernels share; `header` writes them as C++, so they are typed once."""

import ctypes
from ctypes import (
    Structure,
    c_double,
    c_float,
    c_int8,
    c_int16,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_void_p,
)

_TYPES = {
    c_double: "double",
    c_float: "float",
    c_int8: "int8_t",
    c_int16: "int16_t",
    c_int32: "int32_t",
    c_int64: "int64_t",
    c_uint8: "uint8_t",
    c_uint16: "uint16_t",
}
_pointees: dict[str, str] = {}  # "Structure.field" -> C++ type behind a pointer


def fields(owner: str, **fields) -> list[tuple[str, type]]:
    """`_fields_` of structure `owner`: each a ctypes type, or a list with the type behind a pointer."""
    result = []
    for name, kind in fields.items():
        if isinstance(kind, list):
            target = kind[0]
            _pointees[f"{owner}.{name}"] = _TYPES.get(target, target.__name__)
            kind = c_void_p
        result.append((name, kind))
    return result


class Matrix(Structure):
    """Weights by row, `stride` bytes apart, or by output (cpu.layout)."""

    _fields_ = fields(
        "Matrix", data=[c_uint8], stride=c_int64, inputs=c_int32, outputs=c_int32, by_row=c_int32
    )


class Requantiser(Structure):
    """Of an event site. A `scale` is always multiplier / 2^shift."""

    _fields_ = fields("Requantiser", scale=c_double, threshold=c_int32)


class Norm(Structure):
    """Layer normalisation."""

    _fields_ = fields("Norm", gamma=[c_int16], beta=[c_int16], gamma_shift=c_int32, epsilon=c_int32)


class Block(Structure):
    """A block; the names of model.weights.BlockWeights."""

    _fields_ = fields(
        "Block",
        qkv=Matrix,
        decay=Matrix,
        out=Matrix,
        up=Matrix,
        down=Matrix,
        qkv_threshold=[c_int32],
        qkv_scale=[c_float],
        decay_scale=[c_float],
        decay_beta=[c_double],
        out_scale=[c_float],
        up_threshold=[c_int32],
        down_scale=[c_float],
        spike_threshold=[c_int16],
        attention_norm=Norm,
        ffn_norm=Norm,
        attention_event=Requantiser,
        ffn_event=Requantiser,
        mix_o=c_double,
        mix_h=c_double,
        mix_threshold=c_int32,
    )


class Head(Structure):
    """The decoding head."""

    _fields_ = fields(
        "Head",
        prior=Matrix,
        fused=Matrix,
        prior_scale=[c_float],
        fused_scale=[c_uint16],
        gelu_table=[c_int8],
        input=Requantiser,
    )


class Model(Structure):
    """Everything that a pass reads. `every_row`: rows of zero events are read, too (to measure what skipping
    them brings)."""

    _fields_ = fields(
        "Model",
        head=Head,
        blocks=[Block],
        embedding=[c_int16],
        slopes=[c_int32],
        rsqrt=[c_int32],
        inv_width=c_int64,
        layers=c_int32,
        width=c_int32,
        heads=c_int32,
        head_width=c_int32,
        ffn=c_int32,
        vocab=c_int32,
        bottleneck=c_int32,
        anchors=c_int32,
        window=c_int32,
        slots=c_int32,
        score_frac=c_int32,
        lif_leak=c_int32,
        lif_threshold=c_int32,
        lif_clamp=c_int32,
        every_row=c_int32,
    )


class Part(Structure):
    """Tokens of one session in a pass: where they go to, what is wanted, and the results.

    `tokens`, `position`: `count` tokens, the first at `position`. `want`: one of WANTS; `best` and `logits`
    (int64, may be null) have a row for every wanted token, `active` [L, 4] one for every token, and so has
    `optional` [L + 2]: nonzero inputs of W_O by layer, and of the head's a and g where it was evaluated.
    Pointers that may be null: the `undo_*` of a part that may be taken back: membrane [D] and decay state
    [L, D] after every token, and what it overwrites in the rings [L, D].
    """

    _fields_ = fields(
        "Part",
        membrane=[c_int16],
        decay=[c_int16],
        ring_k=[c_int8],
        ring_v=[c_int8],
        logits=[c_int64],
        active=[c_int32],
        optional=[c_int32],
        best=[c_int32],
        undo_membrane=[c_int16],
        undo_decay=[c_int16],
        undo_k=[c_int8],
        undo_v=[c_int8],
        tokens=[c_int32],
        position=c_int64,
        count=c_int32,
        want=c_int32,
    )


WANTS = ("nothing", "last", "all")
# What the time of a pass is divided into; `lists` finds the nonzero events of the matrices stored by row.
OPERATIONS = ("embed", "lists", "qkv", "decay", "attention", "out", "norm", "up", "down", "prior", "head")
READ_BYTES = 4096  # `symlight_read` takes multiples


class Profile(Structure):
    """Sums over all passes by OPERATIONS: nanoseconds of thread 0, bytes of weights that all threads read."""

    _fields_ = fields("Profile", nanoseconds=c_int64 * len(OPERATIONS), bytes=c_int64 * len(OPERATIONS))


STRUCTURES = (Matrix, Requantiser, Norm, Block, Head, Model, Part, Profile)
MUTABLE = frozenset({"Part"})


def header(structures: tuple[type[Structure], ...] = STRUCTURES, mutable: frozenset[str] = MUTABLE) -> str:
    """The text of abi.h. The kernels write through the pointers of the structures named in `mutable`."""
    lines = [
        "// Written by cpu/abi.py.",
        "#pragma once",
        "#include <cstdint>",
        "",
        "namespace symlight {",
        "",
    ]
    names = ", ".join(f"k{name.capitalize()}Time" for name in OPERATIONS)
    wants = ", ".join(f"kWant{name.capitalize()}" for name in WANTS)
    lines += [f"enum Operation {{ {names} }};", f"enum Wanted {{ {wants} }};", ""]
    for structure in structures:
        owner = structure.__name__
        lines.append(f"struct {owner} {{")
        for name, kind in structure._fields_:
            if kind is c_void_p:
                const = "" if owner in mutable else "const "
                lines.append(f"    {const}{_pointees[f'{owner}.{name}']}* {name};")
            elif hasattr(kind, "_length_"):
                lines.append(f"    {_TYPES[kind._type_]} {name}[{kind._length_}];")
            else:
                lines.append(f"    {_TYPES.get(kind, kind.__name__)} {name};")
        lines += ["};", f"static_assert(sizeof({owner}) == {ctypes.sizeof(structure)});", ""]
    return "\n".join([*lines, "}  // namespace symlight", ""])
