// The C interface of the library (cpu/library.py binds it). Structures are those of abi.h, which cpu/abi.py writes.
#include <exception>

#include "engine.h"
#include "head.h"

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

// One pass over `count` items. Returns 0, or 1 when memory ran out (nothing has changed then).
EXPORTED int symlight_run(Engine* engine, Item* items, int count) {
    try {
        engine->run(items, count);
    } catch (const std::bad_alloc&) {
        return 1;
    }
    return 0;
}
