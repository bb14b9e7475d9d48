// The SDRAM controller alone, verilated, with the chip's model: requests in, beats out, cycles counted.
#include <cstring>
#include <memory>

#include "Vcontroller.h"
#include "sdram.h"
#include "verilated.h"

namespace {

struct Bench {
    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Vcontroller> top;
    sdram::Sdram chip;
    sdram::Pads pads;
    double cycle_ns = 10;
    int64_t cycle = 0;
    std::string error;

    explicit Bench(double mhz) : top(new Vcontroller(context.get())), cycle_ns(1000 / mhz) {}

    template <typename Look>
    void step(Look settled) {
        top->clk = 0;
        top->eval();
        settled();
        const sdram::Pins pins{top->pins_cke != 0, false, (top->pins_command & 4) != 0, (top->pins_command & 2) != 0,
                               (top->pins_command & 1) != 0, top->pins_dq_oe != 0, top->pins_ba, top->pins_a,
                               static_cast<uint16_t>(top->pins_dq_o)};
        const uint16_t word = pads.edge(chip, cycle * cycle_ns, cycle_ns, pins);
        top->clk = 1;
        top->eval();
        top->pins_dq_i = word;
        cycle++;
        if (error.empty()) error = chip.error;
    }
};

thread_local Bench* current = nullptr;

}  // namespace

void vl_finish(const char*, int, const char*) VL_MT_UNSAFE {}
void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE {
    if (current && current->error.empty()) current->error = std::string("an assertion failed at ") + file + ":" + std::to_string(line);
}
void vl_fatal(const char*, int, const char*, const char* message) VL_MT_UNSAFE {
    if (current && current->error.empty()) current->error = message;
}

#pragma GCC visibility push(default)
extern "C" {

void* sc_create(double mhz) {
    auto* bench = new Bench(mhz);
    current = bench;
    bench->top->rst = 1;
    for (int i = 0; i < 4; i++) bench->step([] {});
    bench->top->rst = 0;
    return bench;
}

void sc_destroy(void* handle) { delete static_cast<Bench*>(handle); }

// Runs `count` requests (write, beat address, beats, index of the first beat in `data`), with `gap` idle cycles before each.
// Beats that are read go to `data`. Returns the cycles from the first request to the last beat, -1 on error.
int64_t sc_run(void* handle, int count, const int32_t* requests, uint8_t* data, int beat_bytes, const int32_t* gaps,
               int64_t limit) {
    Bench& bench = *static_cast<Bench*>(handle);
    current = &bench;
    Vcontroller& top = *bench.top;
    int next = 0, reading = 0, beat = 0, wait = gaps ? gaps[0] : 0;
    int64_t first = -1;
    const auto skip_writes = [&] { while (reading < count && requests[4 * reading]) reading++; };
    skip_writes();
    const int64_t end = bench.cycle + limit;
    int settle = 64;    // cycles after the last request, for its words
    while ((next < count || reading < count || settle > 0) && bench.error.empty()) {
        if (bench.cycle >= end) bench.error = "the requests are not done in time";
        const bool offer = next < count && wait == 0;
        top.requests_valid = offer;
        if (offer) {
            const int32_t* r = requests + 4 * next;
            // request_layout: write, address, beats, data, from the low end; packed by the caller's mask
            extern void pack(Vcontroller&, const int32_t*, const uint8_t*, int);
            pack(top, r, data + static_cast<int64_t>(r[3]) * beat_bytes, beat_bytes);
        }
        bool taken = false, valid = false;
        uint8_t got[64];
        bench.step([&] {
            taken = top.requests_valid && top.requests_ready;
            valid = top.read_valid;
            if (valid) std::memcpy(got, &top.read_data, beat_bytes);
        });
        if (wait > 0) wait--;
        if (taken) {
            if (first < 0) first = bench.cycle;
            next++;
            wait = gaps && next < count ? gaps[next] : 0;
        }
        if (valid) {
            if (reading >= count) {
                bench.error = "a beat that nobody asked for";
                break;
            }
            const int32_t* r = requests + 4 * reading;
            std::memcpy(data + (static_cast<int64_t>(r[3]) + beat) * beat_bytes, got, beat_bytes);
            if (++beat == r[2]) beat = 0, reading++, skip_writes();
        }
        if (next == count && reading == count) settle--;
    }
    return bench.error.empty() ? bench.cycle - 64 - first : -1;
}

// Bytes of the chip's memory, in the order of the controller's addresses.
void sc_peek(void* handle, int64_t first, int64_t size, uint8_t* out) {
    std::memcpy(out, reinterpret_cast<uint8_t*>(static_cast<Bench*>(handle)->chip.words.data()) + first, size);
}

void sc_idle(void* handle, int64_t cycles) {
    Bench& bench = *static_cast<Bench*>(handle);
    current = &bench;
    bench.top->requests_valid = 0;
    for (int64_t i = 0; i < cycles && bench.error.empty(); i++) bench.step([] {});
}

int64_t sc_counter(void* handle, int which) {
    const sdram::Sdram& chip = static_cast<Bench*>(handle)->chip;
    const uint64_t counters[] = {chip.reads, chip.writes, chip.activates, chip.refreshes};
    return static_cast<int64_t>(counters[which]);
}

const char* sc_error(void* handle) { return static_cast<Bench*>(handle)->error.c_str(); }
}
#pragma GCC visibility pop

// Bits of the request's payload, which Verilator keeps as words of 32 bits.
void pack(Vcontroller& top, const int32_t* request, const uint8_t* data, int beat_bytes) {
    auto* words = reinterpret_cast<uint32_t*>(&top.requests_payload);
    const int address_bits = 24 - (__builtin_ctz(beat_bytes) - 1);
    std::memset(words, 0, sizeof(top.requests_payload));
    int at = 0;
    const auto put = [&](uint64_t value, int bits) {
        for (int i = 0; i < bits; i++, at++)
            if (value >> i & 1) words[at / 32] |= 1u << at % 32;
    };
    put(request[0], 1);
    put(request[1], address_bits);
    put(request[2], 5);
    for (int i = 0; i < beat_bytes; i++) put(request[0] ? data[i] : 0, 8);
}
