// ReLU-L1 attention of one token over the populated slots of a ring (docs/arithmetic.md section 4).
#pragma once
#include "isa.h"
#include "matrix.h"
#include "ops.h"

namespace symlight {

constexpr int kSlotsAhead = 16;         // that values are fetched ahead
constexpr int kNearRing = 16 << 10;     // bytes of values that need not be fetched ahead
constexpr int kMaxSlots = 512, kMaxWidth = 2048, kMaxHeads = 64;

struct AttentionBuffers {
    alignas(64) int32_t dots[kMaxHeads][kMaxSlots];  // [head][slot]: q . k, then the weight
    alignas(64) int32_t distances[kMaxSlots];
    int32_t places[kMaxSlots + kSlotsAhead + 20];  // slots whose weight is not zero; then where their values begin
    int32_t kept[kMaxSlots + 20];                  // their weights
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
        b.totals[head - first] = total(query, d);
    }
}

// How many positions ago each populated slot was written.
inline void ring_distances(const Model& m, int64_t position, int populated, int32_t* __restrict distances) {
    const int anchors = std::min(m.anchors, populated), period = m.window + 1;
    const int32_t newest = int32_t(position), phase = int32_t((position - anchors) % period);
    for (int slot = 0; slot < anchors; slot++) distances[slot] = newest - slot;
    for (int slot = anchors; slot < populated; slot++) {
        const int32_t behind = phase - (slot - anchors);
        distances[slot] = behind < 0 ? behind + period : behind;
    }
}

// dots[head][slot] of the four slots at k. With BOUNCE their rows may end near the end of the ring.
template <bool BOUNCE>
inline void four_dots(const int8_t* const k[4], const int8_t* q, int d, int first, int last, const int8_t* end, int slot,
                      AttentionBuffers& b) {
    const int vectors = (d + kVector - 1) / kVector;
    int head = first;
    if constexpr (kHalves && !BOUNCE)  // two heads share a vector of the processor
        for (; 2 * d == kVector && head + 2 <= last; head += 2) {
            const Bytes both = load_bytes(q + head * d);
            Vec acc[4];
            for (int r = 0; r < 4; r++) acc[r] = dot_key(zero(), load_bytes(k[r] + head * d), both);
            sum4_halves(acc, b.dots[head - first] + slot, b.dots[head + 1 - first] + slot);
        }
    for (; head < last; head++) {
        const int8_t* query = b.query + (head - first) * vectors * kVector;
        Vec acc[4];
        for (int r = 0; r < 4; r++) acc[r] = zero();
        for (int v = 0; v < vectors; v++, query += kVector) {
            const Bytes q = load_bytes(query);
            for (int r = 0; r < 4; r++) {
                const int8_t* at = k[r] + head * d + v * kVector;
                acc[r] = dot_key(acc[r], BOUNCE ? ring_bytes(at, end, b.bounce[r]) : load_bytes(at), q);
            }
        }
        sum4(acc, b.dots[head - first] + slot);
    }
}

// dots[head][slot] of all populated slots: reads the ring from end to end.
// The values of the same slots are fetched meanwhile unless `values` is null.
inline void attention_dots(const Model& m, int first, int last, const int8_t* q, const int8_t* ring,
                           const int8_t* values, int populated, AttentionBuffers& b) {
    const int d = m.head_width, read = (last - 1) * d + (d + kVector - 1) / kVector * kVector;  // of a row
    const int8_t* end = ring + int64_t(m.slots) * m.width;
    for (int slot = 0; slot < populated; slot += 4) {
        const int8_t* k[4];
        for (int r = 0; r < 4; r++) k[r] = ring + int64_t(std::min(slot + r, populated - 1)) * m.width;
        if (values)
            for (int r = 0; r < 4; r++)
                for (int at = first * d; at < last * d; at += kLine) prefetch_far(values + (k[r] - ring) + at);
        if (k[3] + read <= end)
            four_dots<false>(k, q, d, first, last, end, slot, b);
        else
            four_dots<true>(k, q, d, first, last, end, slot, b);
    }
}

// Turns the dots of a head into weights; gives their sum.
inline int32_t attention_weights(int32_t unit, int32_t bias, int32_t slope, int populated, int32_t* __restrict dots,
                                 const int32_t* __restrict distances) {
    int32_t den = 0;
    for (int slot = 0; slot < populated; slot++) {
        const int32_t weight = clamp((dots[slot] - bias) * unit - slope * distances[slot], 0, 32767);
        dots[slot] = weight;
        den += weight;
    }
    return den;
}

