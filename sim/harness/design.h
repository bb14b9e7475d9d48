// The verilated kernel with the memories at its ports, one clock cycle at a time.
//
// Simulated in parts (parts.py), a cycle is: the kernel without its channels settles on what the channels drive, then every
// channel takes its inputs and its clock edge, and the kernel takes its edge. This is exact because a channel's outputs are
// registers or functions of registers: they do not answer to its inputs before the edge. Checked builds verify that in
// every cycle. Channels do not see each other within a cycle, so threads may share them. The interrupt is looked at
// between cycles: it must be a register of the kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "axi_slave.h"
#include "thread_team.h"
#include "ports.h"
#include "verilated.h"
#if VM_TRACE
#if VM_TRACE_FST
#include "verilated_fst_c.h"
using TraceFile = VerilatedFstC;
#else
#include "verilated_vcd_c.h"
using TraceFile = VerilatedVcdC;
#endif
constexpr int ALL_LEVELS = 99;
#endif

// Name of a channel's model in waveforms; host/trace/events.py looks for it.
inline std::string channel_scope(int k) { return std::string("channel_") + (k < 10 ? "0" : "") + std::to_string(k); }

class Design {
  public:
    std::vector<AxiSlave> ports;

    Design(VerilatedContext* context, int threads) : top_(std::make_unique<Vsymlight>(context, "symlight")) {
        ports.reserve(CHANNELS);
#if SPLIT
        team_ = std::make_unique<ThreadTeam>(threads, CHANNELS, [context] { Verilated::threadContextp(context); });
        bind_places(*top_, places_);
        for (int k = 0; k < CHANNELS; k++) {
            const std::string name = channel_scope(k);
            channels_.push_back(std::make_unique<Vchannel>(context, name.c_str()));
            AxiPorts bus{};
            bind_ports(*channels_.back(), bus);
            ports.emplace_back(k, BEAT_BYTES, bus);
        }
#else
        (void)threads;
        AxiPorts buses[CHANNELS] = {};
        bind_ports(*top_, buses);
        for (int k = 0; k < CHANNELS; k++) ports.emplace_back(k, BEAT_BYTES, buses[k]);
#endif
    }

    Vsymlight& top() { return *top_; }

    // One cycle at time `now`: drive, settle, look at the handshakes, rising edge. `settled` sees what the edge of the
    // control port will see. Without `memories`, nothing is attached to the ports: the kernel is in reset.
    template <typename Look>
    void cycle(int64_t now, bool memories, Look settled) {
#if SPLIT
        for (int k = 0; k < CHANNELS; k++) from_channel(*places_[k], *channels_[k]);
        top_->ap_clk = 0;
        top_->eval();
        settled();
        for (int k = 0; k < CHANNELS; k++) to_channel(*channels_[k], *places_[k]);
        team_->run([&](int thread) {
            if (thread == 0) {
                top_->ap_clk = 1;
                top_->eval();
            }
            team_->share(thread, [&](int k) { edge(k, now, memories); });
        });
#else
        if (memories)
            for (AxiSlave& port : ports) port.drive(now);
        top_->ap_clk = 0;
        top_->eval();
        if (memories)
            for (AxiSlave& port : ports) port.sample(now);
        settled();
        top_->ap_clk = 1;
        top_->eval();
#endif
    }

    // What a port found wrong with the design, or "".
    const std::string& error() const {
        static const std::string none;
        for (const AxiSlave& port : ports)
            if (!port.rules.error.empty()) return port.rules.error;
        return none;
    }

    void final() {
        top_->final();
#if SPLIT
        for (auto& channel : channels_) channel->final();
#endif
    }

#if VM_TRACE
    // `levels` of modules from the kernel down. The channels, which are models of their own, show at least their ports: in
    // the kernel's model the memory ports are connected to nothing.
    void trace(TraceFile* file, int levels) {
        top_->trace(file, levels);
#if SPLIT
        for (auto& channel : channels_) channel->trace(file, levels >= ALL_LEVELS ? levels : 1);
#endif
    }
#endif

  private:
#if SPLIT
    void edge(int k, int64_t now, bool memories) {
        Vchannel& channel = *channels_[k];
        if (memories) ports[k].drive(now);
        channel.clk = 0;
        channel.eval();
        // The kernel may have had its edge by now; the copies of the outputs stay as they were before it.
        if (CHECKED && memories)
            if (const char* name = changed_output(*places_[k], channel); name && ports[k].rules.error.empty())
                ports[k].rules.error = std::string(name) + " of a channel follows an input within a cycle";
        if (memories) ports[k].sample(now);
        channel.clk = 1;
        channel.eval();
    }

    std::vector<std::unique_ptr<Vchannel>> channels_;
    Place* places_[CHANNELS] = {};
    std::unique_ptr<ThreadTeam> team_;
#endif
    std::unique_ptr<Vsymlight> top_;
};
