// AVX-512 with VNNI: `vpdpbusd` multiplies unsigned by signed bytes, 64 products an instruction.
#pragma once
#include <immintrin.h>

namespace symlight {

using Vec = __m512i;
using Bytes = __m512i;
constexpr int kLanes = 16;
constexpr int kWeightBias = 128, kKeyBias = 128, kValueBias = 0;
constexpr int kTokens = 6;  // of a batch: 4 accumulators each, 4 weights and a broadcast fit 32 registers
constexpr int kDotCost = 1;

inline Vec zero() { return _mm512_setzero_si512(); }
inline Vec load(const int32_t* from) { return _mm512_loadu_si512(from); }
inline void store(int32_t* to, Vec v) { _mm512_storeu_si512(to, v); }
inline Vec spread(int32_t v) { return _mm512_set1_epi32(v); }
inline Bytes load_bytes(const void* from) { return _mm512_loadu_si512(from); }
inline void store_bytes(void* to, Bytes v) { _mm512_storeu_si512(to, v); }
inline Bytes spread_word(int32_t four) { return _mm512_set1_epi32(four); }
inline void prefetch(const void* line) { _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T0); }
inline void prefetch_far(const void* line) { _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T1); }

inline Vec dot_weight(Vec acc, Bytes w, Bytes e) { return _mm512_dpbusd_epi32(acc, w, e); }
inline Vec dot_key(Vec acc, Bytes k, Bytes x) {
    return _mm512_dpbusd_epi32(acc, _mm512_xor_si512(k, _mm512_set1_epi8(-128)), x);
}
inline Vec dot_value(Vec acc, Bytes v, Bytes digits) { return _mm512_dpbusd_epi32(acc, digits, v); }
inline int32_t sum(Vec v) { return _mm512_reduce_add_epi32(v); }

inline void sum4(const Vec v[4], int32_t sums[4]) {
    const Vec ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const Vec cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    const Vec all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti32x8_epi32(all, 1));
    const __m128i quarter = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), quarter);
}

constexpr bool kHalves = true;
inline void sum4_halves(const Vec v[4], int32_t low[4], int32_t high[4]) {
    const Vec ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const Vec cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    const Vec all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const Vec both = _mm512_add_epi32(all, _mm512_shuffle_i64x2(all, all, 0xB1));  // lanes of 16 bytes: 0 + 1, 2 + 3
    _mm_storeu_si128(reinterpret_cast<__m128i*>(low), _mm512_castsi512_si128(both));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(high), _mm512_extracti32x4_epi32(both, 2));
}

inline int keep_nonzero(const int32_t* x, int count, int32_t* places, int32_t* kept) {
    int found = 0;
    __m512i index = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (int i = 0; i < count; i += 16) {
        const __m512i values = _mm512_loadu_si512(x + i);
        __mmask16 mask = _mm512_test_epi32_mask(values, values);
        if (count - i < 16) mask &= __mmask16((1u << (count - i)) - 1);
        _mm512_storeu_si512(places + found, _mm512_maskz_compress_epi32(mask, index));
        _mm512_storeu_si512(kept + found, _mm512_maskz_compress_epi32(mask, values));
        found += __builtin_popcount(mask);
        index = _mm512_add_epi32(index, _mm512_set1_epi32(16));
    }
    return found;
}

inline int nonzero(const int8_t* x, int count, int32_t* rows) {
    int found = 0;
    const __m512i step = _mm512_set1_epi32(16);
    __m512i index = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (int i = 0; i < count; i += 64) {
        const __m512i bytes = _mm512_loadu_si512(x + i);
        uint64_t mask = _mm512_test_epi8_mask(bytes, bytes);
        if (count - i < 64) mask &= (uint64_t(1) << (count - i)) - 1;
        for (int part = 0; part < 4; part++) {
            _mm512_storeu_si512(rows + found, _mm512_maskz_compress_epi32(__mmask16(mask), index));
            found += __builtin_popcount(uint32_t(mask & 0xFFFF));
            mask >>= 16;
            index = _mm512_add_epi32(index, step);
        }
    }
    return found;
}

inline void interleave4(Bytes a, Bytes b, Bytes c, Bytes d, Bytes* q) {
    const Bytes ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
    const Bytes cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
    q[0] = _mm512_unpacklo_epi16(ab_low, cd_low);
    q[1] = _mm512_unpackhi_epi16(ab_low, cd_low);
    q[2] = _mm512_unpacklo_epi16(ab_high, cd_high);
    q[3] = _mm512_unpackhi_epi16(ab_high, cd_high);
}

}  // namespace symlight
