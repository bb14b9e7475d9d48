// Rotary positions, the bounded key-value cache, and softmax attention of one head.
//
// Keys are stored by element, so that scores of sixteen slots are formed at a time; values by slot. Slots: the anchors,
// then the window as a ring. A slot whose position had no spike is never seen.
#pragma once
#include <limits>

#include "floats.h"
#include "v1_abi.h"

namespace symlight::v1 {

struct Cache {
    float* keys;            // [head width][padded slots]
    float* values;          // [slots][head width]
    const uint8_t* spikes;  // [padded slots]: 1 where the slot's position had a spike
    int64_t slots;          // padded
};

// Elements i and i + d/2 turned by the angle whose cosine and sine are given.
inline void turn(float* x, const float* cosine, const float* sine, int width) {
    const int half = width / 2;
    for (int i = 0; i < half; i++) {
        const float first = x[i], second = x[i + half];
        x[i] = fused(first, cosine[i], -(second * sine[i]));
        x[i + half] = fused(second, cosine[i], first * sine[i]);
    }
}

inline void remember(const Cache& cache, int64_t slot, const float* key, const float* value, int width) {
    for (int i = 0; i < width; i++) cache.keys[i * cache.slots + slot] = key[i];
    std::memcpy(cache.values + slot * width, value, width * sizeof(float));
}

// out [width] of a query over the slots [0, populated); at least one of them has a spike. `scores` [padded slots].
inline void attend(const Cache& cache, const float* query, int64_t populated, float scale, int width, float* scores,
                   float* out) {
    const float never = -std::numeric_limits<float>::infinity();
    Floats best = spread(never);
    for (int64_t s = 0; s < populated; s += kLanes) {
        Floats score = {};
        for (int i = 0; i < width; i++) score += spread(query[i]) * load(cache.keys + i * cache.slots + s);
        float part[kLanes];
        store(part, score * spread(scale));
        for (int j = 0; j < kLanes; j++)
            if (s + j >= populated || !cache.spikes[s + j]) part[j] = never;
        score = load(part);
        best = larger(best, score);
        store(scores + s, score);
    }
    const Floats most = spread(largest(best));
    Floats total = {};
    for (int64_t s = 0; s < populated; s += kLanes) {
        const Floats weight = exponential(load(scores + s) - most);
        total += weight;
        store(scores + s, weight);
    }
    const float norm = 1.0f / sum(total);
    std::fill(out, out + width, 0.0f);
    for (int64_t s = 0; s < populated; s++) {
        const float weight = scores[s] * norm;
        if (weight == 0) continue;
        const float* value = cache.values + s * width;
        for (int i = 0; i < width; i++) out[i] += weight * value[i];
    }
}

}  // namespace symlight::v1
