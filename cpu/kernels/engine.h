// A pass of the model over some tokens: of one session one after the other, or of several sessions together.
#pragma once
#include <chrono>

#include "scratch.h"
#include "team.h"

namespace symlight {

enum Site { kQkv, kDecay, kUp, kDown, kSites };

class Engine {
   public:
    Engine(const Model& model, int threads) : m_(model), team_(threads), streams_(threads), own_(threads) {}

    void run(const Part* parts, int count) {
        given_.clear();
        for (int i = 0; i < count; i++) add(parts[i]);
        run(given_.data(), int(given_.size()));
        const Item* item = given_.data();
        for (int i = 0; i < count; i++) {
            int32_t* best = parts[i].best;
            for (int t = 0; t < parts[i].count; t++, item++)
                if (item->want) *best++ = item->best;
        }
    }

    // Tokens of one session follow each other in `items`. Results and states are in the items and behind their
    // pointers afterwards.
    void run(Item* items, int count) {
        items_ = items, count_ = count;
        reserve();
        if (std::any_of(items, items + count, [](const Item& item) { return item.sampler != nullptr; }))
            for (Private& own : own_)
                if (int(own.candidates.size()) < count) own.candidates.resize(count);
        last_ = Clock::now();
        team_.run([this](int thread) { pass(thread); });
    }

    // Passes over `slices` until each has the tokens it may choose, or until `nanoseconds` are over; one pass at least.
    void run(Slice* const* slices, int count, int64_t nanoseconds, Sums& sums);

    Profile& profile() { return profile_; }
    Team& team() { return team_; }

   private:
    using Clock = std::chrono::steady_clock;

    // The time since the last call belongs to `operation`.
    void spent(Operation operation, int thread) {
        if (thread) return;
        const Clock::time_point now = Clock::now();
        profile_.nanoseconds[operation] += (now - last_).count();
        last_ = now;
    }

    void add(const Part& part) {
        const int64_t layered = int64_t(m_.layers) * m_.width;
        auto at = [](auto* base, int64_t offset) { return base ? base + offset : base; };
        for (int64_t t = 0, row = 0; t < part.count; t++) {
            Item item{};
            item.membrane = part.membrane, item.decay = part.decay, item.ring_k = part.ring_k, item.ring_v = part.ring_v;
            item.want = part.want == kWantAll || (part.want == kWantLast && t + 1 == part.count);
            if (item.want) item.logits = at(part.logits, row++ * m_.vocab), item.sampler = part.sampler;
            item.active = part.active + t * m_.layers * kSites;
            item.optional = part.optional + t * (m_.layers + 2);
            item.undo_membrane = at(part.undo_membrane, t * m_.width), item.undo_decay = at(part.undo_decay, t * layered);
            item.undo_k = at(part.undo_k, t * layered), item.undo_v = at(part.undo_v, t * layered);
            item.position = part.position + t, item.token = part.tokens[t];
            given_.push_back(item);
        }
    }

    void reserve() {
        if (count_ <= capacity_) return;
        capacity_ = count_ + count_ / 2;
        for (int i = 0; i < team_.size(); i++) {
            streams_[i].reserve(m_, i ? 1 : capacity_);
            own_[i].reserve(m_, capacity_);
        }
        shared_.reserve(m_, capacity_);
    }

    bool one() const { return count_ == 1; }
    void meet_if_several() {
        if (!one()) team_.barrier();
    }
    std::pair<int, int> items_of(int thread) const {
        return one() ? std::pair{0, 1} : share(count_, thread, team_.size());
    }
    std::pair<int, int> strips_of(int outputs, int thread) const {
        auto [begin, end] = share(padded(outputs) / kStrip, thread, team_.size());
        return {begin * kStrip, end * kStrip};
    }

    void pass(int thread) {
        Stream& stream = streams_[one() ? thread : 0];
        embed(stream, thread);
        for (int layer = 0; layer < m_.layers; layer++) block(layer, m_.blocks[layer], stream, thread);
        head(stream, thread);
    }

