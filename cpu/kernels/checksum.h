// A checksum that runs at the speed of memory: it guards cached weights against damage, not against anybody.
#pragma once
#include <cstdint>
#include <cstring>

namespace symlight {

constexpr int kSumLanes = 64;            // 32-bit words that are summed beside each other
constexpr int64_t kSumPart = 1 << 20;    // bytes that have a sum of their own, so that threads can share the work

// Of one part; also copies it unless `copy` is null. Every step is a bijection of a lane's sum, so that no change of a
// single word gets lost.
inline uint64_t checksum_part(const uint8_t* data, uint8_t* copy, int64_t size) {
    uint32_t lanes[kSumLanes];
    for (int i = 0; i < kSumLanes; i++) lanes[i] = uint32_t(i + 1);
    int64_t at = 0;
    for (; at + int64_t(sizeof lanes) <= size; at += sizeof lanes) {
        uint32_t words[kSumLanes];
        std::memcpy(words, data + at, sizeof words);
        for (int i = 0; i < kSumLanes; i++) lanes[i] = (lanes[i] ^ words[i]) * 0x9E3779B1u + 0x7F4A7C15u;
        if (copy) std::memcpy(copy + at, words, sizeof words);
    }
    uint64_t sum = uint64_t(size);
    for (; at < size; at++) {
        sum = (sum ^ data[at]) * 0x100000001B3u;
        if (copy) copy[at] = data[at];
    }
    for (uint32_t lane : lanes) sum = (sum ^ lane) * 0x9E3779B97F4A7C15u + 1;
    return sum;
}

}  // namespace symlight
