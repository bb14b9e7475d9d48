// The C interface of the library (cpu/library.py binds it). Structures are those of abi.h, which cpu/abi.py writes.
#include <exception>
#include <thread>

#include "checksum.h"
#include "engine.h"
#include "head.h"
#include "slices.h"

using namespace symlight;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED Engine* symlight_engine(const Model* model, int threads) {
    try {
        return new Engine(*model, threads);
    } catch (const std::exception&) {
        return nullptr;
    }
}

EXPORTED void symlight_free(Engine* engine) { delete engine; }

// One pass over the tokens of all parts. Returns 0, or 1 when memory ran out (nothing has changed then).
EXPORTED int symlight_run(Engine* engine, const Part* parts, int count) {
    try {
        engine->run(parts, count);
    } catch (const std::bad_alloc&) {
        return 1;
    }
    return 0;
}

// Passes over all slices for `nanoseconds`, one at least. Returns 0, or 1 when memory ran out (then no session has
// changed, but what the slices say of themselves is void).
EXPORTED int symlight_slices(Engine* engine, Slice* const* slices, int count, int64_t nanoseconds, Sums* sums) {
    try {
        engine->run(slices, count, nanoseconds, *sums);
    } catch (const std::bad_alloc&) {
        return 1;
    }
    return 0;
}

// The token at `position` from `vocab` logits.
EXPORTED int32_t symlight_draw(const Sampler* sampler, const int64_t* logits, int vocab, int64_t position) {
    Candidates candidates;
    for (int id = 0; id < vocab; id++) candidates.offer(logits[id], id);
    return draw(*sampler, candidates, position);
}

// What all passes so far took.
EXPORTED const Profile* symlight_profile(Engine* engine) { return &engine->profile(); }

// Reads `size` bytes (a multiple of 4 KB) from end to end with all threads, and gives a sum that depends on them: the
// bandwidth that any pass is limited by.
EXPORTED int64_t symlight_read(Engine* engine, const uint8_t* data, int64_t size) {
    std::atomic<int64_t> total{0};
    Team& team = engine->team();
    engine->team().run([&](int thread) {
        const auto [begin, end] = share(int(size / 4096), thread, team.size());
        total += read_sum(data + int64_t(begin) * 4096, int64_t(end - begin) * 4096);
    });
    return total;
}

// Checksum of `size` bytes by `threads` threads; the bytes also go to `copy` unless it is null.
EXPORTED uint64_t symlight_copy(const uint8_t* data, uint8_t* copy, int64_t size, int threads) {
    const int parts = int((size + kSumPart - 1) / kSumPart);
    std::vector<uint64_t> sums(parts);
    auto work = [&](int thread) {
        const auto [begin, end] = share(parts, thread, threads);
        for (int i = begin; i < end; i++) {
            const int64_t from = i * kSumPart;
            sums[i] = checksum_part(data + from, copy ? copy + from : nullptr, std::min(kSumPart, size - from));
        }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads; i++) others.emplace_back(work, i);
    work(0);
    for (std::thread& other : others) other.join();
    uint64_t total = uint64_t(size);
    for (uint64_t sum : sums) total = (total ^ sum) * 0x9E3779B97F4A7C15u + 1;
    return total;
}
