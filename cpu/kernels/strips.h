// What both layouts of matrices share: strips of outputs, fetching ahead, constants of the caches.
#pragma once
#include <algorithm>
#include <utility>

#include "abi.h"
#include "isa.h"

namespace symlight {

constexpr int kLine = 64;            // bytes of a line of the caches
constexpr int kStrip = 64;           // outputs that are worked on together; every matrix has whole strips
constexpr int kVector = 4 * kLanes;  // bytes of a vector
constexpr int kWide = 4;             // strips that are fetched together, so that rows are read four lines at a time
constexpr int kNear = 512 << 10;     // bytes of a matrix that stays in a cache: its rows need not be read from end to end
constexpr int kTileGroups = 64;      // groups of four rows that are interleaved at a time: half of an L1 cache
constexpr int kTileBytes = kTileGroups * 4 * kStrip;  // of one strip
constexpr int kAhead = 2048;         // bytes that a sequential read is prefetched ahead

inline bool near(const Matrix& m) { return m.inputs * m.stride <= kNear; }
inline int padded(int outputs) { return (outputs + kStrip - 1) / kStrip * kStrip; }

// Lines that later work will want, fetched a few at a time while the present work is under way.
struct Ahead {
    const uint8_t* base;  // of the lines, or of the rows that they are in
    const int32_t* rows;  // null: one line follows the other
    int64_t stride;
    int lines;  // a step
    int left;   // steps

    void step() {
        if (left <= 0) return;
        left--;
        const uint8_t* from = rows ? base + *rows++ * stride : base;
        for (int i = 0; i < lines; i++) prefetch_far(from + i * kLine);
        if (!rows) base += lines * kLine;
    }
};

inline void start_sums(const int32_t* totals, int vectors, int outputs, int32_t* acc, int64_t acc_stride) {
    for (int t = 0; t < vectors; t++) {
        const Vec start = spread(-kWeightBias * totals[t]);
        for (int o = 0; o < outputs; o += kLanes) store(acc + t * acc_stride + o, start);
    }
}

// N vectors times `groups` groups of a strip. Weights of part i (16 outputs) of group g: w[i] + g * w_step; events of
// vector t in group g: the word at e + t * e_vector + g * e_group.
template <int N>
inline void batch(const uint8_t* const w[4], int64_t w_step, const uint8_t* e, int64_t e_vector, int64_t e_group,
                  int groups, int32_t* acc, int64_t acc_stride, Ahead& ahead) {
    for (int j = 0; j < kStrip / kVector; j++) {
        Vec sums[N][4];
        for (int t = 0; t < N; t++)
            for (int i = 0; i < 4; i++) sums[t][i] = load(acc + t * acc_stride + i * 16 + j * kLanes);
        for (int g = 0; g < groups; g++) {
            ahead.step();
            Bytes weights[4];
            for (int i = 0; i < 4; i++) weights[i] = load_bytes(w[i] + g * w_step + j * kVector);
            for (int t = 0; t < N; t++) {
                const Bytes events = spread_word(load_word(e + t * e_vector + g * e_group));
                for (int i = 0; i < 4; i++) sums[t][i] = dot_weight(sums[t][i], weights[i], events);
            }
        }
        for (int t = 0; t < N; t++)
            for (int i = 0; i < 4; i++) store(acc + t * acc_stride + i * 16 + j * kLanes, sums[t][i]);
    }
}

template <int N = kTokens>
inline void batches(const uint8_t* const w[4], int64_t w_step, const uint8_t* e, int64_t e_vector, int64_t e_group,
                    int groups, int32_t* acc, int64_t acc_stride, int vectors, Ahead& ahead) {
    for (; vectors >= N; vectors -= N) {
        batch<N>(w, w_step, e, e_vector, e_group, groups, acc, acc_stride, ahead);
        e += N * e_vector;
        acc += N * acc_stride;
    }
    if constexpr (N > 1)
        if (vectors) batches<N - 1>(w, w_step, e, e_vector, e_group, groups, acc, acc_stride, vectors, ahead);
}

}  // namespace symlight
