// ReLU-L1 attention of one token over the populated slots of a ring (docs/arithmetic.md section 4).
#pragma once
#include "abi.h"
#include "isa.h"
#include "matrix.h"
#include "ops.h"

namespace symlight {

constexpr int kMaxSlots = 512, kMaxHead = 256 + 64;

struct AttentionBuffers {
    int32_t weights[kMaxSlots];
    int32_t slots[kMaxSlots + 4];  // those whose weight is not zero
    int32_t low[kMaxSlots / 4 + 1], high[kMaxSlots / 4 + 1];  // their weights' digits, four bytes a word
    alignas(64) int32_t sums[2][4][kLanes];
    alignas(64) int8_t query[kMaxHead];
    alignas(64) uint8_t bounce[4][kVector];
};

inline int64_t ring_slot(const Model& m, int64_t position) {
    return position < m.anchors ? position : m.anchors + (position - m.anchors) % (m.window + 1);
}

// A vector of a ring at `from`; what lies past `end` is not read.
inline Bytes ring_bytes(const int8_t* from, const int8_t* end, uint8_t* bounce) {
    if (from + kVector <= end) return load_bytes(from);
    std::memcpy(bounce, from, end - from);
    return load_bytes(bounce);
}

// Weights of all populated slots; gives their sum.
inline int32_t attention_weights(const Model& m, int head, const int8_t* q, const int8_t* ring, int64_t position,
                                 int populated, AttentionBuffers& b) {
    const int width = m.head_width, vectors = (width + kVector - 1) / kVector;
    const int8_t* end = ring + int64_t(m.slots) * m.width;
    const int32_t slope = m.slopes[head];
    std::memset(b.query, 0, vectors * kVector);
    std::memcpy(b.query, q + head * width, width);
    int32_t total = 0;
    for (int i = 0; i < width; i++) total += b.query[i];
    int32_t den = 0;
    const int64_t phase = position % (m.window + 1);
    for (int slot = 0; slot < populated; slot++) {
        const int8_t* k = ring + int64_t(slot) * m.width + head * width;
        Vec acc = zero();
        for (int v = 0; v < vectors; v++)
            acc = dot_key(acc, ring_bytes(k + v * kVector, end, b.bounce[0]), load_bytes(b.query + v * kVector));
        const int64_t dot = sum(acc) - kKeyBias * total;
        int64_t distance = position - slot;
        if (slot >= m.anchors) {
            distance = phase - slot % (m.window + 1);
            if (distance < 0) distance += m.window + 1;
        }
        const int64_t score = dot * (1 << m.score_frac) - slope * distance;
        b.weights[slot] = int32_t(clamp(score, 0, 32767));
        den += b.weights[slot];
    }
    return den;
}

// o [head_width] of one head, with 6 fraction bits. q [D]; the rings [slots][D] hold the token already.
inline void attention(const Model& m, int head, const int8_t* q, const int8_t* ring_k, const int8_t* ring_v,
                      int64_t position, int32_t* o, AttentionBuffers& b) {
    const int width = m.head_width;
    const int populated = int(std::min<int64_t>(position + 1, m.slots));
    const int64_t den = attention_weights(m, head, q, ring_k, position, populated, b);
    if (den == 0) {
        std::fill(o, o + width, 0);
        return;
    }
    int count = 0;
    for (int slot = 0; slot < populated; slot++) {
        b.slots[count] = slot;
        count += b.weights[slot] != 0;
    }
    const int groups = (count + 3) / 4;
    std::memset(b.low, 0, groups * 4);
    std::memset(b.high, 0, groups * 4);
    for (int i = 0; i < count; i++) {
        reinterpret_cast<uint8_t*>(b.low)[i] = uint8_t(b.weights[b.slots[i]]);
        reinterpret_cast<uint8_t*>(b.high)[i] = uint8_t(b.weights[b.slots[i]] >> 8);
    }
    for (int i = count; i < 4 * groups; i++) b.slots[i] = b.slots[count - 1];
    const int8_t* end = ring_v + int64_t(m.slots) * m.width;
    const int n = bit_length(den);
    const int64_t recip = (int64_t(1) << (n + 16)) / den;
    for (int at = 0; at < width; at += kVector) {
        Vec low[4], high[4];
        for (int i = 0; i < 4; i++) low[i] = high[i] = zero();
        for (int g = 0; g < groups; g++) {
            Bytes four[4], q4[4];
            for (int r = 0; r < 4; r++)
                four[r] = ring_bytes(ring_v + int64_t(b.slots[4 * g + r]) * m.width + head * width + at, end,
                                     b.bounce[r]);
            interleave4(four[0], four[1], four[2], four[3], q4);
            const Bytes low_digits = spread_word(b.low[g]), high_digits = spread_word(b.high[g]);
            for (int i = 0; i < 4; i++) {
                low[i] = dot_value(low[i], q4[i], low_digits);
                high[i] = dot_value(high[i], q4[i], high_digits);
            }
        }
        for (int i = 0; i < 4; i++) store(b.sums[0][i], low[i]), store(b.sums[1][i], high[i]);
        for (int i = 0; i < std::min(kVector, width - at); i++) {
            const int part = i % 16 / 4, lane = i / 16 * 4 + i % 4;
            const int64_t num = int64_t(b.sums[0][part][lane]) + 256 * int64_t(b.sums[1][part][lane]) -
                                kValueBias * den;
            o[at + i] = int32_t(rnd((num << (24 - n)) * recip, 34));
        }
    }
}

}  // namespace symlight
