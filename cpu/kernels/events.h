// Lists of the nonzero inputs of vectors, as matrix.h wants them.
#pragma once
#include <tuple>
#include <vector>

#include "matrix.h"
#include "ops.h"
#include "team.h"

namespace symlight {

// Rows of one list and their words: four events of a group.
struct RowList {
    std::vector<int32_t> rows;
    std::vector<uint8_t> words;
    int count = 0, groups = 0;

    // `words_of_group`: as many vectors share the rows.
    void reserve(int inputs, int words_of_group) {
        rows.resize(inputs + 20);
        words.resize(int64_t(4) * (inputs / 4 + 1) * words_of_group);
    }

    // The rows in which `any` is nonzero, or all of them. `any` can be read up to the next multiple of 64.
    void choose(const int8_t* any, int inputs, bool all) {
        count = inputs;
        if (all)
            for (int i = 0; i < inputs; i++) rows[i] = i;
        else
            count = nonzero(any, inputs, rows.data());
        groups = (count + 3) / 4;
        for (int i = count; i < 4 * groups; i++) rows[i] = rows[count - 1];
    }

    // The words of groups [begin, end) of `vectors` vectors.
    void fill(const int8_t* __restrict e, int64_t stride, int vectors, int begin, int end) {
        for (int g = begin; g < end; g++) {
            const int32_t* four = rows.data() + 4 * g;
            uint8_t* __restrict to = words.data() + int64_t(4) * g * vectors;
            const int known = std::min(4, count - 4 * g);
            for (int t = 0; t < vectors; t++, to += 4) {
                const int8_t* from = e + t * stride;
                if (known == 4) {
                    for (int r = 0; r < 4; r++) to[r] = uint8_t(from[four[r]]);
                } else {
                    for (int r = 0; r < 4; r++) to[r] = r < known ? uint8_t(from[four[r]]) : 0;
                }
            }
        }
    }
};

class EventList {
   public:
    void reserve(int inputs, int vectors) {
        shared_.reserve(inputs, vectors);
        own_.resize(vectors), each_.resize(vectors), totals_.resize(vectors);
        if (vectors > 1)
            for (RowList& own : own_) own.reserve(inputs, 1);
        any_.resize(inputs + 64);
    }
    const Events& view() const { return view_; }
    int rows() const { return shared_.count; }

    // The list of one vector of signed bytes, which can be read up to the next multiple of 64; with `all` zero events
    // keep their rows.
    void build(const int8_t* e, int inputs, bool all) {
        shared_.choose(e, inputs, all);
        shared_.fill(e, 0, 1, 0, shared_.groups);
        totals_[0] = total(e, inputs);
        view_ = events(shared_, 1, 0);
    }

    // Of several vectors, in two steps: `choose` once, then `fill`, whose work the threads share.
    void choose(const int8_t* e, int64_t stride, int inputs, int vectors, bool all) {
        e_ = e, stride_ = stride, inputs_ = inputs;
        std::memcpy(any_.data(), e, inputs);
        int64_t events_of_all = nonzeros(e, inputs);
        for (int t = 1; t < vectors; t++) events_of_all += unite(any_.data(), e + t * stride, inputs);
        shared_.choose(any_.data(), inputs, all);
        // In operations on a vector of the processor: four rows of a strip are loaded, interleaved and multiplied. Rows
        // that are read again and again wait for a cache, too (measured).
        const int64_t apart = events_of_all * (28 + 4 * kDotCost);
        const int64_t together = int64_t(shared_.count) * (18 + 4 * vectors * kDotCost);
        apart_ = !all && apart < together;
        straight_ = !apart_ && shared_.count >= inputs - inputs / 16;
        if (straight_) shared_.choose(any_.data(), inputs, true);
        view_ = events(shared_, vectors, 0);
        if (straight_) view_.words = reinterpret_cast<const uint8_t*>(e), view_.of_vector = stride, view_.of_group = 4;
        if (apart_) view_.each = each_.data();
    }

    void fill(int thread, int threads) {
        auto [begin, end] = share(view_.vectors, thread, threads);
        for (int t = begin; t < end; t++) {
            const int8_t* e = e_ + t * stride_;
            totals_[t] = total(e, inputs_);
            if (!apart_) continue;
            own_[t].choose(e, inputs_, false);
            own_[t].fill(e, 0, 1, 0, own_[t].groups);
            each_[t] = events(own_[t], 1, t);
        }
        if (apart_ || straight_) return;
        std::tie(begin, end) = share(shared_.groups, thread, threads);
        shared_.fill(e_, stride_, view_.vectors, begin, end);
    }

   private:
    // The number of nonzero elements of e, which are or-ed into `any`.
    static int unite(int8_t* __restrict any, const int8_t* __restrict e, int inputs) {
        int32_t found = 0;
        for (int i = 0; i < inputs; i++) {
            any[i] |= e[i];
            found += e[i] != 0;
        }
        return found;
    }

    Events events(const RowList& list, int vectors, int first) const {
        return {vectors, list.groups, list.rows.data(), list.words.data(), 4, int64_t(4) * vectors,
                totals_.data() + first, nullptr};
    }

    RowList shared_;
    std::vector<RowList> own_;
    std::vector<Events> each_;
    Events view_{};
    std::vector<int32_t> totals_;
    std::vector<int8_t> any_;
    const int8_t* e_ = nullptr;
    int64_t stride_ = 0;
    int inputs_ = 0;
    bool apart_ = false, straight_ = false;
};

}  // namespace symlight
