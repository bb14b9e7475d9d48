// Matrix times vectors of events. Two layouts (cpu/layout.py packs them):
//
//   by row     each input has a row of its outputs, `stride` bytes apart: only the rows of nonzero events are read
//   by output  blocks of 16 outputs, in which four inputs of each output lie together: read once, from end to end
//
// T vectors share one pass over the weights. Sums are exact in 32 bits.
#pragma once
#include "by_output.h"
#include "by_row.h"

namespace symlight {

// Calls use(first, count, acc, acc_stride) for the outputs [begin, end), multiples of kStrip, a part at a time:
// acc[t * acc_stride + i] is the sum of vector t for output first + i. `acc` holds max(end - begin, kWide * kStrip * T),
// `tile` kWide * kTileBytes.
template <typename Use>
inline void multiply(const Matrix& m, const Events& events, const Dense& dense, int begin, int end, int32_t* acc,
                     uint8_t* tile, Use use) {
    const int vectors = m.by_row ? events.vectors : dense.vectors;
    if (begin >= end) return;
    if (vectors == 1 && m.by_row) {
        if (near(m))
            rows_near(m, events, acc, 0, begin, end);
        else
            rows_one(m, events, acc, begin, end);
        use(begin, end - begin, acc, 0);
        return;
    }
    const int most = m.by_row ? kWide * kStrip : kStrip;
    for (int o = begin; o < end; o += most) {
        const int size = std::min(most, end - o), after = std::min(most, end - o - size);
        if (!m.by_row) {
            if (vectors == 1)
                blocks_one(m, dense, acc, o, o + size);
            else
                blocks_strip(m, dense, acc, most, o, after > 0);
        } else if (events.each) {
            rows_each(m, events, acc, most, o, o + size);
        } else if (near(m) && vectors <= 2 * kTokens) {  // for more, interleaving once and for all is better
            rows_near(m, events, acc, most, o, o + size);
        } else {
            rows_strips(m, events, acc, most, o, size / kStrip, after, tile);
        }
        use(o, size, acc, most);
    }
}

}  // namespace symlight
