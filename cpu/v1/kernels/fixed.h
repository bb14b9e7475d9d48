// Vectors of floats as integers: x = unit * (d0 + 256 d1 + 65536 d2) with signed digits of eight bits.
//
// The unit is the power of two with which the largest element of the vector is below 2^22. So an element is off by at
// most 2^-23 of the largest one, where a float32 of that size is off by 2^-24.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "rows.h"

namespace symlight::v1 {

constexpr int kDigits = 3;
constexpr int kFixedBits = 22;

struct Fixed {
    const int8_t* digits;   // [vectors][kDigits][stride], zero from the width on
    const float* unit;      // [vectors]
    const int32_t* totals;  // [vectors][kDigits]: sums of the digits
    int64_t stride;
};

// Digits, unit and totals of one vector x [width], padded with zeros to whole vectors.
inline void cut(const float* x, int width, int8_t* digits, int64_t stride, float* unit, int32_t* totals) {
    Floats most = {};
    for (int i = 0; i < width; i += kLanes) {
        const Floats v = load(x + i);
        most = larger(most, larger(v, -v));
    }
    int exponent;
    std::frexp(largest(most), &exponent);  // the largest is below 2^exponent
    exponent = std::max(exponent, -100);   // a vector of zeros, or of numbers that do not count
    *unit = std::ldexp(1.0f, exponent - kFixedBits);
    const float factor = std::ldexp(1.0f, kFixedBits - exponent);
    Ints sums[kDigits] = {};
    for (int i = 0; i < width; i += kLanes) {
        const Floats magic = spread(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
        Ints value = __builtin_convertvector((load(x + i) * spread(factor) + magic) - magic, Ints);
        for (int d = 0; d < kDigits; d++) {
            const Ints digit = d + 1 < kDigits ? ((value + 128) & 255) - 128 : value;
            value = (value - digit) >> 8;
            sums[d] += digit;
            typedef int8_t Sixteen __attribute__((vector_size(16)));
            store_as(digits + d * stride + i, __builtin_convertvector(digit, Sixteen));
        }
    }
    for (int d = 0; d < kDigits; d++) {
        totals[d] = 0;
        for (int j = 0; j < kLanes; j++) totals[d] += sums[d][j];
    }
}

// Vectors of floats, and where they are needed their digits.
class Vectors {
   public:
    void reserve(int count, int width, bool fixed) {
        width_ = width;
        floats.reserve(count, width);
        if (!fixed) return;
        digits_.reserve(count, kDigits * padded(width, 64));
        unit_.resize(count), totals_.resize(count * kDigits);
    }
    float* operator[](int t) { return floats[t]; }
    // Row `to` as a matrix needs it, from the floats of row `from`, which are complete.
    void cut(int from, int to) {
        if (unit_.empty() && from != to)
            std::memcpy(floats[to], floats[from], floats.stride() * sizeof(float));
        else if (!unit_.empty())
            v1::cut(floats[from], width_, digits_[to], padded(width_, 64), &unit_[to], &totals_[to * kDigits]);
    }
    Fixed fixed(int from) {
        return {digits_[from], &unit_[from], &totals_[from * kDigits], padded(width_, 64)};
    }

    Rows<float> floats;

   private:
    int width_ = 0;
    Rows<int8_t> digits_;
    std::vector<float> unit_;
    std::vector<int32_t> totals_;
};

}  // namespace symlight::v1
