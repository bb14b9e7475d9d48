// A small V1 model, made of whole numbers, on the engine: prints the bits of its logits. Compiled for two machines, it
// must print the same on both.
#include <cstdio>
#include <vector>

#include "pass.h"

using namespace symlight::v1;

static uint32_t seed = 12345;
static int32_t drawn(int32_t range) {  // -range .. range
    seed = seed * 1664525u + 1013904223u;
    return int32_t(seed >> 8) % (2 * range + 1) - range;
}

static std::vector<std::vector<float>> floats;
static float* vector_of(int count, float base, float step) {
    std::vector<float> made(padded(count) + 16);
    for (int i = 0; i < count; i++) made[i] = base + step * float(drawn(64));
    floats.push_back(std::move(made));
    return floats.back().data();
}

static std::vector<std::vector<uint8_t>> bytes;
static Matrix matrix(int outputs, int inputs, float scale, int by_input) {
    Matrix m{};
    m.inputs = inputs, m.outputs = outputs, m.by_input = by_input, m.scale = vector_of(outputs, scale, scale / 256);
    if (by_input) {
        m.stride = padded(outputs, kColumnUnit);
        std::vector<uint8_t> made(m.stride * inputs);
        for (int i = 0; i < inputs; i++)
            for (int o = 0; o < outputs; o++) made[i * m.stride + o] = uint8_t(drawn(127));
        bytes.push_back(std::move(made));
    } else {
        const int64_t columns = padded(inputs, 4), rows = padded(outputs, 64);
        std::vector<uint8_t> made(rows * columns + kFetch);
        for (int64_t o = 0; o < rows; o++)
            for (int64_t i = 0; i < columns; i++)
                made[((o / kBlock * (columns / 4) + i / 4) * kBlock + o % kBlock) * 4 + i % 4] =
                    uint8_t(128 + (o < outputs && i < inputs ? drawn(127) : 0));
        m.stride = columns;
        bytes.push_back(std::move(made));
    }
    m.data = bytes.back().data();
    return m;
}

int main() {
    constexpr int layers = 2, width = 48, heads = 3, d = 16, ffn = 70, vocab = 37, tokens = 40, slots = 16;
    static Block blocks[layers];
    for (Block& b : blocks) {
        b.tcam = matrix(width, width, 0.002f, 1), b.qkv = matrix(3 * width, width, 0.002f, 0);
        b.out = matrix(width, width, 0.002f, 0), b.up = matrix(ffn, width, 0.002f, 0);
        b.down = matrix(width, ffn, 0.002f, 1);
        b.tcam_norm = {vector_of(width, 0.75f, 0.002f), vector_of(width, 0, 0.002f)};
        b.ffn_norm = {vector_of(width, 0.75f, 0.002f), vector_of(width, 0, 0.002f)};
        b.alpha = vector_of(heads, 0.75f, 0.002f), b.gate = 0.375f;
    }
    Model m{};
    m.head = matrix(vocab, width, 0.002f, 0), m.prior_in = matrix(12, width, 0.002f, 0);
    m.prior_out = matrix(vocab, 12, 0.002f, 0), m.blocks = blocks;
    m.encoder_norm = {vector_of(width, 0.75f, 0.002f), vector_of(width, 0, 0.002f)};
    m.layers = layers, m.width = width, m.heads = heads, m.head_width = d, m.ffn = ffn, m.vocab = vocab;
    m.bottleneck = 12, m.window = 6, m.anchors = 2, m.leak = 0.95f, m.threshold = 1, m.bound = 3;
    m.epsilon = 1e-5f, m.scale = 0.25f, m.prior_weight = 0.1f;
    Engine engine(m, 2, 64);

    std::vector<float> membrane(width), decay(layers * width), keys(layers * width * slots), values(keys.size());
    std::vector<uint8_t> spikes(layers * slots);
    Session session{membrane.data(), decay.data(), keys.data(), values.data(), spikes.data(), 0, slots};
    std::vector<float> logits(tokens * vocab);
    int64_t active[2 * layers] = {}, nanoseconds[kPhases] = {};
    Chunk chunk{};
    chunk.embedding = vector_of(tokens * width, 0, 0.01f), chunk.logits = logits.data();
    chunk.cosine = vector_of(tokens * d / 2, 0.5f, 0.005f), chunk.sine = vector_of(tokens * d / 2, 0, 0.005f);
    chunk.active = active, chunk.nanoseconds = nanoseconds, chunk.count = tokens, chunk.rows = vocab;
    engine.run(session, chunk);
    for (float x : logits) {
        uint32_t bits;
        std::memcpy(&bits, &x, 4);
        std::printf("%08x\n", bits);
    }
    std::printf("%ld %ld\n", long(active[0]), long(active[3]));
}
