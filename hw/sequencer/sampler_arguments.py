"""The sampler's settings as kernel arguments: packed by the host, unpacked by the kernel.

Scalars of a run stay below 2^31, so the seed is cut into pieces of 31 bits.
"""

from amaranth.hdl import Cat

from symlight.model.sampling import MULTIPLIER_BITS, PROBABILITY_FRAC, SamplerSettings

SHIFT_BITS = 6
PIECE = 31  # bits of a seed argument
_SEED_PLACE = MULTIPLIER_BITS + SHIFT_BITS  # of the seed's last two bits in sample_scale
_TOP_PLACE = PROBABILITY_FRAC + 1  # of top_k in sample_top
_MASK = (1 << PIECE) - 1


def pack_settings(settings: SamplerSettings) -> dict[str, int]:
    """Values of `hw.interface.SAMPLER_ARGUMENTS`."""
    seed = settings.seed
    return {
        "sample_scale": settings.multiplier
        | settings.shift << MULTIPLIER_BITS
        | seed >> 2 * PIECE << _SEED_PLACE,
        "sample_limit": settings.min_weight,
        "sample_top": settings.top_p | settings.top_k << _TOP_PLACE,
        "seed_low": seed & _MASK,
        "seed_high": seed >> PIECE & _MASK,
    }


def unpack_settings(args, settings) -> list:
    """Assignments of `hw.sequencer.sampler.Settings` from the control registers' arguments."""
    scale = args.sample_scale
    seed = Cat(args.seed_low[:PIECE], args.seed_high[:PIECE], scale[_SEED_PLACE : _SEED_PLACE + 2])
    return [
        settings.multiplier.eq(scale[:MULTIPLIER_BITS]),
        settings.shift.eq(scale[MULTIPLIER_BITS:_SEED_PLACE]),
        settings.top_k.eq(args.sample_top[_TOP_PLACE:]),
        settings.top_p.eq(args.sample_top[:_TOP_PLACE]),
        settings.min_weight.eq(args.sample_limit),
        settings.seed.eq(seed),
    ]
