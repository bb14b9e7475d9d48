// The elementwise integer arithmetic of docs/arithmetic.md; names follow model/ops.py.
#pragma once
#include <algorithm>
#include <cstdint>

namespace symlight {

inline int64_t rnd(int64_t x, int s) { return (x + (int64_t(1) << (s - 1)) + (x >> 63)) >> s; }
inline int64_t clamp(int64_t x, int64_t low, int64_t high) { return std::max(std::min(x, high), low); }
inline int64_t sat(int64_t x, int bits) {
    return clamp(x, -(int64_t(1) << (bits - 1)), (int64_t(1) << (bits - 1)) - 1);
}
inline int64_t sat127(int64_t x) { return clamp(x, -127, 127); }
inline int64_t requantise(int64_t acc, int32_t multiplier, int32_t shift) {
    return sat(rnd(acc * multiplier, shift), 18);
}
inline int64_t event(int64_t acc, int32_t threshold, int32_t multiplier, int32_t shift) {
    const int64_t value = sat127(requantise(acc, multiplier, shift));
    return std::abs(acc) >= threshold ? value : 0;
}
inline int bit_length(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }

// One step of the input neuron; gives the spike.
inline int8_t lif_step(int16_t& membrane, int32_t x, int32_t leak, int32_t bound, int32_t threshold) {
    int64_t v = rnd(int64_t(membrane) * leak, 15) + x;
    v = clamp(v, -bound, bound);
    const bool spike = v >= threshold;
    membrane = spike ? 0 : int16_t(v);
    return spike;
}

inline int16_t decay_step(int16_t h, int32_t z, int32_t beta) {
    return int16_t(h + rnd(int64_t(z - h) * beta, 16));
}

// Layer normalisation of pre [width] -> y [width].
inline void layer_norm(const int32_t* pre, const Norm& norm, const int32_t* rsqrt, int64_t inv_width, int width,
                       int32_t* y) {
    int64_t total = 0, squares = 0;
    for (int i = 0; i < width; i++) {
        total += pre[i];
        squares += int64_t(pre[i]) * pre[i];
    }
    const int64_t mean = rnd(total * inv_width, 32);
    const int64_t spread = squares - mean * (2 * total - width * mean) + norm.epsilon;
    const int e = (bit_length(spread) - 1) >> 1;
    const int64_t r = rsqrt[(spread << 6) >> (2 * e)];
    const int32_t centre = int32_t(mean);
    for (int i = 0; i < width; i++) {
        const int64_t n = sat(rnd(int64_t(pre[i] - centre) * r, e - 1), 19);
        y[i] = int32_t(sat(rnd(n * norm.gamma[i], norm.gamma_shift) + norm.beta[i], 16));
    }
}

}  // namespace symlight
