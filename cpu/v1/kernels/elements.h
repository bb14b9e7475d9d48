// Steps on single vectors: normalisation, the encoder's membrane, lists of spikes.
#pragma once
#include <algorithm>

#include "floats.h"
#include "spikes.h"
#include "v1_abi.h"

namespace symlight::v1 {

// to = LayerNorm(from), biased variance. All rows are padded with zeros to whole vectors.
inline void normalise(const Norm& norm, const float* from, float* to, int width, float epsilon) {
    Floats total = {};
    for (int i = 0; i < width; i += kLanes) total += load(from + i);
    const float mean = sum(total) / float(width);
    const int whole = width / kLanes * kLanes;
    Floats squares = {};
    for (int i = 0; i < whole; i += kLanes) {
        const Floats centred = load(from + i) - spread(mean);
        squares += centred * centred;
    }
    float square = sum(squares);
    for (int i = whole; i < width; i++) square += (from[i] - mean) * (from[i] - mean);
    const float factor = 1.0f / std::sqrt(square / float(width) + epsilon);
    for (int i = 0; i < width; i += kLanes)
        store(to + i, (load(from + i) - spread(mean)) * spread(factor) * load(norm.gamma + i) + load(norm.beta + i));
    std::fill(to + width, to + padded(width), 0.0f);
}

// One position of the elements [begin, end): leak, add, clamp, compare, reset.
inline void integrate(const Model& m, float* membrane, const float* c, uint8_t* flags, int begin, int end) {
    for (int i = begin; i < end; i++) {
        float v = membrane[i] * m.leak + c[i];
        v = std::min(std::max(v, -m.bound), m.bound);
        flags[i] = v >= m.threshold;
        membrane[i] = flags[i] ? 0.0f : v;
    }
}

inline void compare(const float* x, float threshold, uint8_t* flags, int width) {
    for (int i = 0; i < width; i++) flags[i] = x[i] >= threshold;
}

// The inputs whose flag is set. `flags` is padded with zeros to a multiple of eight.
inline int list_flags(const uint8_t* flags, int width, int32_t* inputs) {
    int count = 0;
    for (int i = 0; i < width; i += 8) {
        uint64_t eight = load_as<uint64_t>(flags + i);
        while (eight) {
            inputs[count++] = i + __builtin_ctzll(eight) / 8;
            eight &= eight - 1;  // a flag is one bit
        }
    }
    return count;
}

inline float gelu(float x) { return float(0.5 * double(x) * (1.0 + std::erf(double(x) * 0.70710678118654752440))); }

}  // namespace symlight::v1
