// Matrix times vectors of events. Two layouts (cpu/layout.py packs them):
//
//   by row     each input has a row of its outputs, `stride` bytes apart: only the rows of nonzero events are read
//   by output  blocks of 16 outputs, in which four inputs of each output lie together: read once, from end to end
//
// T vectors share one pass over the weights. Sums are exact in 32 bits.
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

// ---- by row ------------------------------------------------------------------------------------

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
    int g = 0;
    for (; g + 2 <= e.groups; g += 2) {
        const int next = std::min(g + 2, std::max(e.groups - 2, 0));
        sweep<2>(m, e.rows + 4 * g, e.words + 4 * g, e.rows + 4 * next, acc, begin, end);
    }
    if (g < e.groups) sweep<1>(m, e.rows + 4 * g, e.words + 4 * g, e.rows + 4 * g, acc, begin, end);
}

inline void start_sums(const int32_t* totals, int vectors, int outputs, int32_t* acc, int64_t acc_stride) {
    for (int t = 0; t < vectors; t++) {
        const Vec start = spread(-kWeightBias * totals[t]);
        for (int o = 0; o < outputs; o += kLanes) store(acc + t * acc_stride + o, start);
    }
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

// ---- by output ---------------------------------------------------------------------------------

// x [T] vectors of signed bytes `x_stride` apart, zero from `inputs` up to the next multiple of four.
struct Dense {
    int vectors;
    const int8_t* x;
    int64_t stride;
    const int32_t* totals;
};

inline int64_t block_bytes(const Matrix& m) { return int64_t((m.inputs + 3) / 4) * 64; }

inline void blocks_one(const Matrix& m, const Dense& d, int32_t* acc, int begin, int end) {
    const int groups = (m.inputs + 3) / 4;
    const Vec start = spread(-kWeightBias * d.totals[0]);
    constexpr int kParts = 16 / kLanes;
    for (int o = begin; o < end; o += 16) {
        const uint8_t* w = m.data + o / 16 * block_bytes(m);
        Vec even[kParts], odd[kParts];
        for (int j = 0; j < kParts; j++) even[j] = start, odd[j] = zero();
        int g = 0;
        for (; g + 2 <= groups; g += 2) {
            const Bytes x0 = spread_word(load_word(d.x + 4 * g)), x1 = spread_word(load_word(d.x + 4 * g + 4));
            prefetch(w + g * 64 + kAhead);
            prefetch(w + g * 64 + kAhead + 64);
            for (int j = 0; j < kParts; j++) {
                even[j] = dot_weight(even[j], load_bytes(w + g * 64 + j * kVector), x0);
                odd[j] = dot_weight(odd[j], load_bytes(w + g * 64 + 64 + j * kVector), x1);
            }
        }
        if (g < groups) {
            const Bytes x0 = spread_word(load_word(d.x + 4 * g));
            for (int j = 0; j < kParts; j++)
                even[j] = dot_weight(even[j], load_bytes(w + g * 64 + j * kVector), x0);
        }
        int32_t both[2][16];
        for (int j = 0; j < kParts; j++) store(both[0] + j * kLanes, even[j]), store(both[1] + j * kLanes, odd[j]);
        for (int i = 0; i < 16; i++) acc[o - begin + i] = both[0][i] + both[1][i];
    }
}

// Of one strip; the following one is fetched meanwhile if there is one.
inline void blocks_strip(const Matrix& m, const Dense& d, int32_t* acc, int64_t acc_stride, int begin, bool more) {
    start_sums(d.totals, d.vectors, kStrip, acc, acc_stride);
    const uint8_t* parts[4];
    for (int i = 0; i < 4; i++) parts[i] = m.data + (begin / 16 + i) * block_bytes(m);
    const int groups = (m.inputs + 3) / 4;
    Ahead ahead{parts[0] + 4 * block_bytes(m), nullptr, 0, 4, more ? groups : 0};
    batches(parts, 64, reinterpret_cast<const uint8_t*>(d.x), d.stride, 4, groups, acc, acc_stride, d.vectors, ahead);
}

// The sum of `size` bytes in groups of four with weights 1, 2, 3, 4 (modulo 2^32): reads at full speed, as a yardstick.
inline int64_t read_sum(const uint8_t* data, int64_t size) {
    const Bytes weights = spread_word(0x04030201);
    Vec sums[8];
    for (Vec& v : sums) v = zero();
    for (int64_t at = 0; at < size; at += 8 * kVector) {
        for (int i = 0; i < 8; i++) {
            prefetch(data + at + i * kVector + kAhead);
            sums[i] = dot_weight(sums[i], load_bytes(data + at + i * kVector), weights);
        }
    }
    int64_t total = 0;
    for (const Vec& v : sums) total += sum(v);
    return total;
}

// ---- either ------------------------------------------------------------------------------------

// Calls use(first, count, acc, acc_stride) for the outputs [begin, end), multiples of kStrip, a part at a time:
// acc[t * acc_stride + i] is the sum of vector t for output first + i. `acc` holds max(end - begin, kWide * kStrip * T),
// `tile` kWide * kTileBytes.
template <typename Use>
inline void multiply(const Matrix& m, const Events& events, const Dense& dense, int begin, int end, int32_t* acc,
                     uint8_t* tile, Use use) {
    const int vectors = m.by_row ? events.vectors : dense.vectors;
    if (begin >= end) return;
    if (vectors == 1 && m.by_row) {
        if (near(m))
            rows_near(m, events, acc, 0, begin, end);
        else
            rows_one(m, events, acc, begin, end);
        use(begin, end - begin, acc, 0);
        return;
    }
    const int most = m.by_row ? kWide * kStrip : kStrip;
    for (int o = begin; o < end; o += most) {
        const int size = std::min(most, end - o), after = std::min(most, end - o - size);
        if (!m.by_row) {
            if (vectors == 1)
                blocks_one(m, dense, acc, o, o + size);
            else
                blocks_strip(m, dense, acc, most, o, after > 0);
        } else if (events.each) {
            rows_each(m, events, acc, most, o, o + size);
        } else if (near(m) && vectors <= 2 * kTokens) {  // for more, interleaving once and for all is better
            rows_near(m, events, acc, most, o, o + size);
        } else {
            rows_strips(m, events, acc, most, o, size / kStrip, after, tile);
        }
        use(o, size, acc, most);
    }
}

}  // namespace symlight
