// Plain C++: no intrinsic, for every other processor and as the yardstick of the others.
#pragma once

namespace symlight {

struct Vec {
    int32_t lane[4];
};
struct Bytes {
    uint8_t byte[16];
};
constexpr int kLanes = 4;
constexpr int kWeightBias = 0, kKeyBias = 0, kValueBias = 0;
constexpr int kTokens = 2;
constexpr int kDotCost = 8;

inline Vec zero() { return Vec{}; }
inline Vec load(const int32_t* from) {
    Vec v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
inline void store(int32_t* to, Vec v) { std::memcpy(to, &v, sizeof v); }
inline Vec spread(int32_t v) { return Vec{{v, v, v, v}}; }
inline Bytes load_bytes(const void* from) {
    Bytes v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
inline void store_bytes(void* to, Bytes v) { std::memcpy(to, &v, sizeof v); }
inline Bytes spread_word(int32_t four) {
    Bytes v;
    for (int i = 0; i < 4; i++) std::memcpy(v.byte + 4 * i, &four, sizeof four);
    return v;
}
inline void prefetch(const void*) {}
inline void prefetch_far(const void*) {}

inline Vec dot_weight(Vec acc, Bytes w, Bytes e) {
    for (int i = 0; i < 16; i++) acc.lane[i / 4] += (w.byte[i] - 128) * static_cast<int8_t>(e.byte[i]);
    return acc;
}
inline Vec dot_key(Vec acc, Bytes k, Bytes x) {
    for (int i = 0; i < 16; i++) acc.lane[i / 4] += static_cast<int8_t>(k.byte[i]) * static_cast<int8_t>(x.byte[i]);
    return acc;
}
inline Vec dot_value(Vec acc, Bytes v, Bytes digits) {
    for (int i = 0; i < 16; i++) acc.lane[i / 4] += static_cast<int8_t>(v.byte[i]) * digits.byte[i];
    return acc;
}
inline int32_t sum(Vec v) { return v.lane[0] + v.lane[1] + v.lane[2] + v.lane[3]; }

inline void sum4(const Vec v[4], int32_t sums[4]) {
    for (int i = 0; i < 4; i++) sums[i] = sum(v[i]);
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
    for (int i = 0; i < 16; i++) {
        uint8_t* group = q[i / 4].byte + i % 4 * 4;
        group[0] = a.byte[i], group[1] = b.byte[i], group[2] = c.byte[i], group[3] = d.byte[i];
    }
}

}  // namespace symlight
