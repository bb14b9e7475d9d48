// Passes that follow each other without the caller: every session goes on with the token that was chosen for it.
#pragma once
#include "engine.h"

namespace symlight {

// Puts the tokens of `slice` into the next pass; false where nothing is left to do.
inline bool Engine::add(Slice& slice) {
    const bool begun = slice.due == 0;
    if (begun && (slice.made == slice.most || slice.chosen[slice.made - 1] == slice.end)) return false;
    const int count = begun ? 1 : slice.due;
    for (int t = 0; t < count; t++) {
        Item item{};
        item.membrane = slice.membrane, item.decay = slice.decay, item.ring_k = slice.ring_k, item.ring_v = slice.ring_v;
        item.want = slice.most > 0 && t + 1 == count;
        if (item.want) item.sampler = slice.sampler;
        item.position = slice.position + t;
        item.token = begun ? slice.chosen[slice.made - 1] : slice.tokens[t];
        given_.push_back(item);
    }
    slice.position += count;
    return true;
}

// What the pass that ended with `last` brought.
inline void Engine::take(Slice& slice, const Item& last) {
    slice.due = 0;
    if (last.want) slice.chosen[slice.made++] = last.best;
}

inline void Engine::add_up(Sums& sums) const {
    const int sites = m_.layers * kSites, stride = sites + m_.layers + 2;
    for (size_t t = 0; t < given_.size(); t++) {
        for (int i = 0; i < sites; i++) sums.active[i] += counted_[t * stride + i];
        sums.heads += given_[t].want != 0;
    }
    sums.passes += int64_t(given_.size());
}

inline void Engine::run(Slice* const* slices, int count, int64_t nanoseconds, Sums& sums) {
    const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(nanoseconds);
    const int sites = m_.layers * kSites, stride = sites + m_.layers + 2;
    std::vector<int> last(count);  // item of each slice in a pass; -1: none
    do {
        given_.clear();
        for (int i = 0; i < count; i++) last[i] = add(*slices[i]) ? int(given_.size()) - 1 : -1;
        if (given_.empty()) return;
        counted_.assign(given_.size() * stride, 0);
        for (size_t t = 0; t < given_.size(); t++) {
            given_[t].active = counted_.data() + t * stride;
            given_[t].optional = given_[t].active + sites;
        }
        run(given_.data(), int(given_.size()));
        for (int i = 0; i < count; i++)
            if (last[i] >= 0) take(*slices[i], given_[last[i]]);
        add_up(sums);
    } while (Clock::now() < end);
}

}  // namespace symlight
