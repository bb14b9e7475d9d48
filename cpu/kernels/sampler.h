// How a token is drawn from logits: model/sampling.py, bit for bit. Its constants are in abi.h.
#pragma once
#include <algorithm>
#include <cstdint>

#include "abi.h"

namespace symlight {

struct Candidate {
    int64_t value;
    int32_t id;
};

// The order of candidates: largest first, equal ones by increasing id.
inline bool before(const Candidate& a, const Candidate& b) {
    return a.value != b.value ? a.value > b.value : a.id < b.id;
}

// The kCandidates first of the logits that were offered, in any order.
class Candidates {
   public:
    void clear() { size_ = 0, least_ = INT64_MIN; }

    // A smaller logit is no candidate any more.
    int64_t least() const { return least_; }

    void offer(int64_t value, int32_t id) {
        if (value < least_) return;
        held_[size_++] = {value, id};
        if (size_ == kHeld) shrink();
    }

    void offer(const Candidates& others) {
        for (int i = 0; i < others.size_; i++) offer(others.held_[i].value, others.held_[i].id);
    }

    // Puts them in order; gives their number.
    int order() {
        shrink();
        std::sort(held_, held_ + size_, before);
        return size_;
    }

    const Candidate& operator[](int index) const { return held_[index]; }

   private:
    static constexpr int kHeld = 4 * kCandidates;

    void shrink() {
        if (size_ < kCandidates) return;
        std::nth_element(held_, held_ + kCandidates - 1, held_ + size_, before);
        size_ = kCandidates;
        least_ = held_[kCandidates - 1].value;
    }

    int size_ = 0;
    int64_t least_ = INT64_MIN;
    Candidate held_[kHeld];
};

// 2^-exponent of a distance from the largest logit.
inline int64_t weight(const Sampler& s, int64_t distance) {
    const int coarse = std::max(s.shift - kDistanceBits, 0), fine = s.shift - coarse;
    const int64_t d = std::min(distance >> coarse, (int64_t(1) << kDistanceBits) - 1);
    const int64_t y = std::min((d * s.multiplier + (int64_t(1) << (fine - 1))) >> fine, (int64_t(1) << kOctavesBits) - 1);
    const int64_t mantissa = int64_t(s.exp_table[y & ((1 << kExpIndexBits) - 1)]) << (kWeightFrac - kExpFrac);
    return mantissa >> std::min<int64_t>(y >> kExpIndexBits, kWeightFrac + 1);
}

// Threefry-2x32 with kRounds rounds: the first word of (seed, position).
inline uint32_t random_word(uint64_t seed, uint32_t position) {
    const uint32_t low = uint32_t(seed), high = uint32_t(seed >> 32), keys[3] = {low, high, uint32_t(kParity) ^ low ^ high};
    uint32_t x = position + low, y = high;
    for (int round = 0; round < kRounds; round++) {
        x += y;
        const int turn = kRotations[round % 8];
        y = (y << turn | y >> (32 - turn)) ^ x;
        if (round % 4 == 3) {
            const uint32_t step = round / 4 + 1;
            x += keys[step % 3];
            y += keys[(step + 1) % 3] + step;
        }
    }
    return x;
}

// The token at `position`.
inline int32_t draw(const Sampler& s, Candidates& candidates, int64_t position) {
    int count = std::min(candidates.order(), s.top_k);
    int64_t sums[kCandidates], total = 0;
    for (int i = 0; i < count; i++) {
        const int64_t w = weight(s, candidates[0].value - candidates[i].value);
        if (i && w < s.min_weight) count = i;  // weights never increase
        else sums[i] = total += w;
    }
    int kept = 0;
    while (sums[kept] << kProbabilityFrac < s.top_p * total) kept++;
    const int64_t aim = int64_t(uint64_t(sums[kept]) * random_word(s.seed, uint32_t(position)) >> 32);
    return candidates[int(std::upper_bound(sums, sums + kept + 1, aim) - sums)].id;
}

}  // namespace symlight
