// The memory behind one AXI port: handshakes, limits in flight, statistics; times come from hbm.h,
// and the rules of the protocol are checked by axi_rules.h.
//
// A cycle is drive() - the design settles - sample() - the clock edge. What the port drives depends on registered
// state only; arready may look at the waiting burst's length, to keep the bytes in flight within their limit.
//
// Reads take their data when the address is accepted, writes store theirs when the response appears: the order
// least kind to a master that reads before it has the response of its write.
#pragma once

#include <cstring>
#include <vector>

#include "axi_rules.h"
#include "hbm.h"

struct Memory {
    uint64_t base, size;
    uint8_t* data;
};

struct Fault {
    uint64_t base, end;
    uint8_t response;
    bool reads, writes;
};

// Counters of a port, readable by name. Stalls are cycles with valid and without ready; waits are cycles with a
// read in flight and no data to offer; latency runs from the accepted address to the last beat.
#define AXI_COUNTERS(X)                                                                                    \
    X(read_bursts) X(read_beats) X(write_bursts) X(write_beats) X(address_stalls) X(read_stalls)           \
    X(read_waits) X(write_stalls) X(latency_cycles) X(latency_max) X(bursts_max) X(bytes_max)

struct Counters {
#define X(name) uint64_t name = 0;
    AXI_COUNTERS(X)
#undef X
};

class AxiSlave {
  public:
    static constexpr unsigned MAX_BEATS = AxiRules::MAX_BEATS;
    static constexpr unsigned WRITES = 16;          // write bursts in flight
    static constexpr uint8_t OKAY = 0, SLVERR = 2, DECERR = 3;
    static constexpr uint8_t LOST = 255;            // no response of AXI: the answer never comes

    Counters counters;
    std::vector<Memory> memories;
    std::vector<Fault> faults;
    AxiRules rules;

    AxiSlave(int channel, unsigned beat_bytes, const AxiPorts& ports)
        : rules(channel, beat_bytes, ports), channel_(channel), beat_(beat_bytes), port_(ports) {}

    void reset(const hbm::Parameters& parameters, int clock_mhz, uint64_t seed) {
        p_ = parameters;
        mhz_ = clock_mhz;
        random_ = hbm::Random(seed * 64 + channel_);
        dram_.reset(p_, random_.next());
        request_ = static_cast<int64_t>(p_.request * 0.9 * mhz_);
        latency_ = static_cast<int64_t>(p_.latency * 0.9 * mhz_) - request_;
        address_gap_ = static_cast<int64_t>(p_.ar_ps * 0.0009 * mhz_);
        size_t capacity = 1;
        while (capacity * beat_ < static_cast<size_t>(p_.bytes) + MAX_BEATS * beat_) capacity *= 2;
        beats_.assign(capacity, {});
        data_.assign(capacity * beat_, 0);
        writes_.assign(WRITES, {});
        head_ = planned_ = tail_ = bursts_ = bytes_ = 0;
        next_data_ = 0;
        column_ = NO_COLUMN;
        write_head_ = write_fill_ = write_tail_ = 0;
        next_address_ = 0;
        read_taken_ = response_taken_ = false;
        noisy_ = p_.ar_stall || p_.r_stall || p_.aw_stall || p_.w_stall || p_.b_stall;
        counters = {};
        rules.reset();
        *port_.arready = *port_.rvalid = *port_.awready = *port_.wready = *port_.bvalid = 0;
        if (p_.junk) scramble();
        quiet_ = false;
    }

    // Sets the inputs of the design for the cycle at `now` (units of hbm tick / clock MHz, 900 to a cycle).
    void drive(int64_t now) {
        if (quiet_ && !*port_.arvalid && !*port_.awvalid && !*port_.wvalid) return;
        // Only here may inputs change: the edge after sample() must still see what was sampled.
        if (read_taken_) {
            *port_.rvalid = read_taken_ = false;
            if (p_.junk && (head_ == tail_ || beats_[slot(head_)].ready > now)) scramble();
        }
        if (response_taken_) *port_.bvalid = response_taken_ = false;
        if (p_.buffer && !p_.ideal) plan(now);
        if (!*port_.rvalid && head_ != tail_ && beats_[slot(head_)].ready <= now && next_data_ <= now
            && !random_.chance(p_.r_stall)) {
            const Beat& beat = beats_[slot(head_)];
            std::memcpy(port_.rdata, &data_[slot(head_) * beat_], beat_);
            *port_.rresp = beat.response;
            *port_.rlast = beat.last;
            *port_.rvalid = 1;
        }
        const unsigned wanted = *port_.arvalid ? (*port_.arlen + 1u) * beat_ : beat_;
        *port_.arready = bursts_ < static_cast<unsigned>(p_.bursts) && bytes_ + wanted <= static_cast<unsigned>(p_.bytes)
            && now >= next_address_ && !random_.chance(p_.ar_stall);
        *port_.awready = write_tail_ - write_head_ < WRITES && !random_.chance(p_.aw_stall);
        *port_.wready = write_fill_ != write_tail_ && !random_.chance(p_.w_stall);
        if (!*port_.bvalid && write_head_ != write_fill_ && writes_[write_head_ % WRITES].ready <= now
            && !random_.chance(p_.b_stall)) {
            *port_.bresp = commit(writes_[write_head_ % WRITES]);
            *port_.bvalid = 1;
        }
        quiet_ = !noisy_ && head_ == tail_ && write_head_ == write_tail_ && *port_.arready && *port_.awready;
    }

