// Matrix times spikes, by input: the weights of an input are contiguous, and only inputs with a spike are read.
//
// int8 weights are added in 16 bits, which up to 256 of them cannot leave, then in 32 bits: sums are exact.
#pragma once
#include <algorithm>

#include "floats.h"
#include "v1_abi.h"

namespace symlight::v1 {

constexpr int kColumnUnit = 64;  // outputs of every packed matrix are a multiple
constexpr int kFlush = 256;      // rows that are added in 16 bits
constexpr int kTogether = 8;     // rows of a sweep over the outputs

struct List {
    const int32_t* inputs;  // those with a spike, in order
    int count;
};

inline void flush(Shorts* sums, int32_t* total, int outputs) {
    for (int o = 0; o < outputs; o += 32) {
        int16_t part[32];
        store_as(part, sums[o / 32]);
        for (int i = 0; i < 32; i++) total[o + i] += part[i];
        sums[o / 32] = Shorts{};
    }
}

// One list: total[o] = sum over the list, outputs [begin, end). `sums` holds (end - begin) / 32 vectors.
inline void sweep_list(const Matrix& m, List list, int begin, int end, Shorts* sums, int32_t* total) {
    const int8_t* data = reinterpret_cast<const int8_t*>(m.data) + begin;
    const int outputs = end - begin;
    std::fill(total, total + outputs, 0);
    std::fill(sums, sums + outputs / 32, Shorts{});
    for (int k = 0; k < list.count; k += kTogether) {
        if (k % kFlush == 0 && k) flush(sums, total, outputs);
        const int rows = std::min(kTogether, list.count - k);
        const int8_t *row[kTogether], *ahead[kTogether];
        for (int r = 0; r < kTogether; r++) {
            row[r] = data + list.inputs[k + std::min(r, rows - 1)] * m.stride;
            ahead[r] = data + list.inputs[std::min(k + kTogether + r, list.count - 1)] * m.stride;
        }
        if (rows == kTogether) {
            for (int o = 0; o < outputs; o += kColumnUnit) {
                Shorts low = sums[o / 32], high = sums[o / 32 + 1];
#pragma GCC unroll 8
                for (int r = 0; r < kTogether; r++) {
                    prefetch(ahead[r] + o);
                    low += shorts(row[r] + o);
                    high += shorts(row[r] + o + 32);
                }
                sums[o / 32] = low, sums[o / 32 + 1] = high;
            }
        } else {
            for (int r = 0; r < rows; r++)
                for (int o = 0; o < outputs; o += 32) sums[o / 32] += shorts(row[r] + o);
        }
    }
    flush(sums, total, outputs);
}

// The same of one strip of kColumnUnit outputs, in registers: for several lists, whose strips then stay in the cache.
inline void strip_list(const Matrix& m, List list, int begin, int32_t* total) {
    const int8_t* data = reinterpret_cast<const int8_t*>(m.data) + begin;
    std::fill(total, total + kColumnUnit, 0);
    for (int k = 0; k < list.count;) {
        Shorts sums[2] = {};
        for (const int end = std::min(k + kFlush, list.count); k < end; k++) {
            const int8_t* row = data + list.inputs[k] * m.stride;
            sums[0] += shorts(row);
            sums[1] += shorts(row + 32);
        }
        flush(sums, total, kColumnUnit);
    }
}

// float32 weights, one output strip at a time; rows are added in order, so that chunks do not change a sum.
inline void strip_list(const Matrix& m, List list, int begin, float* total) {
    Floats sums[kColumnUnit / kLanes] = {};
    for (int k = 0; k < list.count; k++) {
        const float* row = reinterpret_cast<const float*>(m.data + list.inputs[k] * m.stride) + begin;
        for (int j = 0; j < kColumnUnit / kLanes; j++) {
            sums[j] += load(row + j * kLanes);
            if (k + kTogether < list.count)
                prefetch(reinterpret_cast<const float*>(m.data + list.inputs[k + kTogether] * m.stride) + begin +
                         j * kLanes);
        }
    }
    for (int j = 0; j < kColumnUnit / kLanes; j++) store(total + j * kLanes, sums[j]);
}

// The same for one list, all outputs at a time.
inline void sweep_list(const Matrix& m, List list, int begin, int end, float* total) {
    std::fill(total, total + (end - begin), 0.0f);
    for (int k = 0; k < list.count; k += kTogether) {
        const int rows = std::min(kTogether, list.count - k);
        const float *row[kTogether], *ahead[kTogether];
        for (int r = 0; r < kTogether; r++) {
            const int next = std::min(k + kTogether + r, list.count - 1);
            row[r] = reinterpret_cast<const float*>(m.data + list.inputs[k + std::min(r, rows - 1)] * m.stride) + begin;
            ahead[r] = reinterpret_cast<const float*>(m.data + list.inputs[next] * m.stride) + begin;
        }
        for (int o = 0; o < end - begin; o += kLanes) {
            Floats sum = load(total + o);
            for (int r = 0; r < rows; r++) {
                prefetch(ahead[r] + o);
                sum += load(row[r] + o);
            }
            store(total + o, sum);
        }
    }
}

struct SpikeBuffers {
    Shorts* sums;    // [outputs / 32]
    int32_t* total;  // [outputs]
};

// Calls use(output, list, value) for the outputs [begin, end), multiples of kColumnUnit, and `count` lists.
template <typename Use>
inline void spikes(const Matrix& m, const List* lists, int count, int begin, int end, SpikeBuffers buffers, Use use) {
    if (count == 1) {
        float* floats = reinterpret_cast<float*>(buffers.total);
        if (m.single)
            sweep_list(m, lists[0], begin, end, floats);
        else
            sweep_list(m, lists[0], begin, end, buffers.sums, buffers.total);
        for (int o = begin; o < std::min(end, m.outputs); o++)
            use(o, 0, m.single ? floats[o - begin] : m.scale[o] * float(buffers.total[o - begin]));
        return;
    }
    for (int o = begin; o < end; o += kColumnUnit)
        for (int t = 0; t < count; t++) {
            const int last = std::min(kColumnUnit, m.outputs - o);
            if (m.single) {
                float total[kColumnUnit];
                strip_list(m, lists[t], o, total);
                for (int i = 0; i < last; i++) use(o + i, t, total[i]);
            } else {
                strip_list(m, lists[t], o, buffers.total);
                for (int i = 0; i < last; i++) use(o + i, t, m.scale[o + i] * float(buffers.total[i]));
            }
        }
}

}  // namespace symlight::v1
