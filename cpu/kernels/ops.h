// The elementwise integer arithmetic of docs/arithmetic.md.
//
// `rnd(x * M, sh)` is computed in double precision, which vectorises on every instruction set and is exact here: M / 2^sh
// is exact in a double, products have at most 49 bits, and adding a half to a product spans at most 50.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "abi.h"

namespace symlight {

// x rounded half away from zero, clamped to [low, high].
inline int32_t rounded(double x, double low, double high) {
    x += std::copysign(0.5, x);
    x = x < low ? low : x;
    x = x > high ? high : x;
    return int32_t(x);  // truncates
}
inline int32_t rounded(double x, int bits) {
    return rounded(x, -double(int64_t(1) << (bits - 1)), double((int64_t(1) << (bits - 1)) - 1));
}
inline int32_t requantise(int32_t acc, double scale) { return rounded(acc * scale, 18); }
inline int32_t clamp(int32_t x, int32_t low, int32_t high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}
inline int32_t sat(int32_t x, int bits) { return clamp(x, -(1 << (bits - 1)), (1 << (bits - 1)) - 1); }
inline int32_t event(int32_t acc, int32_t threshold, double scale) {
    const int32_t value = rounded(acc * scale, -127, 127), size = acc < 0 ? -acc : acc;
    return size < threshold ? 0 : value;
}
// 2^exponent, -1022 <= exponent <= 1023.
inline double power_of_two(int exponent) {
    const uint64_t bits = uint64_t(exponent + 1023) << 52;
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline int bit_length(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }

// rnd of integers, for the few places where nothing is gained by vectors.
inline int64_t rnd(int64_t x, int s) { return (x + (int64_t(1) << (s - 1)) + (x >> 63)) >> s; }

// ---- whole vectors: `__restrict` lets the compiler use vectors of the processor ------------------

inline void events(const int32_t* __restrict acc, int count, const Requantiser& r, int8_t* __restrict e) {
    const int32_t threshold = r.threshold;
    const double scale = r.scale;
    for (int i = 0; i < count; i++) e[i] = int8_t(event(acc[i], threshold, scale));
}

// Each element with a threshold and a scale of its own.
inline void events(const int32_t* __restrict acc, int count, const int32_t* __restrict threshold,
                   const float* __restrict scale, int8_t* __restrict e) {
    for (int i = 0; i < count; i++) e[i] = int8_t(event(acc[i], threshold[i], scale[i]));
}

inline void requantise(const int32_t* __restrict acc, int count, const float* __restrict scale,
                       int16_t* __restrict y) {
    for (int i = 0; i < count; i++) y[i] = int16_t(rounded(acc[i] * double(scale[i]), 16));
}

template <typename Input, typename Threshold>
inline void at_least(const Input* __restrict x, int count, const Threshold* __restrict threshold, int8_t* __restrict s) {
    for (int i = 0; i < count; i++) s[i] = x[i] >= threshold[i];
}

inline void residual(const int32_t* __restrict acc, int count, const float* __restrict scale,
                     const int32_t* __restrict stream, int32_t* __restrict pre) {
    for (int i = 0; i < count; i++) pre[i] = sat(2 * stream[i] + requantise(acc[i], scale[i]), 18);
}

inline int32_t nonzeros(const int8_t* __restrict x, int count) {
    int32_t found = 0;
    for (int i = 0; i < count; i++) found += x[i] != 0;
    return found;
}

inline int32_t total(const int8_t* __restrict x, int count) {
    int32_t sum = 0;
    for (int i = 0; i < count; i++) sum += x[i];
    return sum;
}

// One step of the input neuron; gives the spike. |membrane| * leak < 2^30.
inline int8_t lif_step(int16_t& membrane, int32_t x, int32_t leak, int32_t bound, int32_t threshold) {
    const int32_t product = membrane * leak;
    const int32_t v = clamp(((product + (1 << 14) + (product >> 31)) >> 15) + x, -bound, bound);
    const bool spike = v >= threshold;
    membrane = int16_t(spike ? 0 : v);
    return spike;
}

inline int16_t decay_step(int16_t h, int32_t z, double beta) {
    return int16_t(h + rounded((z - h) * beta, 18));
}

inline void lif_steps(const Model& m, const int16_t* __restrict x, int count, int16_t* __restrict membrane,
                      int8_t* __restrict spikes) {
    const int32_t leak = m.lif_leak, bound = m.lif_clamp, threshold = m.lif_threshold;
    for (int i = 0; i < count; i++) spikes[i] = lif_step(membrane[i], x[i], leak, bound, threshold);
}

inline void decay_steps(int16_t* __restrict h, const int16_t* __restrict z, int count, double beta) {
    for (int i = 0; i < count; i++) h[i] = decay_step(h[i], z[i], beta);
}

// 0 where the rounded value is smaller than the threshold.
inline void mixture(const int32_t* __restrict o, double gain_o, const int16_t* __restrict h, double gain_h,
                    int32_t threshold, int count, int8_t* __restrict y) {
    for (int i = 0; i < count; i++) {
        const int32_t m = rounded(o[i] * gain_o + h[i] * gain_h, -127, 127);
        y[i] = int8_t((m < 0 ? -m : m) < threshold ? 0 : m);
    }
}

// Layer normalisation of pre [width] -> y [width].
inline void layer_norm(const int32_t* __restrict pre, const Norm& norm, const int32_t* rsqrt, int64_t inv_width,
                       int width, int32_t* __restrict y) {
    int64_t total = 0, squares = 0;
    for (int i = 0; i < width; i++) {
        total += pre[i];
        squares += int64_t(pre[i]) * pre[i];
    }
    const int64_t mean = rnd(total * inv_width, 32);
    const int64_t spread = squares - mean * (2 * total - width * mean) + norm.epsilon;
    const int e = (bit_length(spread) - 1) >> 1;
    const double r = rsqrt[(spread << 6) >> (2 * e)] * power_of_two(1 - e);
    const double scale = power_of_two(-norm.gamma_shift);
    const int32_t centre = int32_t(mean);
    const int16_t *__restrict gamma = norm.gamma, *__restrict beta = norm.beta;
    for (int i = 0; i < width; i++) {
        const double n = rounded((pre[i] - centre) * r, 19);
        y[i] = sat(rounded(n * (gamma[i] * scale), 31) + beta[i], 16);
    }
}

}  // namespace symlight