    // Looks at the handshakes that the clock edge at `now` completes.
    void sample(int64_t now) {
        if (quiet_ && !*port_.arvalid && !*port_.awvalid && !*port_.wvalid) return;
        quiet_ = false;
        if (*port_.rvalid) {
            if (*port_.rready) pop(now); else counters.read_stalls++;
        } else if (bursts_) {
            counters.read_waits++;
        }
        rules.check_holds();
        if (*port_.arvalid) {
            if (*port_.arready) accept_read(now); else counters.address_stalls++;
        }
        if (*port_.wvalid) {
            if (*port_.wready) accept_data(now); else counters.write_stalls++;
        }
        if (*port_.awvalid && *port_.awready) accept_write();
        if (*port_.bvalid && *port_.bready) {
            write_head_++;
            response_taken_ = true;
        }
    }

    bool idle() const { return head_ == tail_ && write_head_ == write_tail_; }

  private:
    struct Beat {
        int64_t ready, issued;
        uint64_t address;
        uint8_t response, last;
    };
    static constexpr int64_t NEVER = INT64_MAX;
    static constexpr uint64_t NO_COLUMN = ~uint64_t(0);
    struct Write {
        int64_t ready;
        uint64_t address;
        unsigned beats, filled;
        uint8_t data[MAX_BEATS * 64], strobes[MAX_BEATS * 8];
    };

    size_t slot(uint64_t index) const { return index & (beats_.size() - 1); }

    // Times of the column commands of a burst that arrives at `now`; returns the time of its data beat by beat.
    template <typename Store>
    void schedule(uint64_t address, unsigned beats, int64_t now, Store store) {
        if (p_.ideal) {
            for (unsigned i = 0; i < beats; i++) store(i, now + p_.ideal_cycles * int64_t(hbm::TICK_MHZ));
            return;
        }
        const int64_t arrival = (now + request_ + mhz_ - 1) / mhz_;
        uint64_t done = address & ~uint64_t(hbm::COLUMN_BYTES - 1);
        int64_t ready = 0;
        for (unsigned i = 0; i < beats; i++) {
            for (; done < address + (i + 1) * beat_; done += hbm::COLUMN_BYTES)
                ready = (dram_.column(done, arrival) + p_.cl + p_.burst) * mhz_ + latency_;
            store(i, ready);
        }
    }

    // With a return buffer: reads the columns whose beats have room in it by now.
    void plan(int64_t now) {
        for (; planned_ != tail_ && planned_ - head_ < static_cast<uint64_t>(p_.buffer); planned_++) {
            Beat& beat = beats_[slot(planned_)];
            if (beat.issued + request_ > now) return;
            const uint64_t column = beat.address & ~uint64_t(hbm::COLUMN_BYTES - 1);
            for (uint64_t next = column; next < beat.address + beat_; next += hbm::COLUMN_BYTES) {
                if (next != column_) data_time_ = dram_.column(next, (now + mhz_ - 1) / mhz_) + p_.cl + p_.burst;
                column_ = next;
            }
            if (beat.response != LOST) beat.ready = data_time_ * mhz_ + latency_;
        }
    }

    uint8_t* find(uint64_t address) {
        for (const Memory& m : memories)
            if (address >= m.base && address + beat_ <= m.base + m.size) return m.data + (address - m.base);
        return nullptr;
    }

    uint8_t response(uint64_t address, bool write, const uint8_t* memory) const {
        for (const Fault& f : faults)
            if (address < f.end && address + beat_ > f.base && (write ? f.writes : f.reads)) return f.response;
        return memory ? OKAY : DECERR;
    }

    template <typename Store>
    void read_times(uint64_t address, unsigned beats, int64_t now, Store store) {
        if (!p_.buffer || p_.ideal) return schedule(address, beats, now, store);
        for (unsigned i = 0; i < beats; i++) store(i, NEVER);  // plan() knows
    }