    void embed(Stream& stream, int thread) {
        const auto [begin, end] = share(m_.width, thread, team_.size());
        for (int t = 0; t < count_; t++) {
            const Item& item = items_[t];
            const int16_t* x = m_.embedding + int64_t(item.token) * m_.width;
            lif_steps(m_, x + begin, end - begin, item.membrane + begin, shared_.first_spikes[t] + begin);
            if (item.undo_membrane) std::copy(item.membrane + begin, item.membrane + end, item.undo_membrane + begin);
        }
        team_.barrier();
        const auto [first, last] = items_of(thread);
        for (int t = first; t < last; t++) {
            const int16_t* x = m_.embedding + int64_t(items_[t].token) * m_.width;
            std::copy(x, x + m_.width, stream.c[t]);
            std::copy(shared_.first_spikes[t], shared_.first_spikes[t] + m_.width, stream.s[t]);
            enter_block(0, stream, t, thread);
        }
        spent(kEmbedTime, thread);
    }

    // Events and spikes of a token at the door of a block.
    void enter_block(int layer, Stream& stream, int t, int thread) {
        events(stream.c[t], m_.width, m_.blocks[layer].attention_event, stream.e[t]);
        count(t, layer, kQkv, stream.e[t], m_.width, thread);
        count(t, layer, kDecay, stream.s[t], m_.width, thread);
    }

    void count(int t, int layer, Site site, const int8_t* x, int inputs, int thread) {
        if (one() && thread) return;
        items_[t].active[layer * kSites + site] = nonzeros(x, inputs);
    }

    // Nonzero inputs of a matrix that may have an event site: `place` is the layer of W_O, or layers + 0, 1 of the head.
    void count_optional(int t, int place, const int8_t* x, int inputs, int thread) {
        if (one() && thread) return;
        items_[t].optional[place] = nonzeros(x, inputs);
    }

    // The list of `vectors` vectors; matrices by output need none.
    void list(const Matrix& m, EventList& list, Rows<int8_t>& x, int vectors, int thread) {
        if (!m.by_row) return;
        if (one()) {
            list.build(x[0], m.inputs, m_.every_row);
            spent(kListsTime, thread);
            return;
        }
        if (thread == 0) list.choose(x[0], x.stride(), m.inputs, vectors, m_.every_row);
        team_.barrier();
        list.fill(thread, team_.size());
        team_.barrier();
        spent(kListsTime, thread);
    }

    template <typename Use>
    void multiply_by(Operation operation, const Matrix& m, const EventList& list, Rows<int8_t>& x, int vectors,
                     int thread, Use use) {
        Private& own = own_[thread];
        if (thread == 0) profile_.bytes[operation] += int64_t(m.by_row ? list.rows() : m.inputs) * m.outputs;
        if (!m.by_row)
            for (int t = 0; t < vectors; t++) own.totals[t] = total(x[t], m.inputs);
        const auto [begin, end] = strips_of(m.outputs, thread);
        multiply(m, list.view(), Dense{vectors, x[0], x.stride(), own.totals.data()}, begin, end, own.acc.data(),
                 own.tile.data(), [&](int first, int size, const int32_t* acc, int64_t stride) {
                     const int last = std::min(first + size, m.outputs);
                     for (int t = 0; t < vectors; t++) use(t, first, last, acc + t * stride - first);
                 });
    }

