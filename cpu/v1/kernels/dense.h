// Matrix times vectors of floats: out[t][o] = scale[o] * sum over i of w[o][i] * x[t][i].
//
// int8 weights lie in blocks of 16 outputs, in which four inputs of each output lie together, as weight + 128: read
// once, from end to end. A vector is cut into three signed digits of base 256 (fixed.h), so that the sums are those of
// integers: exact, and the same on every instruction set and in every chunk.
//
// float32 weights lie by row. A row and a vector have one accumulator of sixteen lanes, whatever the number of rows and
// vectors that are worked on together: a result does not depend on the chunk that its position came in.
#pragma once
#include <algorithm>

#include "fixed.h"
#include "floats.h"
#include "isa.h"
#include "v1_abi.h"

namespace symlight::v1 {

constexpr int kBlock = 16;                             // outputs of a block
constexpr int kParts = kBlock / symlight::kLanes;      // registers of a group of a block
constexpr int kPartBytes = 64 / kParts;
constexpr int kFetch = 4096;                           // bytes that a sequential read is prefetched ahead
#if defined(__AVX512F__)
constexpr int kStrip = 4, kPair = 2;                   // blocks and vectors that share registers in a chunk
#else
constexpr int kStrip = 1, kPair = 1;
#endif
constexpr int kRowUnit = kBlock * kStrip;              // outputs of a thread's share and of a panel

// ---- int8 -----------------------------------------------------------------------------------------

inline int64_t block_bytes(const Matrix& m) { return padded(m.inputs, 4) * kBlock; }

// Hands use(output, vector, value) the outputs of a block out of its three sums.
template <typename Use>
inline void deliver(const Matrix& m, const Vec (&sums)[kDigits][kParts], const Fixed& x, int t, int o, Use use) {
    int32_t digit[kDigits][kBlock];
    for (int d = 0; d < kDigits; d++)
        for (int j = 0; j < kParts; j++) symlight::store(digit[d] + j * symlight::kLanes, sums[d][j]);
    float value[kBlock];
    for (int i = 0; i < kBlock; i++) {
        const double whole = double(digit[2][i]) * 65536 + double(digit[1][i]) * 256 + double(digit[0][i]);
        value[i] = float(whole * double(x.unit[t]));
    }
    const int last = std::min(kBlock, m.outputs - o);
    for (int i = 0; i < last; i++) use(o + i, t, m.scale[o + i] * value[i]);
}

// BLOCKS blocks from output o on, times T vectors from t on.
template <int BLOCKS, int T, typename Use>
inline void blocks(const Matrix& m, const Fixed& x, int t, int o, Use use) {
    const uint8_t* w = m.data + o / kBlock * block_bytes(m);
    const int64_t size = block_bytes(m);
    Vec sums[BLOCKS][T][kDigits][kParts];
    for (int v = 0; v < T; v++)
        for (int d = 0; d < kDigits; d++)
            for (int b = 0; b < BLOCKS; b++)
                for (int j = 0; j < kParts; j++)
                    sums[b][v][d][j] = symlight::spread(-kWeightBias * x.totals[(t + v) * kDigits + d]);
    const int8_t* digits[T][kDigits];
    for (int v = 0; v < T; v++)
        for (int d = 0; d < kDigits; d++) digits[v][d] = x.digits + ((t + v) * kDigits + d) * x.stride;
    const int groups = int(padded(m.inputs, 4) / 4);
#pragma GCC unroll 2
    for (int g = 0; g < groups; g++) {
        if (T == 1) prefetch(w + g * 64 + kFetch);
        Bytes weight[BLOCKS][kParts];
        for (int b = 0; b < BLOCKS; b++)
            for (int j = 0; j < kParts; j++) weight[b][j] = load_bytes(w + b * size + g * 64 + j * kPartBytes);
        for (int v = 0; v < T; v++)
            for (int d = 0; d < kDigits; d++) {
                const Bytes four = spread_word(load_word(digits[v][d] + 4 * g));
                for (int b = 0; b < BLOCKS; b++)
                    for (int j = 0; j < kParts; j++)
                        sums[b][v][d][j] = dot_weight(sums[b][v][d][j], weight[b][j], four);
            }
    }
    for (int b = 0; b < BLOCKS; b++)
        for (int v = 0; v < T; v++) deliver(m, sums[b][v], x, t + v, o + b * kBlock, use);
}

template <typename Use>
inline void dense_bytes(const Matrix& m, const Fixed& x, int count, int begin, int end, Use use) {
    for (int o = begin; o < end; o += kRowUnit) {
        if (count == 1) {
            for (int b = 0; b < kRowUnit; b += kBlock) blocks<1, 1>(m, x, 0, o + b, use);
            continue;
        }
        int t = 0;
        for (; t + kPair <= count; t += kPair) blocks<kStrip, kPair>(m, x, t, o, use);
        for (; t < count; t++) blocks<kStrip, 1>(m, x, t, o, use);
    }
}

// ---- float32 ---------------------------------------------------------------------------------------

constexpr int kTile = 4;  // rows and vectors of a tile

template <int ROWS, int T, typename Use>
inline void tile(const float* w, int64_t stride, const float* x, int64_t x_stride, int inputs, Use use) {
    Floats acc[ROWS][T] = {};
    for (int i = 0; i < inputs; i += kLanes) {
        Floats v[T];
        for (int t = 0; t < T; t++) v[t] = load(x + t * x_stride + i);
        for (int r = 0; r < ROWS; r++) {
            const float* row = w + r * stride + i;
            if (T == 1) prefetch(row + ROWS * stride);
            for (int t = 0; t < T; t++) acc[r][t] += load(row) * v[t];
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int t = 0; t < T; t++) use(r, t, sum(acc[r][t]));
}

template <typename Use>
inline void dense_floats(const Matrix& m, const float* x, int64_t x_stride, int count, int begin, int end, Use use) {
    const int64_t stride = m.stride / int64_t(sizeof(float));
    const int inputs = int(padded(m.inputs));
    for (int o = begin; o < end; o += kTile) {
        const float* w = reinterpret_cast<const float*>(m.data) + o * stride;
        for (int t = 0; t < count;) {
            auto result = [&](int r, int v, float value) {
                if (o + r < m.outputs) use(o + r, t + v, value);
            };
            const bool many = t + kTile <= count;
            if (many)
                tile<kTile, kTile>(w, stride, x + t * x_stride, x_stride, inputs, result);
            else
                tile<kTile, 1>(w, stride, x + t * x_stride, x_stride, inputs, result);
            t += many ? kTile : 1;
        }
    }
}

}  // namespace symlight::v1
