// One memory port without a kernel, a cycle at a time: a test plays the master. See axi_probe.py.
#include "axi_slave.h"

namespace {

struct Pins {
    uint64_t araddr, awaddr;
    uint8_t arlen, arsize, arburst, arvalid, rready, awlen, awsize, awburst, awvalid, wlast, wvalid, bready;
    uint8_t arready, rresp, rlast, rvalid, awready, wready, bresp, bvalid;
    alignas(8) uint8_t wdata[32], wstrb[8], rdata[32];

    AxiPorts ports() {
        AxiPorts p{};
#define BIND(name) p.name = &name;
        BIND(araddr) BIND(awaddr) BIND(arlen) BIND(arsize) BIND(arburst) BIND(arvalid) BIND(rready)
        BIND(awlen) BIND(awsize) BIND(awburst) BIND(awvalid) BIND(wlast) BIND(wvalid) BIND(bready)
        BIND(arready) BIND(rresp) BIND(rlast) BIND(rvalid) BIND(awready) BIND(wready) BIND(bresp) BIND(bvalid)
#undef BIND
        p.wdata = wdata;
        p.wstrb = wstrb;
        p.rdata = rdata;
        return p;
    }
};

struct Probe {
    AxiSlave slave;
    int64_t now = 0;
};

}  // namespace

extern "C" {

Probe* probe_create(Pins* pins, const char* settings, uint64_t base, uint64_t size, uint8_t* memory) {
    hbm::Parameters parameters;
    if (!parameters.set(settings)) return nullptr;
    auto* probe = new Probe{AxiSlave(3, 32, pins->ports())};
    probe->slave.memories.push_back({base, size, memory});
    probe->slave.reset(parameters, 175, 1);
    return probe;
}

void probe_destroy(Probe* probe) { delete probe; }

void probe_fault(Probe* probe, uint64_t base, uint64_t end, int response, int reads, int writes) {
    probe->slave.faults.push_back({base, end, uint8_t(response), reads != 0, writes != 0});
}

// One clock cycle with the master's pins as they are: "" or the rule that was broken.
const char* probe_step(Probe* probe) {
    probe->slave.drive(probe->now);
    probe->slave.sample(probe->now);
    probe->now += hbm::TICK_MHZ;
    return probe->slave.rules.error.c_str();
}

int probe_idle(const Probe* probe) { return probe->slave.idle(); }

int64_t probe_counter(const Probe* probe, const char* name) {
#define X(counter) \
    if (std::string(name) == #counter) return int64_t(probe->slave.counters.counter);
    AXI_COUNTERS(X)
#undef X
    return -1;
}

}