    void block(int layer, const Block& b, Stream& stream, int thread) {
        meet_if_several();
        list(b.qkv, stream.events, stream.e, count_, thread);
        list(b.decay, stream.spikes, stream.s, count_, thread);
        multiply_by(kQkvTime, b.qkv, stream.events, stream.e, count_, thread,
                    [&](int t, int from, int to, const int32_t* acc) {
            events(acc + from, to - from, b.qkv_threshold + from, b.qkv_scale + from, shared_.qkv[t] + from);
        });
        spent(kQkvTime, thread);
        multiply_by(kDecayTime, b.decay, stream.spikes, stream.s, count_, thread, [&](int t, int from, int to, const int32_t* acc) {
            requantise(acc + from, to - from, b.decay_scale + from, shared_.z[t] + from);
        });
        team_.barrier();
        spent(kDecayTime, thread);
        const auto [head, end] = share(m_.heads, thread, team_.size());
        for (int t = 0; t < count_; t++) mix(layer, b, head, end, t, own_[thread]);
        team_.barrier();
        spent(kAttentionTime, thread);
        for (auto [t, end] = items_of(thread); t < end; t++)
            count_optional(t, layer, shared_.mixed[t], m_.width, thread);
        list(b.out, stream.events, shared_.mixed, count_, thread);
        branch(kOutTime, b.out, b.out_scale, stream.events, shared_.mixed, stream.c, thread);
        for (auto [t, end] = items_of(thread); t < end; t++) {
            layer_norm(shared_.pre[t], b.attention_norm, m_.rsqrt, m_.inv_width, m_.width, stream.u[t]);
            events(stream.u[t], m_.width, b.ffn_event, stream.e[t]);
            count(t, layer, kUp, stream.e[t], m_.width, thread);
        }
        meet_if_several();
        spent(kNormTime, thread);
        list(b.up, stream.events, stream.e, count_, thread);
        multiply_by(kUpTime, b.up, stream.events, stream.e, count_, thread, [&](int t, int from, int to, const int32_t* acc) {
            at_least(acc + from, to - from, b.up_threshold + from, shared_.f[t] + from);
        });
        team_.barrier();
        spent(kUpTime, thread);
        list(b.down, stream.events, shared_.f, count_, thread);
        branch(kDownTime, b.down, b.down_scale, stream.events, shared_.f, stream.u, thread);
        for (auto [t, end] = items_of(thread); t < end; t++) {
            count(t, layer, kDown, shared_.f[t], m_.ffn, thread);
            layer_norm(shared_.pre[t], b.ffn_norm, m_.rsqrt, m_.inv_width, m_.width, stream.c[t]);
            at_least(stream.c[t], m_.width, b.spike_threshold, stream.s[t]);
            if (layer + 1 < m_.layers) enter_block(layer + 1, stream, t, thread);
        }
        spent(kNormTime, thread);
    }

    // pre = 2 * stream + requantised product, complete on all threads afterwards.
    void branch(Operation operation, const Matrix& m, const float* scale, const EventList& list,
                Rows<int8_t>& x, Rows<int32_t>& stream, int thread) {
        multiply_by(operation, m, list, x, count_, thread, [&](int t, int from, int to, const int32_t* acc) {
            residual(acc + from, to - from, scale + from, stream[t] + from, shared_.pre[t] + from);
        });
        team_.barrier();
        spent(operation, thread);
    }

    // Decay state, ring, attention and mix of heads [first, last) of one token.
    void mix(int layer, const Block& b, int first, int last, int t, Private& own) {
        const Item& item = items_[t];
        const int d = m_.head_width, width = m_.width, from = first * d, to = last * d;
        int16_t* h = item.decay + int64_t(layer) * width;
        const int16_t* z = shared_.z[t];
        for (int head = first; head < last; head++) decay_steps(h + head * d, z + head * d, d, b.decay_beta[head]);
        const int64_t ring = int64_t(layer) * m_.slots * width, slot = ring + ring_slot(m_, item.position) * width;
        if (item.undo_decay) {
            const int64_t place = int64_t(layer) * width;
            std::copy(h + from, h + to, item.undo_decay + place + from);
            std::copy(item.ring_k + slot + from, item.ring_k + slot + to, item.undo_k + place + from);
            std::copy(item.ring_v + slot + from, item.ring_v + slot + to, item.undo_v + place + from);
        }
        const int8_t *q = shared_.qkv[t], *k = q + width, *v = k + width;
        std::copy(k + from, k + to, item.ring_k + slot + from);
        std::copy(v + from, v + to, item.ring_v + slot + from);
        int32_t* o = own.output.data();
        const bool cold = t == 0 || items_[t - 1].ring_v != item.ring_v;
        attention(m_, first, last, q, item.ring_k + ring, item.ring_v + ring, item.position, cold, o, own.attention);
        mixture(o + from, b.mix_o, h + from, b.mix_h, b.mix_threshold, to - from,
                shared_.mixed[t] + from);
    }

    void head(Stream& stream, int thread);
    void logits(int wanted, Stream& stream, int thread);
    void choose(int wanted, int thread);
    bool add(Slice& slice);
    void take(Slice& slice, const Item& last);
    void add_up(Sums& sums) const;

    const Model& m_;
    Team team_;
    std::vector<Stream> streams_;  // [threads]; a pass over several tokens uses the first
    std::vector<Private> own_;     // [threads]
    Shared shared_;
    Profile profile_{};
    Clock::time_point last_;
    std::vector<Item> given_;
    std::vector<int32_t> counted_;  // by token of a pass over slices: `active`, then `optional`
    Item* items_ = nullptr;
    int count_ = 0, capacity_ = 0;
};

}  // namespace symlight
