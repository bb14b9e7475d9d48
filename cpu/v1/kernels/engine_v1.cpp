// The C interface of the library (cpu/v1/engine.py binds it). Structures are those of v1_abi.h, which cpu/v1/abi.py writes.
#include <exception>

#include "pass.h"

using namespace symlight::v1;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED Engine* symlight_v1_engine(const Model* model, int threads, int chunk) {
    try {
        return new Engine(*model, threads, chunk);
    } catch (const std::exception&) {
        return nullptr;
    }
}

EXPORTED void symlight_v1_free(Engine* engine) { delete engine; }

EXPORTED int symlight_v1_run(Engine* engine, Session* session, Chunk* chunk) {
    try {
        engine->run(*session, *chunk);
    } catch (const std::exception&) {
        return 1;
    }
    return 0;
}

// to [columns][to_stride] = from [rows][columns] transposed, elements of 1 or 4 bytes; strides in elements.
template <typename T>
static void transposed(const T* from, T* to, int64_t rows, int64_t columns, int64_t to_stride) {
    constexpr int64_t kTile = 64;
    for (int64_t r = 0; r < rows; r += kTile)
        for (int64_t c = 0; c < columns; c += kTile)
            for (int64_t j = c; j < std::min(c + kTile, columns); j++)
                for (int64_t i = r; i < std::min(r + kTile, rows); i++) to[j * to_stride + i] = from[i * columns + j];
}

EXPORTED void symlight_v1_transpose(const void* from, void* to, int64_t rows, int64_t columns, int64_t to_stride,
                                    int single) {
    if (single)
        transposed(static_cast<const float*>(from), static_cast<float*>(to), rows, columns, to_stride);
    else
        transposed(static_cast<const int8_t*>(from), static_cast<int8_t*>(to), rows, columns, to_stride);
}

// to = int8 weights [rows][columns] in blocks (dense.h); `to` is zero, and large enough for whole blocks.
EXPORTED void symlight_v1_blocks(const int8_t* from, uint8_t* to, int64_t rows, int64_t columns) {
    const int64_t groups = padded(columns, 4) / 4;
    for (int64_t o = 0; o < padded(rows, kRowUnit); o++)
        for (int64_t i = 0; i < 4 * groups; i++) {
            const int8_t weight = o < rows && i < columns ? from[o * columns + i] : 0;
            to[((o / kBlock * groups + i / 4) * kBlock + o % kBlock) * 4 + i % 4] = uint8_t(weight + 128);
        }
}

// Reads all bytes once, as wide as it can: the bandwidth that results are compared with.
EXPORTED int64_t symlight_v1_read(const uint8_t* data, int64_t bytes) {
    typedef int64_t Words __attribute__((vector_size(64)));
    Words sums[4] = {};
    for (int64_t i = 0; i + 256 <= bytes; i += 256)
        for (int j = 0; j < 4; j++) sums[j] ^= load_as<Words>(data + i + 64 * j);
    const Words all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
    return all[0] ^ all[1] ^ all[2] ^ all[3] ^ all[4] ^ all[5] ^ all[6] ^ all[7];
}
