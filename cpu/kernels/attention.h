// ReLU-L1 attention of one token over the populated slots of a ring (docs/arithmetic.md section 4).
#pragma once
#include "isa.h"
#include "matrix.h"
#include "ops.h"

namespace symlight {

constexpr int kMaxSlots = 512, kMaxWidth = 2048, kMaxHeads = 64;

struct AttentionBuffers {
    alignas(64) int32_t dots[kMaxHeads][kMaxSlots];  // [head][slot]: q . k, then the weight
    alignas(64) int32_t distances[kMaxSlots];
    alignas(64) uint8_t positive[kMaxSlots];
    int32_t slots[kMaxSlots + 20];  // those whose weight is not zero
    int32_t low[kMaxSlots / 4 + 1], high[kMaxSlots / 4 + 1];  // their weights' digits, four bytes a word
    alignas(64) int32_t num[256 + kVector];
    alignas(64) int32_t sums[4][kLanes];
    alignas(64) int8_t query[kMaxWidth + kMaxHeads * kVector];  // every head padded to whole vectors with zeros
    int32_t totals[kMaxHeads];
    alignas(64) uint8_t bounce[4][kVector];
};

inline int64_t ring_slot(const Model& m, int64_t position) {
    return position < m.anchors ? position : m.anchors + (position - m.anchors) % (m.window + 1);
}

// A vector of a ring at `from`; what follows `end` is not read.
inline Bytes ring_bytes(const int8_t* from, const int8_t* end, uint8_t* bounce) {
    if (from + kVector <= end) return load_bytes(from);
    std::memcpy(bounce, from, end - from);
    return load_bytes(bounce);
}

inline void pad_queries(const Model& m, int first, int last, const int8_t* q, AttentionBuffers& b) {
    const int d = m.head_width, stride = (d + kVector - 1) / kVector * kVector;
    for (int head = first; head < last; head++) {
        int8_t* query = b.query + (head - first) * stride;
        std::memset(query, 0, stride);
        std::memcpy(query, q + head * d, d);
        int32_t total = 0;
        for (int i = 0; i < d; i++) total += query[i];
        b.totals[head - first] = total;
    }
}

// dots[head][slot] of all populated slots: reads the ring from end to end.
inline void attention_dots(const Model& m, int first, int last, const int8_t* ring, int populated,
                           AttentionBuffers& b) {
    const int d = m.head_width, vectors = (d + kVector - 1) / kVector;
    const int8_t* end = ring + int64_t(m.slots) * m.width;
    for (int slot = 0; slot < populated; slot += 4) {
        const int8_t* k[4];
        for (int r = 0; r < 4; r++) k[r] = ring + int64_t(std::min(slot + r, populated - 1)) * m.width;
        for (int head = first; head < last; head++) {
            const int8_t* query = b.query + (head - first) * vectors * kVector;
            Vec acc[4];
            for (int r = 0; r < 4; r++) acc[r] = zero();
            for (int v = 0; v < vectors; v++)
                for (int r = 0; r < 4; r++)
                    acc[r] = dot_key(acc[r], ring_bytes(k[r] + head * d + v * kVector, end, b.bounce[r]),
                                     load_bytes(query + v * kVector));
            sum4(acc, b.dots[head - first] + slot);
        }
    }
}

// Turns the dots of a head into weights; gives their sum.
inline int32_t attention_weights(const Model& m, int32_t slope, int32_t total, int populated, int32_t* dots,
                                 AttentionBuffers& b) {
    int32_t den = 0;
    const int32_t bias = kKeyBias * total, unit = 1 << m.score_frac;
    for (int slot = 0; slot < populated; slot++) {
        const int32_t weight = clamp((dots[slot] - bias) * unit - slope * b.distances[slot], 0, 32767);
        dots[slot] = weight;
        b.positive[slot] = weight != 0;
        den += weight;
    }
    return den;
}

// num [head_width] of a head: the sum of the values by their weights.
inline void attention_values(const Model& m, int head, const int8_t* ring, int populated, int64_t den,
                             const int32_t* weights, AttentionBuffers& b) {
    const int d = m.head_width;
    const int count = nonzero(reinterpret_cast<const int8_t*>(b.positive), populated, b.slots);
    const int groups = (count + 3) / 4;
    for (int i = count; i < 4 * groups; i++) b.slots[i] = b.slots[count - 1];
    b.low[groups - 1] = b.high[groups - 1] = 0;
    for (int i = 0; i < count; i++) {
        reinterpret_cast<uint8_t*>(b.low)[i] = uint8_t(weights[b.slots[i]]);
        reinterpret_cast<uint8_t*>(b.high)[i] = uint8_t(weights[b.slots[i]] >> 8);
    }
    const int8_t* end = ring + int64_t(m.slots) * m.width;
    for (int at = 0; at < d; at += kVector) {
        Vec low[4], high[4];
        for (int i = 0; i < 4; i++) low[i] = high[i] = zero();
        for (int g = 0; g < groups; g++) {
            Bytes four[4], q4[4];
            for (int r = 0; r < 4; r++) {
                const int8_t* v = ring + head * d + at;
                prefetch(v + int64_t(b.slots[std::min(4 * g + 16 + r, 4 * groups - 1)]) * m.width);
                four[r] = ring_bytes(v + int64_t(b.slots[4 * g + r]) * m.width, end, b.bounce[r]);
            }
            interleave4(four[0], four[1], four[2], four[3], q4);
            const Bytes low_digits = spread_word(b.low[g]), high_digits = spread_word(b.high[g]);
            for (int i = 0; i < 4; i++) {
                low[i] = dot_value(low[i], q4[i], low_digits);
                high[i] = dot_value(high[i], q4[i], high_digits);
            }
        }
        for (int i = 0; i < 4; i++) {
            int32_t upper[kLanes];
            store(b.sums[i], low[i]), store(upper, high[i]);
            for (int lane = 0; lane < kLanes; lane++)
                b.sums[i][lane] = int32_t(uint32_t(b.sums[i][lane]) + 256u * uint32_t(upper[lane]) -
                                          uint32_t(kValueBias) * uint32_t(den));
        }
        for (int lane = 0; lane < kLanes; lane += 4)
            for (int i = 0; i < 4; i++) std::memcpy(b.num + at + lane * 4 + i * 4, b.sums[i] + lane, 16);
    }
}

// o [D], with 6 fraction bits, of heads [first, last). q [D]; the rings [slots][D] hold the token already.
inline void attention(const Model& m, int first, int last, const int8_t* q, const int8_t* ring_k, const int8_t* ring_v,
                      int64_t position, int32_t* o, AttentionBuffers& b) {
    const int d = m.head_width;
    const int populated = int(std::min<int64_t>(position + 1, m.slots));
    const int32_t period = m.window + 1, phase = int32_t(position % period);
    for (int slot = 0; slot < m.anchors; slot++) b.distances[slot] = int32_t(position) - slot;
    for (int slot = m.anchors; slot < populated; slot++) {
        const int32_t behind = phase - slot;  // modulo the period; slots < 2 * period when anchors <= period
        b.distances[slot] = behind;
    }
    for (int slot = m.anchors; slot < populated; slot++)
        while (b.distances[slot] < 0) b.distances[slot] += period;
    pad_queries(m, first, last, q, b);
    attention_dots(m, first, last, ring_k, populated, b);
    for (int head = first; head < last; head++) {
        int32_t* dots = b.dots[head - first];
        const int64_t den = attention_weights(m, m.slopes[head], b.totals[head - first], populated, dots, b);
        if (den == 0) {
            std::fill(o + head * d, o + (head + 1) * d, 0);
            continue;
        }
        attention_values(m, head, ring_v, populated, den, dots, b);
        const int n = bit_length(den);
        const double scale = std::ldexp(double((int64_t(1) << (n + 16)) / den), 24 - n - 34);
        for (int i = 0; i < d; i++) o[head * d + i] = rounded(b.num[i] * scale, 31);
    }
}

}  // namespace symlight
