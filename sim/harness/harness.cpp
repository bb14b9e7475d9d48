// The simulated card behind harness.h. ports.h is generated for each kernel (parts.py).
#include "harness.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "design.h"

namespace {

constexpr int RESET_CYCLES = 16;
constexpr int REGISTER_TIMEOUT = 10000;     // cycles of one AXI4-Lite access
constexpr int STOP_INTERVAL = 1024;         // cycles between looks at the stop flag

struct Card {
    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Design> design;
    hbm::Parameters parameters;
    int clock_mhz = 0;
    uint64_t seed = 0;
    int64_t cycle = 0;
    std::string error;
    std::atomic<bool> stop{false};
#if VM_TRACE
    std::unique_ptr<TraceFile> trace;
#endif

    Vsymlight& top() { return design->top(); }

    // `interrupt` is a reserved word to Verilator, which renames the port.
    bool interrupt() { return top().__SYM__interrupt; }

    template <typename Look>
    void step(Look settled, bool memories = true) {
        design->cycle(cycle * hbm::TICK_MHZ, memories, [&] {
            settled();
            dump(0);
        });
        dump(1);
        cycle++;
        if (error.empty()) error = design->error();
    }

    void dump(int half) {
#if VM_TRACE
        if (trace) trace->dump(static_cast<uint64_t>(cycle) * 2 + half);
#else
        (void)half;
#endif
    }

    void reset() {
        for (AxiSlave& port : design->ports) port.reset(parameters, clock_mhz, seed);
        top().s_axi_control_awvalid = top().s_axi_control_wvalid = top().s_axi_control_arvalid = 0;
        top().s_axi_control_bready = top().s_axi_control_rready = 1;
        top().s_axi_control_wstrb = 0xF;
        // What the ports of a kernel in reset say means nothing: the clock runs without the memories. The kernel pipelines its
        // reset, so it stays in reset for some cycles more.
        // A kernel that was just switched on is in no state that an assertion speaks of.
        context->assertOn(false);
        for (int i = 0; i < 2 * RESET_CYCLES; i++) {
            top().ap_rst_n = i >= RESET_CYCLES;
            step([] {}, false);
        }
        context->assertOn(true);
        error.clear();
    }
};

Card& at(void* handle) {
    Card& card = *static_cast<Card*>(handle);
    Verilated::threadContextp(card.context.get());      // report() finds the card by it
    return card;
}

// Verilator reports a failed assertion to functions without an argument for the model: its context says which.
std::mutex registry_mutex;
std::map<const VerilatedContext*, Card*> registry;

void report(const std::string& what) {
    const std::lock_guard<std::mutex> guard(registry_mutex);
    const auto found = registry.find(Verilated::threadContextp());
    if (found != registry.end() && found->second->error.empty()) found->second->error = what;
}

std::string place(const char* file, int line) { return std::string(" at ") + file + ":" + std::to_string(line); }

}  // namespace

// Verilator calls these for $finish, $stop (a failed assertion) and internal errors.
void vl_finish(const char* file, int line, const char*) VL_MT_UNSAFE { report("$finish" + place(file, line)); }
void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE {
    report("an assertion of the kernel failed" + place(file, line) + "; its message is on the standard output");
}
void vl_fatal(const char* file, int line, const char*, const char* message) VL_MT_UNSAFE {
    report(message + place(file, line));
}

