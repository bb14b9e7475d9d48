// A pass over a chunk of positions of one session: all threads run it together and meet at barriers.
#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "attend.h"
#include "dense.h"
#include "elements.h"
#include "spikes.h"
#include <tuple>
#include "team.h"

namespace symlight::v1 {

enum Phase { kEncode, kProject, kAttention, kOut, kUp, kDown, kNorm, kHead, kPhases };

// What belongs to single positions (normalised vectors, digits, lists of spikes) is kept once per position, and the
// threads divide the positions. In a pass over one position it is kept once per thread: every thread works it out for
// itself, and no barrier is needed. `row` of a position is the place of either.
class Engine {
   public:
    Engine(const Model& model, int threads, int chunk) : m_(model), team_(threads), private_(threads) {
        const int d = m_.width, rows = std::max(chunk, threads);
        const bool fixed = !m_.head.single;
        c_.reserve(rows, d, fixed), u_.reserve(rows, d, fixed), mixed_.reserve(rows, d, fixed);
        hidden_.reserve(rows, m_.bottleneck, fixed), as_floats_.reserve(rows, std::max(d, m_.ffn), fixed);
        sum_.reserve(rows, d), z_.reserve(chunk, d), qkv_.reserve(chunk, 3 * d);
        flags_.reserve(rows, d), fired_.reserve(rows, m_.ffn);
        inputs_.reserve(rows, d), neurons_.reserve(rows, m_.ffn);
        lists_.resize(rows), fired_lists_.resize(rows);
        const int64_t slots = padded(m_.anchors + m_.window + 1);
        for (Private& own : private_) {
            own.scores.reserve(1, slots), own.seen.reserve(1, slots), own.attended.reserve(1, m_.head_width);
            own.sums.reserve(1, padded(d, kColumnUnit)), own.total.reserve(1, padded(d, kColumnUnit));
        }
    }

    void run(Session& session, Chunk& chunk) {
        team_.run([&](int thread) { Pass(*this, session, chunk, thread).run(); });
        session.position += chunk.count;
    }

   private:
    struct Private {
        Rows<float> scores, attended;
        Rows<uint8_t> seen;
        Rows<int16_t> sums;
        Rows<int32_t> total;
    };

    const Model m_;
    Team team_;
    Vectors c_, u_, mixed_, hidden_, as_floats_;
    Rows<float> sum_, z_, qkv_;
    Rows<uint8_t> flags_, fired_;
    Rows<int32_t> inputs_, neurons_;
    std::vector<List> lists_, fired_lists_;
    std::vector<Private> private_;

    // One thread's part of a pass.
    class Pass {
       public:
        Pass(Engine& engine, Session& session, Chunk& chunk, int thread)
            : e(engine), m(engine.m_), s(session), chunk(chunk), thread(thread), threads(engine.team_.size()),
              n(chunk.count), base(n == 1 ? thread : 0) {
            const auto [begin, end] = n == 1 ? std::pair{0, 1} : share(n, thread, threads);
            first = begin, last = end;
        }

        void run() {
            encode();
            for (int layer = 0; layer < m.layers; layer++) {
                const Block& b = m.blocks[layer];
                project(b);
                meet(kProject);
                mix(layer, b);
                meet(kAttention);
                for (int t = first; t < last; t++) e.mixed_.cut(t, base + t);
                if (!thread) remember_spikes(layer);
                meet_many(kNorm);
                times(b.out, e.mixed_, [&](int o, int t, float v) { e.sum_[t][o] = e.c_[base + t][o] + v; });
                meet(kOut);
                for (int t = first; t < last; t++) {
                    normalise(b.tcam_norm, e.sum_[t], e.u_[base + t], m.width, m.epsilon);
                    e.u_.cut(base + t, base + t);
                }
                meet_many(kNorm);
                times(b.up, e.u_, [&](int o, int t, float v) { e.fired_[t][o] = v >= m.threshold; });
                meet(kUp);
                for (int t = first; t < last; t++)
                    note(b.down, t, e.fired_[t], e.neurons_[base + t], e.fired_lists_, m.ffn);
                meet_many(kNorm);
                if (!thread) count(chunk.active + 2 * layer);
                conditioned(b.down, e.fired_lists_, [&](int o, int t, float v) { e.sum_[t][o] = e.u_[base + t][o] + v; });
                meet(kDown);
                for (int t = first; t < last; t++) leave(layer, b, t);
                meet_many(kNorm);
            }
            head();
            meet(kHead);
        }

