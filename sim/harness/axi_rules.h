// One AXI port of the design, and the rules that its master must keep.
#pragma once

#include <cstdint>
#include <string>

// Addresses of the port variables of the design. Wide values are arrays of 32-bit words, least first.
struct AxiPorts {
    const uint64_t *araddr, *awaddr;
    const uint8_t *arlen, *arsize, *arburst, *arvalid, *rready;
    const uint8_t *awlen, *awsize, *awburst, *awvalid, *wlast, *wvalid, *bready;
    const void *wdata, *wstrb;
    uint8_t *arready, *rresp, *rlast, *rvalid, *awready, *wready, *bresp, *bvalid;
    void* rdata;
};

// What the protocol, and the card's hardened AXI3 ports, ask of a master: checked at every clock edge.
class AxiRules {
  public:
    static constexpr unsigned MAX_BEATS = 16;       // of a burst
    static constexpr unsigned PAGE = 4096;          // no burst crosses a multiple of it

    std::string error;      // the first rule that the design broke, or ""

    AxiRules(int channel, unsigned beat_bytes, const AxiPorts& ports) : channel_(channel), beat_(beat_bytes), port_(ports) {}

    void reset() {
        held_ar_ = held_aw_ = held_w_ = false;
        error.clear();
    }

    void fail(const char* what) {
        if (error.empty()) error = "AXI port hbm" + std::to_string(channel_) + ": " + what;
    }

    // What is offered stays until it is accepted.
    void check_holds() {
        check_hold(held_ar_, *port_.arvalid, *port_.arready, *port_.araddr, *port_.arlen, ar_, "AR");
        check_hold(held_aw_, *port_.awvalid, *port_.awready, *port_.awaddr, *port_.awlen, aw_, "AW");
        check_hold(held_w_, *port_.wvalid, *port_.wready, hash_write(), *port_.wlast, w_, "W");
    }

    void check_burst(uint64_t address, unsigned beats, unsigned size, unsigned burst) {
        if (1u << size != beat_) fail("a burst's beats are not as wide as the port");
        if (burst != 1) fail("a burst is not of type INCR");
        if (beats > MAX_BEATS) fail("a burst is longer than 16 beats");
        if (address % beat_) fail("an address is not a multiple of the beat");
        if (address / PAGE != (address + beats * beat_ - 1) / PAGE) fail("a burst crosses a 4 KB boundary");
    }

  private:
    struct Held {
        uint64_t address;
        uint8_t extra;
    };

    void check_hold(bool& held, bool valid, bool ready, uint64_t address, uint8_t extra, Held& kept, const char* name) {
        if (held && (!valid || kept.address != address || kept.extra != extra))
            fail((std::string(name) + " changed or was withdrawn before it was accepted").c_str());
        held = valid && !ready;
        if (held) kept = {address, extra};
    }

    uint64_t hash_write() const {
        if (!*port_.wvalid) return 0;
        const auto* words = static_cast<const uint32_t*>(port_.wdata);
        uint64_t hash = 0;
        for (unsigned i = 0; i < beat_ / 4; i++) hash = (hash ^ words[i]) * 0x100000001B3ull;
        return hash;
    }

    const int channel_;
    const unsigned beat_;
    const AxiPorts port_;
    bool held_ar_ = false, held_aw_ = false, held_w_ = false;
    Held ar_{}, aw_{}, w_{};
};
