// A pass of the model over some tokens: of one session one after the other, or of several sessions together.
#pragma once
#include "scratch.h"
#include "team.h"

namespace symlight {

enum Site { kQkv, kDecay, kUp, kDown, kSites };

class Engine {
   public:
    Engine(const Model& model, int threads) : m_(model), team_(threads), streams_(threads), own_(threads) {}

    // Tokens of one session follow each other in `items`. Results and states are in the items and behind their
    // pointers afterwards.
    void run(Item* items, int count) {
        items_ = items, count_ = count;
        reserve();
        team_.run([this](int thread) { pass(thread); });
    }

   private:
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
            for (int i = begin; i < end; i++)
                shared_.first_spikes[t][i] =
                    lif_step(item.membrane[i], x[i], m_.lif_leak, m_.lif_clamp, m_.lif_threshold);
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
    }

    // Events and spikes of a token at the door of a block.
    void enter_block(int layer, Stream& stream, int t, int thread) {
        events_of(m_.blocks[layer].attention_event, stream.c[t], stream.e[t]);
        count(t, layer, kQkv, stream.e[t], m_.width, thread);
        count(t, layer, kDecay, stream.s[t], m_.width, thread);
    }

    void events_of(const Requantiser& r, const int32_t* x, int8_t* e) {
        for (int i = 0; i < m_.width; i++) e[i] = int8_t(event(x[i], r.threshold, r.multiplier, r.shift));
    }

    void count(int t, int layer, Site site, const int8_t* x, int inputs, int thread) {
        if (one() && thread) return;
        int32_t nonzero = 0;
        for (int i = 0; i < inputs; i++) nonzero += x[i] != 0;
        items_[t].active[layer * kSites + site] = nonzero;
    }

    // The list of `vectors` vectors; matrices by output need none.
    void list(const Matrix& m, EventList& list, Rows<int8_t>& x, int vectors, int thread) {
        if (!m.by_row) return;
        if (one()) {
            list.build(x[0], m.inputs, m_.every_row);
            return;
        }
        if (thread == 0) list.choose(x[0], x.stride(), m.inputs, vectors, m_.every_row);
        team_.barrier();
        const auto [from, to] = share(list.groups(), thread, team_.size());
        list.fill(x[0], x.stride(), from, to);
        const auto [begin, end] = share(vectors, thread, team_.size());
        for (int t = begin; t < end; t++) list.total(x[t], m.inputs, t);
        team_.barrier();
    }

    template <typename Use>
    void multiply_by(const Matrix& m, const EventList& list, Rows<int8_t>& x, int vectors, int thread, Use use) {
        Private& own = own_[thread];
        if (!m.by_row)
            for (int t = 0; t < vectors; t++) {
                int32_t total = 0;
                for (int i = 0; i < m.inputs; i++) total += x[t][i];
                own.totals[t] = total;
            }
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
        multiply_by(b.qkv, stream.events, stream.e, count_, thread, [&](int t, int from, int to, const int32_t* acc) {
            int8_t* out = shared_.qkv[t];
            for (int o = from; o < to; o++)
                out[o] = int8_t(event(acc[o], b.qkv_threshold[o], b.qkv_multiplier[o], b.qkv_shift[o]));
        });
        multiply_by(b.decay, stream.spikes, stream.s, count_, thread, [&](int t, int from, int to, const int32_t* acc) {
            int16_t* z = shared_.z[t];
            for (int o = from; o < to; o++)
                z[o] = int16_t(sat(requantise(acc[o], b.decay_multiplier[o], b.decay_shift[o]), 16));
        });
        team_.barrier();
        for (auto [head, end] = share(m_.heads, thread, team_.size()); head < end; head++)
            for (int t = 0; t < count_; t++) mix_head(layer, b, head, t, own_[thread]);
        team_.barrier();
        list(b.out, stream.events, shared_.mixed, count_, thread);
        branch(b.out, b.out_multiplier, b.out_shift, stream.events, shared_.mixed, stream.c, thread);
        for (auto [t, end] = items_of(thread); t < end; t++) {
            layer_norm(shared_.pre[t], b.attention_norm, m_.rsqrt, m_.inv_width, m_.width, stream.u[t]);
            events_of(b.ffn_event, stream.u[t], stream.e[t]);
            count(t, layer, kUp, stream.e[t], m_.width, thread);
        }
        meet_if_several();
        list(b.up, stream.events, stream.e, count_, thread);
        multiply_by(b.up, stream.events, stream.e, count_, thread, [&](int t, int from, int to, const int32_t* acc) {
            int8_t* f = shared_.f[t];
            for (int o = from; o < to; o++) f[o] = acc[o] >= b.up_threshold[o];
        });
        team_.barrier();
        list(b.down, stream.events, shared_.f, count_, thread);
        branch(b.down, b.down_multiplier, b.down_shift, stream.events, shared_.f, stream.u, thread);
        for (auto [t, end] = items_of(thread); t < end; t++) {
            count(t, layer, kDown, shared_.f[t], m_.ffn, thread);
            layer_norm(shared_.pre[t], b.ffn_norm, m_.rsqrt, m_.inv_width, m_.width, stream.c[t]);
            for (int i = 0; i < m_.width; i++) stream.s[t][i] = stream.c[t][i] >= b.spike_threshold[i];
            if (layer + 1 < m_.layers) enter_block(layer + 1, stream, t, thread);
        }
    }

