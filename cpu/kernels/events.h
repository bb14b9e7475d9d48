// Lists of the nonzero inputs of vectors, as matrix.h wants them.
#pragma once
#include <vector>

#include "matrix.h"
#include "ops.h"

namespace symlight {

class EventList {
   public:
    void reserve(int inputs, int vectors) {
        rows_.resize(inputs + 20);
        words_.resize(int64_t(inputs / 4 + 1) * vectors);
        totals_.resize(vectors);
        any_.resize(inputs + 64);
    }
    Events view() const { return {vectors_, groups_, rows_.data(), words_.data(), totals_.data()}; }
    int rows() const { return count_; }

    // The list of one vector of signed bytes, which can be read up to the next multiple of 64; with `all` zero events
    // keep their rows.
    void build(const int8_t* e, int inputs, bool all) {
        choose(e, inputs, all);
        vectors_ = 1;
        fill(e, 0, 0, groups_);
        total(e, inputs, 0);
    }

    // Of several vectors, in three steps that threads may share: `choose` once, then ranges of the other two.
    void choose(const int8_t* e, int64_t stride, int inputs, int vectors, bool all) {
        std::memcpy(any_.data(), e, inputs);
        for (int t = 1; t < vectors; t++) unite(any_.data(), e + t * stride, inputs);
        choose(any_.data(), inputs, all);
        vectors_ = vectors;
    }
    int groups() const { return groups_; }

    void fill(const int8_t* e, int64_t stride, int begin, int end) {
        for (int g = begin; g < end; g++) {
            const int32_t* rows = rows_.data() + 4 * g;
            int32_t* words = words_.data() + int64_t(g) * vectors_;
            const int known = std::min(4, count_ - 4 * g);
            if (known == 4 && rows[3] == rows[0] + 3) {
                for (int t = 0; t < vectors_; t++) words[t] = load_word(e + t * stride + rows[0]);
                continue;
            }
            for (int t = 0; t < vectors_; t++) {
                int8_t four[4] = {};
                for (int r = 0; r < known; r++) four[r] = e[t * stride + rows[r]];
                words[t] = load_word(four);
            }
        }
    }

    void total(const int8_t* e, int inputs, int t) {
        totals_[t] = symlight::total(e, inputs);
    }

   private:
    static void unite(int8_t* __restrict any, const int8_t* __restrict e, int inputs) {
        for (int i = 0; i < inputs; i++) any[i] |= e[i];
    }

    void choose(const int8_t* any, int inputs, bool all) {
        int count = inputs;
        if (all)
            for (int i = 0; i < inputs; i++) rows_[i] = i;
        else
            count = nonzero(any, inputs, rows_.data());
        count_ = count;
        groups_ = (count + 3) / 4;
        for (int i = count; i < 4 * groups_; i++) rows_[i] = rows_[count - 1];
    }

    int vectors_ = 0, groups_ = 0, count_ = 0;
    std::vector<int32_t> rows_, words_, totals_;
    std::vector<int8_t> any_;
};

}  // namespace symlight
