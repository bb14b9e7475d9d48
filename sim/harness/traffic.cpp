// A master without a kernel: sends a list of read bursts to one port as fast as the port takes them.
// No memory lies behind the port (its answers are decode errors): only times matter.
// It validates the memory model against published measurements (tests/sim/test_hbm.py).
#include "axi_slave.h"

namespace {

// The port variables that a verilated design would own.
struct Variables {
    uint64_t araddr = 0, awaddr = 0;
    uint8_t arlen = 0, arsize = 0, arburst = 1, arvalid = 0, rready = 1;
    uint8_t awlen = 0, awsize = 0, awburst = 1, awvalid = 0, wlast = 0, wvalid = 0, bready = 1;
    uint8_t arready = 0, rresp = 0, rlast = 0, rvalid = 0, awready = 0, wready = 0, bresp = 0, bvalid = 0;
    alignas(8) uint8_t wdata[64] = {}, wstrb[8] = {}, rdata[64] = {};

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

}  // namespace

// Reads `count` bursts (address, beats), each of `beat_bytes` a beat, with a kernel clock of `clock_mhz`.
// `issued` and `done` receive the cycles of each burst's address and of its last beat.
// Returns the cycles until the last beat; -1: unknown setting, -2: the port reported a violation, -3: it hangs.
extern "C" int64_t traffic_run(const char* settings, int clock_mhz, int beat_bytes, uint64_t seed, int64_t count,
                               const uint64_t* addresses, const uint8_t* beats, int64_t* issued, int64_t* done) {
    hbm::Parameters parameters;
    if (!parameters.set(settings)) return -1;
    Variables v;
    AxiSlave slave(0, beat_bytes, v.ports());
    while (1 << v.arsize < beat_bytes) v.arsize++;
    slave.reset(parameters, clock_mhz, seed);
    int64_t next = 0, finished = 0, cycle = 0;
    for (; finished < count; cycle++) {
        const int64_t now = cycle * hbm::TICK_MHZ;
        v.arvalid = next < count;
        if (v.arvalid) {
            v.araddr = addresses[next];
            v.arlen = beats[next] - 1;
        }
        slave.drive(now);
        if (v.arvalid && v.arready) issued[next++] = cycle;
        if (v.rvalid && v.rlast) done[finished++] = cycle;
        slave.sample(now);
        if (!slave.rules.error.empty()) return -2;
        if (cycle > count * 100000) return -3;
    }
    return cycle;
}
