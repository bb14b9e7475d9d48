// AVX2. With AVX-VNNI `vpdpbusd` exists for 32 bytes; without it bytes are widened to 16 bits and `vpmaddwd` adds
// pairs: exact, which the saturating `vpmaddubsw` is not.
#pragma once
#include <immintrin.h>

namespace symlight {

using Vec = __m256i;
using Bytes = __m256i;
constexpr int kLanes = 8;
constexpr int kWeightBias = 128, kKeyBias = 128, kValueBias = 0;
constexpr int kTokens = 2;  // of a batch: 16 registers hold 8 accumulators, 4 weights and a broadcast
#if defined(__AVXVNNI__)
constexpr int kDotCost = 1;
#else
constexpr int kDotCost = 9;
#endif

inline Vec zero() { return _mm256_setzero_si256(); }
inline Vec load(const int32_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
inline void store(int32_t* to, Vec v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v); }
inline Vec spread(int32_t v) { return _mm256_set1_epi32(v); }
inline Bytes load_bytes(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline void store_bytes(void* to, Bytes v) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }
inline Bytes spread_word(int32_t four) { return _mm256_set1_epi32(four); }
inline void prefetch(const void* line) { _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T0); }
inline void prefetch_far(const void* line) { _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T1); }

// acc += sum over groups of four of u (unsigned) * s (signed)
inline Vec dot_mixed(Vec acc, Bytes u, Bytes s) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(acc, u, s);
#else
    const __m256i none = _mm256_setzero_si256(), sign = _mm256_cmpgt_epi8(none, s);
    const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi8(u, none), _mm256_unpacklo_epi8(s, sign));
    const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi8(u, none), _mm256_unpackhi_epi8(s, sign));
    return _mm256_add_epi32(acc, _mm256_hadd_epi32(low, high));
#endif
}

inline Vec dot_weight(Vec acc, Bytes w, Bytes e) { return dot_mixed(acc, w, e); }
inline Vec dot_key(Vec acc, Bytes k, Bytes x) {
    return dot_mixed(acc, _mm256_xor_si256(k, _mm256_set1_epi8(-128)), x);
}
inline Vec dot_value(Vec acc, Bytes v, Bytes digits) { return dot_mixed(acc, digits, v); }

inline int32_t sum(Vec v) {
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1)));
}

inline void sum4(const Vec v[4], int32_t sums[4]) {
    const Vec all = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), half);
}

inline int nonzero(const int8_t* x, int count, int32_t* rows) {
    int found = 0;
    for (int i = 0; i < count; i += 32) {
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
        uint32_t mask = ~uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256())));
        if (count - i < 32) mask &= (uint32_t(1) << (count - i)) - 1;
        for (; mask; mask &= mask - 1) rows[found++] = i + __builtin_ctz(mask);
    }
    return found;
}

inline void interleave4(Bytes a, Bytes b, Bytes c, Bytes d, Bytes* q) {
    const Bytes ab_low = _mm256_unpacklo_epi8(a, b), ab_high = _mm256_unpackhi_epi8(a, b);
    const Bytes cd_low = _mm256_unpacklo_epi8(c, d), cd_high = _mm256_unpackhi_epi8(c, d);
    q[0] = _mm256_unpacklo_epi16(ab_low, cd_low);
    q[1] = _mm256_unpackhi_epi16(ab_low, cd_low);
    q[2] = _mm256_unpacklo_epi16(ab_high, cd_high);
    q[3] = _mm256_unpackhi_epi16(ab_high, cd_high);
}

}  // namespace symlight