       private:
        void encode() {
            for (int t = first; t < last; t++) {
                float* x = e.u_[base + t];  // free until the first block
                std::memcpy(x, chunk.embedding + int64_t(t) * m.width, m.width * sizeof(float));
                normalise(m.encoder_norm, x, e.c_[base + t], m.width, m.epsilon);
                e.c_.cut(base + t, base + t);
            }
            meet_many(kEncode);
            const auto [begin, end] = share(m.width, thread, threads);
            for (int t = 0; t < n; t++) integrate(m, s.membrane, e.c_[base + t], e.flags_[t], begin, end);
            meet(kEncode);
            for (int t = first; t < last; t++) note(m.blocks[0].tcam, t, e.flags_[t], e.inputs_[base + t], e.lists_, m.width);
            meet_many(kEncode);
        }

        void leave(int layer, const Block& b, int t) {
            normalise(b.ffn_norm, e.sum_[t], e.c_[base + t], m.width, m.epsilon);
            e.c_.cut(base + t, base + t);
            if (layer + 1 == m.layers) return;
            compare(e.c_[base + t], m.threshold, e.flags_[base + t], m.width);
            note(m.blocks[layer + 1].tcam, t, e.flags_[base + t], e.inputs_[base + t], e.lists_, m.width);
        }

        // The spikes of a position as a list, and as floats where a matrix is stored by row.
        void note(const Matrix& matrix, int t, const uint8_t* flags, int32_t* inputs, std::vector<List>& lists, int width) {
            const List list = lists[base + t] = {inputs, list_flags(flags, width, inputs)};
            if (matrix.by_input) return;
            float* x = e.as_floats_[base + t];
            std::fill(x, x + e.as_floats_.floats.stride(), 0.0f);
            for (int i = 0; i < list.count; i++) x[inputs[i]] = 1;
            e.as_floats_.cut(base + t, base + t);
        }

        void count(int64_t* active) {
            for (int t = 0; t < n; t++) active[0] += e.lists_[t].count, active[1] += e.fired_lists_[t].count;
        }

        bool spiked(int t) const { return e.lists_[base + t].count > 0; }

        void project(const Block& b) {
            if (n > 1 || spiked(0))  // a single position without a spike neither asks nor is seen
                times(b.qkv, e.c_, [&](int o, int t, float v) { e.qkv_[t][o] = v; });
            conditioned(b.tcam, e.lists_, [&](int o, int t, float v) { e.z_[t][o] = v; });
        }

        // Attention, decay and their mixture, a head at a time, positions in order.
        void mix(int layer, const Block& b) {
            const int d = m.head_width;
            Private& own = e.private_[thread];
            const auto [begin, end] = share(m.heads, thread, threads);
            for (int h = begin; h < end; h++) {
                // Every head needs the spikes of the slots as of its own position, so it works on a copy.
                uint8_t* seen = own.seen[0];
                std::copy_n(s.spikes + layer * s.slots, s.slots, seen);
                const int64_t head = int64_t(layer) * m.heads + h;
                const Cache cache{s.keys + head * d * s.slots, s.values + head * d * s.slots, seen, s.slots};
                for (int t = 0; t < n; t++) {
                    seen[slot(t)] = spiked(t);
                    float* attended = own.attended[0];
                    if (spiked(t))
                        ask(cache, h, t, own.scores[0], attended);
                    else
                        std::fill(attended, attended + d, 0.0f);
                    float *state = s.decay + int64_t(layer) * m.width + h * d, *mixed = e.mixed_[t] + h * d;
                    const float *z = e.z_[t] + h * d, alpha = b.alpha[h];
                    for (int i = 0; i < d; i++) {
                        state[i] = fused(alpha, state[i], (1 - alpha) * z[i]);
                        mixed[i] = fused(b.gate, attended[i], (1 - b.gate) * state[i]);
                    }
                }
            }
        }

