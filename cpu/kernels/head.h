// The decoding head of a pass: only for the tokens that ask for it.
#pragma once
#include "engine.h"

namespace symlight {

inline void Engine::head(Stream& stream, int thread) {
    int wanted = 0;
    for (int t = 0; t < count_; t++) wanted += items_[t].want != 0;
    if (!wanted) return;
    team_.barrier();  // c of all tokens is complete
    const Head& h = m_.head;
    for (int t = 0, row = 0; t < count_; t++) {
        if (!items_[t].want) continue;
        if (row % team_.size() == thread) {
            int8_t *input = shared_.head_input[row], *fused = shared_.fused_input[row];
            events(stream.c[t], m_.width, h.input, input);
            std::copy(input, input + m_.width, fused);
        }
        row++;
    }
    team_.barrier();
    list(h.prior, stream.events, shared_.head_input, wanted, thread);
    multiply_by(kPriorTime, h.prior, stream.events, shared_.head_input, wanted, thread,
                [&](int row, int from, int to, const int32_t* acc) {
                    int8_t* g = shared_.fused_input[row] + m_.width;
                    for (int o = from; o < to; o++)
                        g[o] = h.gelu_table[128 + rounded(acc[o] * double(h.prior_scale[o]), 8)];
                });
    team_.barrier();
    spent(kPriorTime, thread);
    if (thread == 0)
        for (int t = 0, row = 0; t < count_; t++) {
            if (!items_[t].want) continue;
            const int8_t* fused = shared_.fused_input[row++];
            count_optional(t, m_.layers, fused, m_.width, thread);
            count_optional(t, m_.layers + 1, fused + m_.width, m_.bottleneck, thread);
        }
    list(h.fused, stream.events, shared_.fused_input, wanted, thread);
    logits(wanted, stream, thread);
    team_.barrier();
    choose(wanted, thread);
    spent(kHeadTime, thread);
}

// Logits of this thread's share of the vocabulary, and the largest of them (ties go to the lowest id), or candidates.
inline void Engine::logits(int wanted, Stream& stream, int thread) {
    Private& own = own_[thread];
    std::vector<int64_t*> outputs;
    std::vector<Candidates*> candidates;
    for (int t = 0; t < count_; t++) {
        if (!items_[t].want) continue;
        candidates.push_back(items_[t].sampler ? &own.candidates[outputs.size()] : nullptr);
        if (candidates.back()) candidates.back()->clear();
        outputs.push_back(items_[t].logits);
    }
    std::fill_n(own.best.begin(), wanted, INT64_MIN);
    const uint16_t* scale = m_.head.fused_scale;
    multiply_by(kHeadTime, m_.head.fused, stream.events, shared_.fused_input, wanted, thread,
                [&](int row, int from, int to, const int32_t* acc) {
                    int64_t best = own.best[row], largest = INT64_MIN;
                    for (int o = from; o < to; o++) largest = std::max(largest, int64_t(acc[o]) * scale[o]);
                    if (largest > best) {
                        int o = from;
                        while (int64_t(acc[o]) * scale[o] != largest) o++;
                        own.best[row] = largest;
                        own.best_token[row] = o;
                    }
                    if (candidates[row] && largest >= candidates[row]->least())
                        for (int o = from; o < to; o++) candidates[row]->offer(int64_t(acc[o]) * scale[o], o);
                    if (outputs[row])
                        for (int o = from; o < to; o++) outputs[row][o] = int64_t(acc[o]) * scale[o];
                });
}

// The next token of this thread's share of the rows.
inline void Engine::choose(int wanted, int thread) {
    for (int t = 0, row = 0; t < count_ && row < wanted; t++) {
        Item& item = items_[t];
        if (!item.want) continue;
        if (row % team_.size() == thread) {
            if (item.sampler) {
                Candidates& all = own_[0].candidates[row];
                for (int other = 1; other < team_.size(); other++) all.offer(own_[other].candidates[row]);
                item.best = draw(*item.sampler, all, item.position + 1);
            } else {
                int64_t best = INT64_MIN;
                for (const Private& own : own_)
                    if (own.best[row] > best) best = own.best[row], item.best = own.best_token[row];
            }
        }
        row++;
    }
}

}  // namespace symlight