    // pre = 2 * stream + requantised product, complete on all threads afterwards.
    void branch(const Matrix& m, const int32_t* multiplier, const int32_t* shift, const EventList& list,
                Rows<int8_t>& x, Rows<int32_t>& stream, int thread) {
        multiply_by(m, list, x, count_, thread, [&](int t, int from, int to, const int32_t* acc) {
            int32_t* pre = shared_.pre[t];
            for (int o = from; o < to; o++)
                pre[o] = int32_t(sat(2 * stream[t][o] + requantise(acc[o], multiplier[o], shift[o]), 18));
        });
        team_.barrier();
    }

    // Decay state, ring, attention and mix of one head of one token.
    void mix_head(int layer, const Block& b, int head, int t, Private& own) {
        const Item& item = items_[t];
        const int d = m_.head_width, from = head * d, width = m_.width;
        int16_t* h = item.decay + int64_t(layer) * width;
        const int16_t* z = shared_.z[t];
        for (int i = from; i < from + d; i++) h[i] = decay_step(h[i], z[i], b.decay_beta[head]);
        const int64_t ring = int64_t(layer) * m_.slots * width;
        const int64_t slot = ring + ring_slot(m_, item.position) * width + from;
        if (item.undo_decay) {
            const int64_t place = int64_t(layer) * width + from;
            std::copy(h + from, h + from + d, item.undo_decay + place);
            std::copy(item.ring_k + slot, item.ring_k + slot + d, item.undo_k + place);
            std::copy(item.ring_v + slot, item.ring_v + slot + d, item.undo_v + place);
        }
        const int8_t* qkv = shared_.qkv[t];
        std::copy(qkv + width + from, qkv + width + from + d, item.ring_k + slot);
        std::copy(qkv + 2 * width + from, qkv + 2 * width + from + d, item.ring_v + slot);
        int32_t* o = own.output.data();
        attention(m_, head, qkv, item.ring_k + ring, item.ring_v + ring, item.position, o, own.attention);
        int8_t* mixed = shared_.mixed[t] + from;
        for (int i = 0; i < d; i++)
            mixed[i] = int8_t(sat127(rnd(int64_t(o[i]) * b.mix_o + int64_t(h[from + i]) * b.mix_h, b.mix_shift)));
    }

    void head(Stream& stream, int thread);
    void logits(int wanted, Stream& stream, int thread);
    void choose(int wanted);

    const Model& m_;
    Team team_;
    std::vector<Stream> streams_;  // [threads]; a pass over several tokens uses the first
    std::vector<Private> own_;     // [threads]
    Shared shared_;
    Item* items_ = nullptr;
    int count_ = 0, capacity_ = 0;
};

}  // namespace symlight
