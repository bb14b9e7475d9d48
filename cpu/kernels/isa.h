// The one layer that knows instruction sets. Everything above is written once, on these names:
//
//   Vec     kLanes 32-bit accumulators              Bytes   4 * kLanes bytes, four per accumulator
//   interleave4(a, b, c, d, q)   four rows of bytes -> four Bytes whose groups of four hold one byte per row
//   dot_weight(acc, w, e)   acc += sum over each group of four of weight * event; about kDotCost instructions
//   dot_key(acc, k, x)      the same of two signed vectors; k comes from a ring
//   dot_value(acc, v, d)    the same of signed values and unsigned digits
//   sum4(v, sums)           the sums of the lanes of four Vecs
//   sum4_halves(v, low, high)   the same of each half of the lanes, where kHalves
//   keep_nonzero(x, count, places, kept)   the nonzero ones of x, in order, and where they were; gives their number. May
//                           write 16 entries too many, and read up to the next multiple of 64 bytes
//   nonzero(x, count, rows) the indices of nonzero bytes, in order; gives their number. May write 16 entries too many,
//                           and read up to the next multiple of 64 bytes
//
// Weights are stored as weight + 128. An instruction set may multiply a biased operand: its accumulators then
// hold kWeightBias * sum(e), kKeyBias * sum(x) or kValueBias * sum(d) too much, which the callers subtract.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(SYMLIGHT_PLAIN)
#include "isa_plain.h"
#elif defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include "isa_avx512.h"
#elif defined(__AVX2__)
#include "isa_avx2.h"
#elif defined(__ARM_NEON)
#include "isa_neon.h"
#else
#include "isa_plain.h"
#endif

namespace symlight {

#if !defined(__AVX512VNNI__) || defined(SYMLIGHT_PLAIN)
constexpr bool kHalves = false;
inline void sum4_halves(const Vec*, int32_t*, int32_t*) {}

inline int keep_nonzero(const int32_t* __restrict x, int count, int32_t* __restrict places, int32_t* __restrict kept) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        places[found] = i, kept[found] = x[i];
        found += x[i] != 0;
    }
    return found;
}
#endif

inline int32_t load_word(const void* from) {
    int32_t word;
    std::memcpy(&word, from, sizeof word);
    return word;
}

}  // namespace symlight
