// Matrices by output: blocks of 16 outputs, in which four inputs of each output lie together, read from end to end.
#pragma once
#include "strips.h"

namespace symlight {

// x [T] vectors of signed bytes `x_stride` apart, zero from `inputs` up to the next multiple of four.
struct Dense {
    int vectors;
    const int8_t* x;
    int64_t stride;
    const int32_t* totals;
};

inline int64_t block_bytes(const Matrix& m) { return int64_t((m.inputs + 3) / 4) * 64; }

inline void blocks_one(const Matrix& m, const Dense& d, int32_t* acc, int begin, int end) {
    const int groups = (m.inputs + 3) / 4;
    const Vec start = spread(-kWeightBias * d.totals[0]);
    constexpr int kParts = 16 / kLanes;
    for (int o = begin; o < end; o += 16) {
        const uint8_t* w = m.data + o / 16 * block_bytes(m);
        Vec even[kParts], odd[kParts];
        for (int j = 0; j < kParts; j++) even[j] = start, odd[j] = zero();
        int g = 0;
        for (; g + 2 <= groups; g += 2) {
            const Bytes x0 = spread_word(load_word(d.x + 4 * g)), x1 = spread_word(load_word(d.x + 4 * g + 4));
            prefetch(w + g * 64 + kAhead);
            prefetch(w + g * 64 + kAhead + 64);
            for (int j = 0; j < kParts; j++) {
                even[j] = dot_weight(even[j], load_bytes(w + g * 64 + j * kVector), x0);
                odd[j] = dot_weight(odd[j], load_bytes(w + g * 64 + 64 + j * kVector), x1);
            }
        }
        if (g < groups) {
            const Bytes x0 = spread_word(load_word(d.x + 4 * g));
            for (int j = 0; j < kParts; j++)
                even[j] = dot_weight(even[j], load_bytes(w + g * 64 + j * kVector), x0);
        }
        int32_t both[2][16];
        for (int j = 0; j < kParts; j++) store(both[0] + j * kLanes, even[j]), store(both[1] + j * kLanes, odd[j]);
        for (int i = 0; i < 16; i++) acc[o - begin + i] = both[0][i] + both[1][i];
    }
}

// Of one strip; the following one is fetched meanwhile if there is one.
inline void blocks_strip(const Matrix& m, const Dense& d, int32_t* acc, int64_t acc_stride, int begin, bool more) {
    start_sums(d.totals, d.vectors, kStrip, acc, acc_stride);
    const uint8_t* parts[4];
    for (int i = 0; i < 4; i++) parts[i] = m.data + (begin / 16 + i) * block_bytes(m);
    const int groups = (m.inputs + 3) / 4;
    Ahead ahead{parts[0] + 4 * block_bytes(m), nullptr, 0, 4, more ? groups : 0};
    batches(parts, 64, reinterpret_cast<const uint8_t*>(d.x), d.stride, 4, groups, acc, acc_stride, d.vectors, ahead);
}

// The sum of `size` bytes in groups of four with weights 1, 2, 3, 4 (modulo 2^32): reads at full speed, as a yardstick.
inline int64_t read_sum(const uint8_t* data, int64_t size) {
    const Bytes weights = spread_word(0x04030201);
    Vec sums[8];
    for (Vec& v : sums) v = zero();
    for (int64_t at = 0; at < size; at += 8 * kVector) {
        for (int i = 0; i < 8; i++) {
            prefetch(data + at + i * kVector + kAhead);
            sums[i] = dot_weight(sums[i], load_bytes(data + at + i * kVector), weights);
        }
    }
    int64_t total = 0;
    for (const Vec& v : sums) total += sum(v);
    return total;
}

}  // namespace symlight
