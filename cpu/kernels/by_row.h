// Matrices by row: each input has a row of its outputs, and only the rows of nonzero events are read.
#pragma once
#include "strips.h"

namespace symlight {

// The nonzero inputs of T vectors: the rows in which any of them is nonzero, in groups of four.
struct Events {
    int vectors;
    int groups;            // of four rows; the last is filled up with rows that have no event
    const int32_t* rows;   // [4 * groups]
    const uint8_t* words;  // four signed bytes, the events of group g of vector t, at t * of_vector + g * of_group
    int64_t of_vector, of_group;
    const int32_t* totals;  // [vectors]: sum of all events
    const Events* each;     // [vectors]: each vector alone, where they have little in common; else null
};

#define INLINED __attribute__((always_inline))

// f(0) .. f(N - 1), whose arguments are constants: arrays that are indexed by them stay in registers.
template <int N, typename F>
INLINED inline void repeat(F f) {
    [&]<int... I>(std::integer_sequence<int, I...>) INLINED {
        (f(std::integral_constant<int, I>{}), ...);
    }(std::make_integer_sequence<int, N>{});
}

template <int GROUPS>
inline void sweep(const Matrix& m, const int32_t* rows, const uint8_t* words, const int32_t* next, int32_t* acc,
                  int begin, int end) {
    const uint8_t *row[4 * GROUPS], *soon[4 * GROUPS];
    Bytes events[GROUPS];
    for (int r = 0; r < 4 * GROUPS; r++) {
        row[r] = m.data + rows[r] * m.stride;
        soon[r] = m.data + next[r] * m.stride;
    }
    for (int g = 0; g < GROUPS; g++) events[g] = spread_word(load_word(words + 4 * g));
    for (int o = begin; o < end; o += kStrip) {
        for (int r = 0; r < 4 * GROUPS; r++) prefetch(soon[r] + o);
        int32_t* sums = acc + (o - begin);
        for (int j = 0; j < kStrip / kVector; j++) {
            Bytes q[GROUPS][4];
            for (int g = 0; g < GROUPS; g++) {
                const uint8_t** four = row + 4 * g;
                const int at = o + j * kVector;
                interleave4(load_bytes(four[0] + at), load_bytes(four[1] + at), load_bytes(four[2] + at),
                            load_bytes(four[3] + at), q[g]);
            }
            for (int i = 0; i < 4; i++) {
                int32_t* place = sums + i * 16 + j * kLanes;
                Vec sum = load(place);
                for (int g = 0; g < GROUPS; g++) sum = dot_weight(sum, q[g][i], events[g]);
                store(place, sum);
            }
        }
    }
}

// acc[o - begin], one vector: eight rows a sweep over the outputs, so that sums are loaded and stored once for eight.
inline void rows_one(const Matrix& m, const Events& e, int32_t* acc, int begin, int end) {
    const Vec start = spread(-kWeightBias * e.totals[0]);
    for (int o = 0; o < end - begin; o += kLanes) store(acc + o, start);
    if (e.groups >= 2)  // later rows are fetched in time, by the sweep before theirs
        for (int o = begin; o < end; o += kStrip)
            for (int r = 0; r < 8; r++) prefetch(m.data + e.rows[r] * m.stride + o);
    int g = 0;
    for (; g + 2 <= e.groups; g += 2) {
        const int next = std::min(g + 2, std::max(e.groups - 2, 0));
        sweep<2>(m, e.rows + 4 * g, e.words + 4 * g, e.rows + 4 * next, acc, begin, end);
    }
    if (g < e.groups) sweep<1>(m, e.rows + 4 * g, e.words + 4 * g, e.rows + 4 * g, acc, begin, end);
}

// N vectors times PARTS processor vectors (strips, if more than one) of the outputs, with sums in registers: acc[t * acc_stride + i] for output
// begin + i.
template <int N, int PARTS>
inline void direct(const Matrix& m, const Events& e, int begin, int32_t* acc, int64_t acc_stride) {
    Vec sums[N][PARTS][4];
    repeat<N>([&](auto t) INLINED {
        const Vec start = spread(-kWeightBias * e.totals[t]);
        repeat<PARTS>([&](auto p) INLINED { repeat<4>([&](auto i) INLINED { sums[t][p][i] = start; }); });
    });
    const int64_t stride = m.stride, of_vector = e.of_vector, of_group = e.of_group;
    const uint8_t *data = m.data + begin, *words = e.words;
    const int32_t* rows = e.rows;
    for (int g = 0; g < e.groups; g++, rows += 4, words += of_group) {
        const uint8_t *row0 = data + rows[0] * stride, *row1 = data + rows[1] * stride;
        const uint8_t *row2 = data + rows[2] * stride, *row3 = data + rows[3] * stride;
        Bytes events[N];
        repeat<N>([&](auto t) INLINED { events[t] = spread_word(load_word(words + t * of_vector)); });
        repeat<PARTS>([&](auto p) INLINED {
            constexpr int at = p * kVector;
            Bytes q[4];
            interleave4(load_bytes(row0 + at), load_bytes(row1 + at), load_bytes(row2 + at), load_bytes(row3 + at), q);
            repeat<N>([&](auto t) INLINED {
                repeat<4>([&](auto i) INLINED { sums[t][p][i] = dot_weight(sums[t][p][i], q[i], events[t]); });
            });
        });
    }
    repeat<N>([&](auto t) INLINED {
        repeat<PARTS>([&](auto p) INLINED {
            repeat<4>([&](auto i) INLINED { store(acc + t * acc_stride + p * kStrip + i * 16, sums[t][p][i]); });
        });
    });
}

// N vectors, a strip at a time; two strips where registers suffice.
template <int N>
inline void near_strips(const Matrix& m, const Events& e, int32_t* acc, int64_t acc_stride, int begin, int end) {
    constexpr int kParts = kStrip / kVector;
    int o = begin;
    if constexpr (kParts == 1 && N * 2 <= kTokens)
        for (; o + 2 * kStrip <= end; o += 2 * kStrip) direct<N, 2>(m, e, o, acc + (o - begin), acc_stride);
    for (; o < end; o += kStrip)
        for (int j = 0; j < kParts; j++) direct<N, 1>(m, e, o + j * kVector, acc + (o - begin) + j * kLanes, acc_stride);
}

// Of a matrix in a cache: any number of vectors, up to kTokens of them at a time.
template <int N = kTokens>
inline void rows_near(const Matrix& m, Events e, int32_t* acc, int64_t acc_stride, int begin, int end) {
    for (; e.vectors >= N; e.vectors -= N) {
        near_strips<N>(m, e, acc, acc_stride, begin, end);
        e.words += N * e.of_vector, e.totals += N, acc += N * acc_stride;
    }
    if constexpr (N > 1)
        if (e.vectors) rows_near<N - 1>(m, e, acc, acc_stride, begin, end);
}

// Interleaves `strips` strips of `groups` groups of rows: tile [strips][groups][4][kStrip].
inline void fill_tile(const Matrix& m, const int32_t* rows, int groups, int begin, int strips, uint8_t* tile) {
    for (int g = 0; g < groups; g++) {
        const uint8_t* four[4];
        for (int r = 0; r < 4; r++) four[r] = m.data + rows[4 * g + r] * m.stride + begin;
        for (int s = 0; s < strips; s++)
            for (int j = 0; j < kStrip / kVector; j++) {
                Bytes q[4];
                const int at = s * kStrip + j * kVector;
                interleave4(load_bytes(four[0] + at), load_bytes(four[1] + at), load_bytes(four[2] + at),
                            load_bytes(four[3] + at), q);
                uint8_t* to = tile + s * kTileBytes + 4 * g * kStrip + j * kVector;
                for (int i = 0; i < 4; i++) store_bytes(to + i * kStrip, q[i]);
            }
    }
}

// acc[t * acc_stride + o - begin] of up to kWide strips, any number of vectors. `tile` [kWide * kTileBytes]. What comes
// next, `after` bytes behind `begin` in the same rows, is fetched meanwhile.
inline void rows_strips(const Matrix& m, const Events& e, int32_t* acc, int64_t acc_stride, int begin, int strips,
                        int after, uint8_t* tile) {
    start_sums(e.totals, e.vectors, strips * kStrip, acc, acc_stride);
    for (int from = 0; from < e.groups; from += kTileGroups) {
        const int groups = std::min(kTileGroups, e.groups - from), next = from + groups;
        const int32_t* rows = e.rows + 4 * from;
        fill_tile(m, rows, groups, begin, strips, tile);
        Ahead ahead{m.data + begin, e.rows + 4 * next, m.stride, strips, 4 * std::min(kTileGroups, e.groups - next)};
        if (next == e.groups)
            ahead = {m.data + begin + strips * kStrip, e.rows, m.stride, after / kStrip, 4 * std::min(kTileGroups, e.groups)};
        const uint8_t* words = e.words + from * e.of_group;
        for (int s = 0; s < strips; s++) {
            const uint8_t* part = tile + s * kTileBytes;
            const uint8_t* parts[4] = {part, part + kStrip, part + 2 * kStrip, part + 3 * kStrip};
            batches(parts, 4 * kStrip, words, e.of_vector, e.of_group, groups, acc + s * kStrip, acc_stride,
                    e.vectors, ahead);
        }
    }
}

// Each vector with the rows of its own; they stay in a cache from one vector to the next.
inline void rows_each(const Matrix& m, const Events& e, int32_t* acc, int64_t acc_stride, int begin, int end) {
    for (int t = 0; t < e.vectors; t++)
        if (near(m))
            rows_near(m, e.each[t], acc + t * acc_stride, 0, begin, end);
        else
            rows_one(m, e.each[t], acc + t * acc_stride, begin, end);
}

}  // namespace symlight