    void accept_read(int64_t now) {
        const uint64_t address = *port_.araddr;
        const unsigned beats = std::min(*port_.arlen + 1u, MAX_BEATS);
        rules.check_burst(address, *port_.arlen + 1u, *port_.arsize, *port_.arburst);
        read_times(address, beats, now, [&](unsigned i, int64_t ready) {
            const size_t at = slot(tail_++);
            uint8_t* memory = find(address + i * beat_);
            const uint8_t answer = response(address + i * beat_, false, memory);
            beats_[at] = {answer == LOST ? NEVER : ready, now, address + i * beat_, answer, i + 1 == beats};
            if (answer == OKAY) std::memcpy(&data_[at * beat_], memory, beat_);
            else noise(&data_[at * beat_]);
        });
        bursts_++;
        bytes_ += beats * beat_;
        // A gap longer than a cycle is kept on average: an address may use the fraction its predecessor left.
        next_address_ = std::max(next_address_, now - hbm::TICK_MHZ) + address_gap_;
        counters.read_bursts++;
        counters.bursts_max = std::max<uint64_t>(counters.bursts_max, bursts_);
        counters.bytes_max = std::max<uint64_t>(counters.bytes_max, bytes_);
    }

    void pop(int64_t now) {
        const Beat& beat = beats_[slot(head_)];
        counters.read_beats++;
        bytes_ -= beat_;
        if (beat.last) {
            const uint64_t cycles = (now - beat.issued) / hbm::TICK_MHZ;
            counters.latency_cycles += cycles;
            counters.latency_max = std::max(counters.latency_max, cycles);
            bursts_--;
            next_data_ = now + (p_.idle + 1) * int64_t(hbm::TICK_MHZ);
        }
        head_++;
        read_taken_ = true;
    }

    void accept_write() {
        rules.check_burst(*port_.awaddr, *port_.awlen + 1u, *port_.awsize, *port_.awburst);
        Write& w = writes_[write_tail_++ % WRITES];
        w.address = *port_.awaddr;
        w.beats = std::min(*port_.awlen + 1u, MAX_BEATS);
        w.filled = 0;
        counters.write_bursts++;
    }

    void accept_data(int64_t now) {
        Write& w = writes_[write_fill_ % WRITES];
        std::memcpy(w.data + w.filled * beat_, port_.wdata, beat_);
        std::memcpy(w.strobes + w.filled * beat_ / 8, port_.wstrb, beat_ / 8);
        w.filled++;
        counters.write_beats++;
        if (*port_.wlast != (w.filled == w.beats)) rules.fail("wlast does not come with the last beat of a burst");
        if (w.filled < w.beats) return;
        schedule(w.address, w.beats, now, [&](unsigned, int64_t ready) { w.ready = ready; });
        if (response(w.address, true, find(w.address)) == LOST) w.ready = NEVER;
        write_fill_++;
    }

    uint8_t commit(const Write& w) {
        uint8_t worst = OKAY;
        for (unsigned i = 0; i < w.beats; i++) {
            const uint64_t address = w.address + i * beat_;
            uint8_t* memory = find(address);
            const uint8_t answer = response(address, true, memory);
            worst = std::max(worst, answer);
            if (answer != OKAY) continue;
            for (unsigned b = 0; b < beat_; b++)
                if (w.strobes[(i * beat_ + b) / 8] >> (b % 8) & 1) memory[b] = w.data[i * beat_ + b];
        }
        return worst;
    }

    void noise(uint8_t* target) {
        for (unsigned i = 0; i < beat_; i += 4) {
            const uint32_t word = random_.next();
            std::memcpy(target + i, &word, 4);
        }
    }

    void scramble() {
        noise(static_cast<uint8_t*>(port_.rdata));
        *port_.rresp = random_.next() & 3;
        *port_.rlast = random_.next() & 1;
    }

    const int channel_;
    const unsigned beat_;
    const AxiPorts port_;
    hbm::Parameters p_;
    hbm::Random random_;
    hbm::PseudoChannel dram_;
    int mhz_ = 0;
    int64_t latency_ = 0, request_ = 0, address_gap_ = 0, next_address_ = 0, next_data_ = 0, data_time_ = 0;
    std::vector<Beat> beats_;           // read beats in flight, a ring
    std::vector<uint8_t> data_;
    uint64_t head_ = 0, planned_ = 0, tail_ = 0, column_ = NO_COLUMN;   // planned: to their columns
    unsigned bursts_ = 0, bytes_ = 0;
    std::vector<Write> writes_;         // write bursts: head .. fill wait for their response, fill .. tail for data
    unsigned write_head_ = 0, write_fill_ = 0, write_tail_ = 0;
    bool noisy_ = false, quiet_ = false;
    bool read_taken_ = false, response_taken_ = false;
};