extern "C" {

void* sl_create(int clock_mhz, uint64_t seed, int threads, const char* settings) {
    auto card = std::make_unique<Card>();
    if (!card->parameters.set(settings)) return nullptr;
    card->clock_mhz = clock_mhz;
    card->seed = seed;
    {
        const std::lock_guard<std::mutex> guard(registry_mutex);
        registry[card->context.get()] = card.get();
    }
#if VM_TRACE
    card->context->traceEverOn(true);
#endif
    card->context->randSeed(static_cast<int>(seed % 0x7FFFFFFF) + 1);
    card->context->randReset(2);    // memories and registers hold anything (sim/power_up.py)
    card->design = std::make_unique<Design>(card->context.get(), threads);
    card->reset();
    return card.release();
}

void sl_destroy(void* handle) {
    Card& card = at(handle);
    card.design->final();
#if VM_TRACE
    if (card.trace) card.trace->close();
#endif
    {
        const std::lock_guard<std::mutex> guard(registry_mutex);
        registry.erase(card.context.get());
    }
    delete &card;
}

int sl_trace(void* handle, const char* path, int levels) {
#if VM_TRACE
    Card& card = at(handle);
    card.trace = std::make_unique<TraceFile>();
    card.design->trace(card.trace.get(), levels);
    card.trace->open(path);
    return 0;
#else
    (void)handle, (void)path, (void)levels;
    return -1;
#endif
}

void sl_trace_end(void* handle) {
#if VM_TRACE
    Card& card = at(handle);
    if (card.trace) card.trace->close();
    card.trace.reset();
#else
    (void)handle;
#endif
}

void sl_reset(void* handle) { at(handle).reset(); }

void sl_attach(void* handle, int channel, uint64_t base, uint64_t size, uint8_t* data) {
    at(handle).design->ports[channel].memories.push_back({base, size, data});
}

void sl_detach(void* handle, int channel, uint64_t base) {
    auto& memories = at(handle).design->ports[channel].memories;
    memories.erase(
        std::remove_if(memories.begin(), memories.end(), [=](const Memory& m) { return m.base == base; }),
        memories.end());
}

void sl_inject(void* handle, int channel, uint64_t base, uint64_t size, int response, int kinds) {
    at(handle).design->ports[channel].faults.push_back(
        {base, base + size, static_cast<uint8_t>(response), (kinds & 1) != 0, (kinds & 2) != 0});
}

void sl_clear_faults(void* handle) {
    for (AxiSlave& port : at(handle).design->ports) port.faults.clear();
}

int64_t sl_read(void* handle, uint32_t address) {
    Card& card = at(handle);
    Vsymlight& top = card.top();
    top.s_axi_control_araddr = address;
    top.s_axi_control_arvalid = 1;
    for (int i = 0; i < REGISTER_TIMEOUT && card.error.empty(); i++) {
        bool accepted = false, answered = false;
        uint32_t value = 0;
        card.step([&] {
            accepted = top.s_axi_control_arvalid && top.s_axi_control_arready;
            answered = top.s_axi_control_rvalid;
            value = top.s_axi_control_rdata;
        });
        if (accepted) top.s_axi_control_arvalid = 0;
        if (answered) return value;
    }
    if (card.error.empty()) card.error = "s_axi_control: a read got no answer";
    return SL_ERROR;
}

int sl_write(void* handle, uint32_t address, uint32_t value) {
    Card& card = at(handle);
    Vsymlight& top = card.top();
    top.s_axi_control_awaddr = address;
    top.s_axi_control_wdata = value;
    top.s_axi_control_awvalid = top.s_axi_control_wvalid = 1;
    for (int i = 0; i < REGISTER_TIMEOUT && card.error.empty(); i++) {
        bool address_accepted = false, data_accepted = false, answered = false;
        int response = 0;
        card.step([&] {
            address_accepted = top.s_axi_control_awvalid && top.s_axi_control_awready;
            data_accepted = top.s_axi_control_wvalid && top.s_axi_control_wready;
            answered = top.s_axi_control_bvalid;
            response = top.s_axi_control_bresp;
        });
        if (address_accepted) top.s_axi_control_awvalid = 0;
        if (data_accepted) top.s_axi_control_wvalid = 0;
        if (answered) return response;
    }
    if (card.error.empty()) card.error = "s_axi_control: a write got no answer";
    return SL_ERROR;
}

int sl_run(void* handle, int64_t cycles, int until_interrupt) {
    Card& card = at(handle);
    for (int64_t i = 0; i < cycles; i++) {
        if (until_interrupt && card.interrupt()) return SL_INTERRUPT;
        if (i % STOP_INTERVAL == 0 && card.stop.exchange(false)) return SL_STOPPED;
        card.step([] {});
        if (!card.error.empty()) return SL_ERROR;
    }
    return until_interrupt && card.interrupt() ? SL_INTERRUPT : SL_LIMIT;
}

void sl_stop(void* handle) { static_cast<Card*>(handle)->stop = true; }

int64_t sl_cycles(void* handle) { return at(handle).cycle; }

int64_t sl_counter(void* handle, int channel, const char* name) {
    const Counters& counters = at(handle).design->ports[channel].counters;
    const std::string wanted = name;
#define X(field) \
    if (wanted == #field) return static_cast<int64_t>(counters.field);
    AXI_COUNTERS(X)
#undef X
    return -1;
}

const char* sl_error(void* handle) { return at(handle).error.c_str(); }
}