        void ask(const Cache& cache, int h, int t, float* scores, float* out) {
            const int d = m.head_width;
            float *q = e.qkv_[t] + h * d, *k = q + m.width, *v = k + m.width;
            const float *cosine = chunk.cosine + int64_t(t) * (d / 2), *sine = chunk.sine + int64_t(t) * (d / 2);
            turn(q, cosine, sine, d);
            turn(k, cosine, sine, d);
            remember(cache, slot(t), k, v, d);
            const int64_t populated = std::min<int64_t>(s.position + t + 1, m.anchors + m.window + 1);
            attend(cache, q, populated, m.scale, d, scores, out);
        }

        void remember_spikes(int layer) {
            for (int t = 0; t < n; t++) s.spikes[layer * s.slots + slot(t)] = spiked(t);
        }

        int64_t slot(int t) const {
            const int64_t position = s.position + t;
            return position < m.anchors ? position : m.anchors + (position - m.anchors) % (m.window + 1);
        }

        void head() {
            const int wanted = n - chunk.first, from = base + chunk.first;
            if (wanted <= 0) return;
            auto [begin, end] = part(m.prior_in.outputs, kRowUnit);
            dense(m.prior_in, e.c_, from, wanted, begin, end, [&](int o, int t, float v) { e.hidden_[t][o] = gelu(v); });
            e.team_.barrier();
            for (int t = 0; t < wanted; t++)
                if (n == 1 || t % threads == thread) e.hidden_.cut(t, base + t);
            if (n > 1) e.team_.barrier();
            std::tie(begin, end) = part(chunk.rows, kRowUnit);
            auto at = [&](int o, int t) { return chunk.logits + int64_t(t) * chunk.rows + o; };
            for (int o = begin; o < end; o += kHeadRows) {  // a few rows of both matrices: their logits stay near
                const int stop = std::min(o + kHeadRows, end);
                dense(m.head, e.c_, from, wanted, o, stop, [&](int row, int t, float v) {
                    if (row < chunk.rows) *at(row, t) = v;
                });
                dense(m.prior_out, e.hidden_, base, wanted, o, stop, [&](int row, int t, float v) {
                    if (row < chunk.rows) *at(row, t) += m.prior_weight * v;
                });
            }
        }

        // The outputs [begin, end) of a matrix by row, times `count` vectors from row `from` on.
        template <typename Use>
        void dense(const Matrix& matrix, Vectors& x, int from, int count, int begin, int end, Use use) {
            if (matrix.single)
                dense_floats(matrix, x[from], x.floats.stride(), count, begin, end, use);
            else
                dense_bytes(matrix, x.fixed(from), count, begin, end, use);
        }

        template <typename Use>
        void times(const Matrix& matrix, Vectors& x, Use use) {
            const auto [begin, end] = part(matrix.outputs, kRowUnit);
            dense(matrix, x, base, n, begin, end, use);
        }

        template <typename Use>
        void conditioned(const Matrix& matrix, const std::vector<List>& lists, Use use) {
            if (!matrix.by_input) return times(matrix, e.as_floats_, use);
            const auto [begin, end] = part(matrix.outputs, kColumnUnit);
            Private& own = e.private_[thread];
            spikes(matrix, lists.data() + base, n, begin, end, {reinterpret_cast<Shorts*>(own.sums[0]), own.total[0]}, use);
        }

        // This thread's share of the outputs, in whole units; the last unit may go beyond the outputs.
        std::pair<int, int> part(int outputs, int unit) const {
            const auto [begin, end] = share(int(padded(outputs, unit) / unit), thread, threads);
            return {begin * unit, end * unit};
        }

        void meet(Phase phase) {
            e.team_.barrier();
            if (thread) return;
            const auto now = std::chrono::steady_clock::now();
            chunk.nanoseconds[phase] += std::chrono::duration_cast<std::chrono::nanoseconds>(now - then).count();
            then = now;
        }

        // Behind what the threads divided by positions.
        void meet_many(Phase phase) {
            if (n > 1) meet(phase);
        }

        static constexpr int kHeadRows = 512;

        Engine& e;
        const Model& m;
        Session& s;
        Chunk& chunk;
        const int thread, threads, n, base;
        int first, last;
        std::chrono::steady_clock::time_point then = std::chrono::steady_clock::now();
    };
};

}  // namespace symlight::v1
