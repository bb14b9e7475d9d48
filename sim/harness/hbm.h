// Timing of one HBM2 pseudo-channel, as a schedule: columns are issued in order, so the time of each 32-byte column
// command follows from the commands before it and is computed once, when the command arrives. A refresh, a page
// miss or a bank-group clash costs arithmetic only, never a walk through empty clock ticks.
//
// All times are ticks of the 900 MHz command clock. Not modelled: the command bus that two pseudo-channels share,
// read/write turnaround, single-bank refresh.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

namespace hbm {

constexpr int TICK_MHZ = 900;       // command clock: two column slots of 64 data pins x burst 4 = 14.4 GB/s
constexpr int COLUMN_BYTES = 32;    // bytes of a column command
constexpr int WINDOW = 16;          // commands whose rows may be opened ahead of the oldest one

// Parameters that a caller may set by name, with their defaults.
//   ideal     1: fixed latency of `ideal_cycles`, no banks, no refresh
//   bursts    bursts in flight that a port accepts, for reads and for writes
//   bytes     read bytes in flight that a port accepts
//   latency   nanoseconds outside the DRAM (switch, controller); 94: port at 450 MHz, 170: port in a slow shell
//   request   of these, nanoseconds before the DRAM; the rest is behind it
//   buffer    beats of the port's return buffer: a column is read only when its beat has room; 0: no limit
//   idle      cycles without data between two bursts
//   ar_ps     picoseconds between two accepted addresses, when longer than a kernel cycle
//   *_stall   random back-pressure of each AXI channel, in 256ths of the cycles
//   junk      1: drive noise on the read payload while it is not valid
//   cl ..     DRAM timings in ticks; trefi = 0: no refresh
#define HBM_PARAMETERS(X)                                                                                     \
    X(ideal, 0) X(ideal_cycles, 8) X(bursts, 64) X(bytes, 4096) X(latency, 170) X(ar_ps, 4440)                \
    X(request, 0) X(buffer, 0) X(idle, 0)                                                                     \
    X(ar_stall, 0) X(r_stall, 0) X(aw_stall, 0) X(w_stall, 0) X(b_stall, 0) X(junk, 1)                        \
    X(cl, 14) X(burst, 2) X(trcd, 14) X(trp, 14) X(tras, 30) X(tccd_s, 2) X(tccd_l, 4) X(trrd, 4) X(tfaw, 22) \
    X(trtp, 5) X(trefi, 3510) X(trfc, 234)

struct Parameters {
#define X(name, value) int name = value;
    HBM_PARAMETERS(X)
#undef X

    // Sets "name=value,name=value"; false when a name is unknown.
    bool set(const std::string& settings) {
        std::stringstream stream(settings);
        for (std::string item; std::getline(stream, item, ',');) {
            const size_t equals = item.find('=');
            int* field = equals == std::string::npos ? nullptr : find(item.substr(0, equals));
            if (!field) return false;
            *field = std::atoi(item.c_str() + equals + 1);
        }
        return true;
    }

  private:
    int* find(const std::string& wanted) {
#define X(name, value) \
    if (wanted == #name) return &name;
        HBM_PARAMETERS(X)
#undef X
        return nullptr;
    }
};

// Small deterministic generator (xorshift64*); every channel has its own.
class Random {
  public:
    explicit Random(uint64_t seed = 1) : state_(seed * 0x9E3779B97F4A7C15ull + 0xD1B54A32D192ED03ull) { next(); }
    uint32_t next() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1Dull) >> 32);
    }
    // True once in a while: `rate` of 256 times.
    bool chance(int rate) { return rate > 0 && static_cast<int>(next() & 0xFF) < rate; }

  private:
    uint64_t state_;
};

class PseudoChannel {
  public:
    void reset(const Parameters& parameters, uint64_t seed) {
        p_ = parameters;
        banks_.fill({});
        window_.fill(PAST);
        activates_.fill(PAST);
        group_column_.fill(PAST);
        last_column_ = last_activate_ = PAST;
        commands_ = activations_ = 0;
        // Pseudo-channels refresh at unrelated times; in lock step they would hide or add up.
        next_refresh_ = p_.trefi ? static_cast<int64_t>(Random(seed).next() % p_.trefi) : INT64_MAX;
    }

    // Time at which the column command for `address` is issued; it arrived at `arrival`.
    int64_t column(uint64_t address, int64_t arrival) {
        // Default address map of the controller: row | bank group 1 | bank | column | bank group 0 | byte.
        const unsigned group = (address >> 5 & 1) | (address >> 12 & 2);
        Bank& bank = banks_[group << 2 | (address >> 11 & 3)];
        const int64_t row = static_cast<int64_t>(address >> 14);
        const int64_t visible = std::max(arrival, window_[commands_ % WINDOW]);

        int64_t time = issue(bank, group, row, arrival, visible);
        while (time >= next_refresh_) {
            refresh(time, arrival);
            time = issue(bank, group, row, arrival, visible);
        }
        if (bank.row != row) {
            bank.row = row;
            bank.activate = opening_;
            last_activate_ = opening_;
            activates_[activations_++ % activates_.size()] = opening_;
        }
        bank.column = group_column_[group] = last_column_ = window_[commands_++ % WINDOW] = time;
        return time;
    }

    uint64_t activations() const { return activations_; }

  private:
    static constexpr int64_t PAST = -1000000;

    struct Bank {
        int64_t row = -1;           // -1: closed
        int64_t activate = PAST;    // time of the last activation; while closed: ready to activate
        int64_t column = PAST;
    };

    // Issue time of a column in `bank`; leaves the activation it needs in opening_.
    int64_t issue(const Bank& bank, unsigned group, int64_t row, int64_t arrival, int64_t visible) {
        int64_t time = std::max({arrival, last_column_ + p_.tccd_s, group_column_[group] + p_.tccd_l});
        if (bank.row == row) return std::max(time, bank.activate + p_.trcd);
        opening_ = std::max({visible, last_activate_ + p_.trrd, activates_[activations_ % activates_.size()] + p_.tfaw});
        if (bank.row < 0) {
            opening_ = std::max(opening_, bank.activate);
        } else {
            const int64_t close = std::max({visible, bank.activate + p_.tras, bank.column + p_.trtp});
            opening_ = std::max(opening_, close + p_.trp);
        }
        return std::max(time, opening_ + p_.trcd);
    }

    void refresh(int64_t time, int64_t arrival) {
        // Refreshes that passed while nothing was asked for closed the banks and are over.
        const int64_t idle = std::min(time, arrival) - p_.trp - p_.trfc;
        if (idle > next_refresh_) next_refresh_ += (idle - next_refresh_) / p_.trefi * p_.trefi;
        const int64_t end = next_refresh_ + p_.trp + p_.trfc;   // all banks are closed first
        for (Bank& bank : banks_) bank = {-1, end, PAST};
        next_refresh_ += p_.trefi;
    }

    Parameters p_;
    std::array<Bank, 16> banks_;
    std::array<int64_t, WINDOW> window_;        // column times of the last commands
    std::array<int64_t, 4> activates_;          // times of the last four activations
    std::array<int64_t, 4> group_column_;       // last column of each bank group
    int64_t last_column_, last_activate_, next_refresh_;
    int64_t opening_ = 0;
    uint64_t commands_ = 0, activations_ = 0;
};

}  // namespace hbm