// Digits of weights, filled up with zeros to a multiple of four; and where the values of their slots begin.
inline void weight_digits(const int32_t* __restrict weights, int count, int width, int32_t* __restrict places,
                          uint8_t* __restrict low, uint8_t* __restrict high) {
    for (int i = 0; i < count; i++) low[i] = uint8_t(weights[i]), high[i] = uint8_t(weights[i] >> 8);
    for (int i = 0; i < count; i++) places[i] *= width;
    const int behind = (count + 3) / 4 * 4;
    for (int i = count; i < behind; i++) low[i] = high[i] = 0;
    std::fill(places + count, places + behind + kSlotsAhead, places[count - 1]);
}

// Adds weighted values of groups of four slots: low and high digits apart. `v`: the first of the elements in slot 0.
// FAR: the ring is in no near cache.
template <bool BOUNCE, bool FAR>
inline void weigh_values(const int8_t* v, const int8_t* end, int groups, AttentionBuffers& b, Vec low[4], Vec high[4]) {
    Vec l[4], h[4];
    for (int i = 0; i < 4; i++) l[i] = h[i] = zero();
    const int32_t* places = b.places;
    for (int g = 0; g < groups; g++, places += 4) {
        Bytes four[4], q4[4];
        for (int r = 0; r < 4; r++) {
            const int8_t* at = v + places[r];
            if constexpr (FAR) prefetch(v + places[kSlotsAhead + r]);
            four[r] = BOUNCE ? ring_bytes(at, end, b.bounce[r]) : load_bytes(at);
        }
        interleave4(four[0], four[1], four[2], four[3], q4);
        const Bytes low_digits = spread_word(b.low[g]), high_digits = spread_word(b.high[g]);
        for (int i = 0; i < 4; i++) {
            l[i] = dot_value(l[i], q4[i], low_digits);
            h[i] = dot_value(h[i], q4[i], high_digits);
        }
    }
    for (int i = 0; i < 4; i++) low[i] = l[i], high[i] = h[i];
}

// num [head_width] of a head: the sum of the values by their weights.
inline void attention_values(const Model& m, int head, const int8_t* ring, int populated, int64_t den,
                             const int32_t* weights, AttentionBuffers& b) {
    const int d = m.head_width;
    const int count = keep_nonzero(weights, populated, b.places, b.kept);
    const int groups = (count + 3) / 4;
    const int64_t last = b.places[count - 1] * int64_t(m.width);
    weight_digits(b.kept, count, m.width, b.places, reinterpret_cast<uint8_t*>(b.low), reinterpret_cast<uint8_t*>(b.high));
    const int8_t* end = ring + int64_t(m.slots) * m.width;
    for (int at = 0; at < d; at += kVector) {
        const int8_t* v = ring + head * d + at;
        Vec low[4], high[4];
        if (v + last + kVector > end)
            weigh_values<true, false>(v, end, groups, b, low, high);
        else if (populated * m.width > kNearRing)
            weigh_values<false, true>(v, end, groups, b, low, high);
        else
            weigh_values<false, false>(v, end, groups, b, low, high);
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

inline void scaled(const int32_t* __restrict num, int count, double scale, int32_t* __restrict o) {
    for (int i = 0; i < count; i++) o[i] = rounded(num[i] * scale, 31);
}

// o [D], with 6 fraction bits, of heads [first, last). q [D]; the rings [slots][D] hold the token already. `cold`: no
// earlier token of this pass has read them.
inline void attention(const Model& m, int first, int last, const int8_t* q, const int8_t* ring_k, const int8_t* ring_v,
                      int64_t position, bool cold, int32_t* o, AttentionBuffers& b) {
    const int d = m.head_width;
    const int populated = int(std::min<int64_t>(position + 1, m.slots));
    ring_distances(m, position, populated, b.distances);
    pad_queries(m, first, last, q, b);
    attention_dots(m, first, last, q, ring_k, cold ? ring_v : nullptr, populated, b);
    for (int head = first; head < last; head++) {
        int32_t* dots = b.dots[head - first];
        const int64_t den = attention_weights(1 << m.score_frac, kKeyBias * b.totals[head - first], m.slopes[head],
                                              populated, dots, b.distances);
        if (den == 0) {
            std::fill(o + head * d, o + (head + 1) * d, 0);
            continue;
        }
        attention_values(m, head, ring_v, populated, den, dots, b);
        const int n = bit_length(den);
        const double scale = double((int64_t(1) << (n + 16)) / den) * power_of_two(24 - n - 34);
        scaled(b.num, d, scale, o + head * d);
    }
}

}  // namespace symlight
