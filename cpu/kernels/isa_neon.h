// ARM NEON. With the dot product extension `sdot` and `udot`; without it widening multiplies and pairwise adds.
#pragma once
#include <arm_neon.h>

namespace symlight {

using Vec = int32x4_t;
using Bytes = uint8x16_t;
constexpr int kLanes = 4;
constexpr int kWeightBias = 0, kKeyBias = 0, kValueBias = 128;
constexpr int kTokens = 4;  // of a batch: 16 accumulators, 4 weights and a broadcast of 32 registers
#if defined(__ARM_FEATURE_DOTPROD)
constexpr int kDotCost = 2;
#else
constexpr int kDotCost = 6;
#endif

inline Vec zero() { return vdupq_n_s32(0); }
inline Vec load(const int32_t* from) { return vld1q_s32(from); }
inline void store(int32_t* to, Vec v) { vst1q_s32(to, v); }
inline Vec spread(int32_t v) { return vdupq_n_s32(v); }
inline Bytes load_bytes(const void* from) { return vld1q_u8(static_cast<const uint8_t*>(from)); }
inline void store_bytes(void* to, Bytes v) { vst1q_u8(static_cast<uint8_t*>(to), v); }
inline Bytes spread_word(int32_t four) { return vreinterpretq_u8_s32(vdupq_n_s32(four)); }
inline void prefetch(const void* line) { __builtin_prefetch(line, 0, 3); }
inline void prefetch_far(const void* line) { __builtin_prefetch(line, 0, 2); }
inline int8x16_t flipped(Bytes v) { return vreinterpretq_s8_u8(veorq_u8(v, vdupq_n_u8(128))); }

inline Vec dot_signed(Vec acc, int8x16_t a, int8x16_t b) {
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(acc, a, b);
#else
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    const int32x4_t high = vpaddlq_s16(vmull_s8(vget_high_s8(a), vget_high_s8(b)));
    return vaddq_s32(acc, vpaddq_s32(low, high));
#endif
}

inline Vec dot_weight(Vec acc, Bytes w, Bytes e) {
    return dot_signed(acc, flipped(w), vreinterpretq_s8_u8(e));
}
inline Vec dot_key(Vec acc, Bytes k, Bytes x) {
    return dot_signed(acc, vreinterpretq_s8_u8(k), vreinterpretq_s8_u8(x));
}
inline Vec dot_value(Vec acc, Bytes v, Bytes digits) {
    const uint8x16_t biased = vreinterpretq_u8_s8(flipped(v));
#if defined(__ARM_FEATURE_DOTPROD)
    return vreinterpretq_s32_u32(vdotq_u32(vreinterpretq_u32_s32(acc), biased, digits));
#else
    const uint32x4_t low = vpaddlq_u16(vmull_u8(vget_low_u8(biased), vget_low_u8(digits)));
    const uint32x4_t high = vpaddlq_u16(vmull_u8(vget_high_u8(biased), vget_high_u8(digits)));
    return vaddq_s32(acc, vreinterpretq_s32_u32(vpaddq_u32(low, high)));
#endif
}
inline int32_t sum(Vec v) { return vaddvq_s32(v); }

inline void sum4(const Vec v[4], int32_t sums[4]) {
    vst1q_s32(sums, vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3])));
}

inline int nonzero(const int8_t* x, int count, int32_t* rows) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        rows[found] = i;
        found += x[i] != 0;
    }
    return found;
}

inline void interleave4(Bytes a, Bytes b, Bytes c, Bytes d, Bytes* q) {
    const uint16x8_t ab_low = vreinterpretq_u16_u8(vzip1q_u8(a, b)), cd_low = vreinterpretq_u16_u8(vzip1q_u8(c, d));
    const uint16x8_t ab_high = vreinterpretq_u16_u8(vzip2q_u8(a, b)), cd_high = vreinterpretq_u16_u8(vzip2q_u8(c, d));
    q[0] = vreinterpretq_u8_u16(vzip1q_u16(ab_low, cd_low));
    q[1] = vreinterpretq_u8_u16(vzip2q_u16(ab_low, cd_low));
    q[2] = vreinterpretq_u8_u16(vzip1q_u16(ab_high, cd_high));
    q[3] = vreinterpretq_u8_u16(vzip2q_u16(ab_high, cd_high));
}

}  // namespace symlight
