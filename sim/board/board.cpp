// The whole board core, verilated: kernel, memory port, SDRAM controller and link; with the chip's model, the registers of the
// pads and a serial line of bytes. Both clocks rise together when their periods allow it.
#include <cstring>
#include <deque>
#include <memory>

#include "Vsymlight_board.h"
#include "sdram.h"
#include "verilated.h"

namespace {

constexpr int RESET_EDGES = 16;

// One direction of the line towards the design: bytes to bits.
struct Sender {
    std::deque<uint8_t> bytes;
    int divisor, wait = 0, bit = 10;
    uint32_t frame = 1;

    bool level() {      // once a kernel cycle
        if (bit == 10) {
            if (bytes.empty()) return true;
            frame = 0x200u | bytes.front() << 1;
            bytes.pop_front();
            bit = 0;
            wait = divisor;
        }
        const bool now = frame >> bit & 1;
        if (--wait == 0) bit++, wait = divisor;
        return now;
    }
};

// The other direction: bits to bytes, sampled in the middle.
struct Receiver {
    std::deque<uint8_t> bytes;
    int divisor, wait = 0, bit = -1;
    uint32_t frame = 0;

    void level(bool line) {
        if (bit < 0) {
            if (!line) bit = 0, wait = divisor / 2, frame = 0;
            return;
        }
        if (--wait > 0) return;
        wait = divisor;
        frame |= static_cast<uint32_t>(line) << bit;
        if (++bit == 10) {
            if (frame & 0x200) bytes.push_back(static_cast<uint8_t>(frame >> 1));
            bit = -1;
        }
    }
};

struct Board {
    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Vsymlight_board> top;
    sdram::Sdram chip;
    sdram::Pads pads;
    Sender to_design;
    Receiver from_design;
    double kernel_ns, sdram_ns;
    int64_t kernel_edges = 0, sdram_edges = 0;
    std::string error;

    Board(double kernel_mhz, double sdram_mhz, int divisor, uint64_t seed)
        : kernel_ns(1000 / kernel_mhz), sdram_ns(1000 / sdram_mhz) {
        to_design.divisor = from_design.divisor = divisor;
        context->randSeed(static_cast<int>(seed % 0x7FFFFFFF) + 1);
        context->randReset(2);
        top = std::make_unique<Vsymlight_board>(context.get());
        top->rx = 1;
        top->rst = top->sdram_rst = 1;
        top->clk = top->sdram_clk = 0;
        top->eval();
    }

    // The next rising edge, of either clock or of both.
    void edge() {
        const double kernel = kernel_edges * kernel_ns, memory = sdram_edges * sdram_ns;
        const bool is_kernel = kernel <= memory + sdram::EXACT, is_sdram = memory <= kernel + sdram::EXACT;
        uint16_t word = 0;
        if (is_sdram) {
            const sdram::Pins pins{top->sdram_cke != 0, false, (top->sdram_command & 4) != 0, (top->sdram_command & 2) != 0,
                                   (top->sdram_command & 1) != 0, top->sdram_dq_oe != 0, top->sdram_ba, top->sdram_a,
                                   static_cast<uint16_t>(top->sdram_dq_o)};
            word = pads.edge(chip, memory, sdram_ns, pins);
        }
        if (is_kernel) from_design.level(top->tx);
        if (is_kernel) top->clk = 1;
        if (is_sdram) top->sdram_clk = 1;
        top->eval();
        if (is_kernel) {
            top->clk = 0;
            top->rx = to_design.level();
            if (++kernel_edges == RESET_EDGES) top->rst = 0;
        }
        if (is_sdram) {
            top->sdram_clk = 0;
            top->sdram_dq_i = word;
            if (++sdram_edges == RESET_EDGES) top->sdram_rst = 0;
        }
        top->eval();
        if (error.empty()) error = chip.error;
    }
};

thread_local Board* current = nullptr;

Board& at(void* handle) { return *(current = static_cast<Board*>(handle)); }

}  // namespace

void vl_finish(const char*, int, const char*) VL_MT_UNSAFE {}
void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE {
    if (current && current->error.empty())
        current->error = std::string("an assertion failed at ") + file + ":" + std::to_string(line);
}
void vl_fatal(const char*, int, const char*, const char* message) VL_MT_UNSAFE {
    if (current && current->error.empty()) current->error = message;
}

#pragma GCC visibility push(default)
extern "C" {

void* sb_create(double kernel_mhz, double sdram_mhz, int divisor, uint64_t seed) {
    return new Board(kernel_mhz, sdram_mhz, divisor, seed);
}
void sb_destroy(void* handle) { delete static_cast<Board*>(handle); }

void sb_send(void* handle, const uint8_t* bytes, int count) {
    auto& queue = at(handle).to_design.bytes;
    queue.insert(queue.end(), bytes, bytes + count);
}
// Bytes that have come, at most `room`.
int sb_receive(void* handle, uint8_t* bytes, int room) {
    auto& queue = at(handle).from_design.bytes;
    int count = 0;
    for (; count < room && !queue.empty(); count++) bytes[count] = queue.front(), queue.pop_front();
    return count;
}
// At most so many kernel cycles; with `wanted`, ends when so many bytes have come. 0, or -1 on error.
int sb_run(void* handle, int64_t cycles, int wanted) {
    Board& board = at(handle);
    const int64_t end = board.kernel_edges + cycles;
    while (board.kernel_edges < end && board.error.empty()) {
        board.edge();
        if (wanted && static_cast<int>(board.from_design.bytes.size()) >= wanted) break;
    }
    return board.error.empty() ? 0 : -1;
}
int64_t sb_cycles(void* handle) { return at(handle).kernel_edges; }
int sb_lights(void* handle) { return at(handle).top->lights; }
// The chip's memory, for tests: size in bytes is that of the chip.
uint8_t* sb_memory(void* handle) { return reinterpret_cast<uint8_t*>(at(handle).chip.words.data()); }
int64_t sb_counter(void* handle, int which) {
    const sdram::Sdram& chip = at(handle).chip;
    const uint64_t counters[] = {chip.reads, chip.writes, chip.activates, chip.refreshes};
    return static_cast<int64_t>(counters[which]);
}
const char* sb_error(void* handle) { return at(handle).error.c_str(); }
}
#pragma GCC visibility pop
