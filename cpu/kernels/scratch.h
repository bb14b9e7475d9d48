// Working memory of a pass.
#pragma once
#include <memory>
#include <vector>

#include "attention.h"
#include "events.h"
#include "sampler.h"

namespace symlight {

// One token of a pass. Pointers are those of abi.h's Part, at this token; `logits` and the `undo_*` may be null.
struct Item {
    int16_t *membrane, *decay;
    int8_t *ring_k, *ring_v;
    int64_t* logits;
    int32_t *active, *optional;
    int16_t *undo_membrane, *undo_decay;
    int8_t *undo_k, *undo_v;
    const Sampler* sampler;  // of the next token; null: the largest logit
    int64_t position;
    int32_t token, want, best;
};

// T rows of one type; rows begin 64 bytes apart or more, and their padding stays zero.
template <typename T>
class Rows {
   public:
    void resize(int rows, int width) {
        stride_ = (width * int(sizeof(T)) + 63) / 64 * 64 / int(sizeof(T));
        data_.assign(int64_t(rows) * stride_ + 64, T{});
    }
    T* operator[](int row) { return data_.data() + int64_t(row) * stride_; }
    int64_t stride() const { return stride_; }

   private:
    int stride_ = 0;
    std::vector<T> data_;
};

// What belongs to a token between the matrices. A pass over one token keeps it once per thread, so that every thread
// works it out for itself and no barrier is needed; a pass over several keeps it once and divides the tokens.
struct Stream {
    Rows<int32_t> c, u;
    Rows<int8_t> e, s;
    EventList events, spikes;

    void reserve(const Model& m, int items) {
        c.resize(items, m.width), u.resize(items, m.width);
        e.resize(items, m.width), s.resize(items, m.width);
        events.reserve(std::max(m.ffn, m.width + m.bottleneck), items), spikes.reserve(m.width, items);
    }
};

// What all threads share: results of the matrices, divided by outputs.
struct Shared {
    Rows<int8_t> first_spikes, qkv, mixed, f, head_input, fused_input;
    Rows<int16_t> z;
    Rows<int32_t> pre;

    void reserve(const Model& m, int items) {
        first_spikes.resize(items, m.width), qkv.resize(items, 3 * m.width), mixed.resize(items, m.width);
        f.resize(items, m.ffn), head_input.resize(items, m.width), z.resize(items, m.width);
        fused_input.resize(items, m.width + m.bottleneck), pre.resize(items, m.width);
    }
};

struct Private {
    std::vector<int32_t> acc, totals, output;
    std::vector<uint8_t> tile;
    AttentionBuffers attention;
    std::vector<int64_t> best;
    std::vector<int32_t> best_token;
    std::vector<Candidates> candidates;  // of the rows with a sampler

    void reserve(const Model& m, int items) {
        const int widest = std::max({3 * m.width, m.ffn, m.head.fused.by_row ? m.vocab : 0});
        acc.resize(std::max(padded(widest), kWide * kStrip * items) + 16);
        totals.resize(items), best.resize(items), best_token.resize(items);
        output.resize(m.width), tile.resize(kWide * kTileBytes + kLine);
    }
};

}  // namespace symlight
