// Sixteen floats at a time. The compiler maps a vector to the registers that the instruction set has, so that sums are
// formed in the same order everywhere: all instruction sets with fused multiply-add give the same bits.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace symlight::v1 {

constexpr int kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef int16_t Shorts __attribute__((vector_size(64)));  // 32 of them

inline int64_t padded(int64_t n, int64_t unit = kLanes) { return (n + unit - 1) / unit * unit; }

template <typename V>
inline V load_as(const void* from) {
    V v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
template <typename V>
inline void store_as(void* to, V v) {
    std::memcpy(to, &v, sizeof v);
}
inline Floats load(const float* from) { return load_as<Floats>(from); }
inline void store(float* to, Floats v) { store_as(to, v); }
inline Floats spread(float x) { return Floats{} + x; }

// Thirty-two weights as 16-bit integers.
inline Shorts shorts(const int8_t* from) {
#if defined(__AVX512BW__)
    return (Shorts)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i*)from));
#elif defined(__AVX2__)
    const __m256i low = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)from));
    const __m256i high = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(from + 16)));
    Shorts both;
    std::memcpy(&both, &low, 32);
    std::memcpy((char*)&both + 32, &high, 32);
    return both;
#else
    typedef int8_t Half __attribute__((vector_size(32)));
    return __builtin_convertvector(load_as<Half>(from), Shorts);
#endif
}

// a * b + c, rounded once where the processor can. In a * b + c * d the compiler would choose which product is fused.
inline float fused(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

inline float sum(Floats v) {
    float x[kLanes];
    store(x, v);
    for (int half = kLanes / 2; half; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}

inline float largest(Floats v) {
    float x[kLanes];
    store(x, v);
    for (int half = kLanes / 2; half; half /= 2)
        for (int i = 0; i < half; i++) x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
    return x[0];
}

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// e^x for x <= 0, relative error below 2e-7; 0 below -87.
inline Floats exponential(Floats x) {
    const Floats least = spread(-87.0f);
    const Ints far = x < least;
    x = larger(x, least);
    const Floats magic = spread(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    const Floats n = (x * spread(1.44269504f) + magic) - magic;
    const Floats r = (x - n * spread(0.693359375f)) - n * spread(-2.12194440e-4f);
    Floats p = spread(1.0f / 5040);
    for (float coefficient : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
        p = p * r + spread(coefficient);
    const Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
    const Floats result = p * (Floats)power;
    return (Floats)((Ints)result & ~far);
}

inline void prefetch(const void* line) { __builtin_prefetch(line, 0, 3); }

}  // namespace symlight::v1
