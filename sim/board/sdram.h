// A 16-bit SDR SDRAM of 32 MB with the timing of its data sheet, apart from the controller's own figures: every violation
// is an error that names the rule. Banks, rows and columns: 4 x 8192 x 512.
//
// Figures: IS42S16160G-7 and AS4C16M16SA-7, AC characteristics; of each line the slower one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sdram {

constexpr int BANKS = 4, ROWS = 8192, COLUMNS = 512;
constexpr double T_CK3 = 7, T_CK2 = 10, T_RCD = 21, T_RP = 21, T_RAS = 42, T_RAS_MAX = 100e3, T_RC = 63, T_RFC = 63;
constexpr double T_RRD = 14, T_WR = 14, T_REFI = 64e6 / 8192, T_POWER = 200e3;
constexpr int MRD_CYCLES = 2, POWER_REFRESHES = 8, REFRESH_DEBT = 8;
constexpr double NEVER = -1e18, EXACT = 1e-6;

// Levels at the chip's pins at a rising edge of its clock.
struct Pins {
    bool cke, cs_n, ras_n, cas_n, we_n, dq_driven;
    unsigned ba, a;
    uint16_t dq;
};

class Sdram {
   public:
    std::string error;                  // the first violation
    std::vector<uint16_t> words;
    uint64_t reads = 0, writes = 0, activates = 0, refreshes = 0;      // commands

    Sdram() : words(size_t{BANKS} * ROWS * COLUMNS) {
        for (size_t i = 0; i < words.size(); i++) words[i] = static_cast<uint16_t>(i * 40503u >> 3);   // as after power-up
    }

    // A rising edge of the chip's clock at `now` nanoseconds.
    void edge(double now, const Pins& pins) {
        const double cycle = now - now_;
        if (edge_ > 0 && cycle + EXACT < (latency_ == 2 ? T_CK2 : T_CK3)) fail("t_CK");
        now_ = now;
        edge_++;
        if (!pins.cke && started_) fail("CKE is low");
        output_ = pending_;
        driven_before_ = driven_;
        driven_ = output_.valid;
        shift();
        if (pins.dq_driven && (driven_ || driven_before_ || pending_.valid)) fail("DQ is driven by both sides");
        if (!pins.cs_n) command(pins);
        burst_write(pins);
        if (ready_ && now - ready_at_ > (refreshes_done_ + REFRESH_DEBT + 1) * T_REFI) fail("refresh is late");
    }

    // What the chip drives for the edge that was last: junk if nothing.
    bool drives() const { return output_.valid; }
    uint16_t word() const { return output_.valid ? output_.word : static_cast<uint16_t>(edge_ * 48271u); }

   private:
    struct Bank {
        bool open = false;
        int row = 0;
        double activated = NEVER, precharged = NEVER, written = NEVER;
    };
    struct Word {
        bool valid = false;
        uint16_t word = 0;
    };

    std::array<Bank, BANKS> banks_;
    double now_ = 0, activated_ = NEVER, refreshed_ = NEVER, mode_edge_ = NEVER, ready_at_ = 0;
    int64_t edge_ = 0;
    bool started_ = false, precharged_all_ = false, ready_ = false, driven_ = false, driven_before_ = false;
    int64_t refreshes_done_ = 0;
    int latency_ = 3, burst_ = 0;
    std::array<Word, 16> pipe_{};      // words of reads for the edges after the next
    Word pending_, output_;            // for the next edge, for the last one
    int write_bank_ = 0, write_column_ = 0, write_left_ = 0;

    void fail(const std::string& rule) {
        if (error.empty()) error = "SDRAM: " + rule + " at " + std::to_string(now_) + " ns";
    }
    void need(double since, double least, const char* rule) {
        if (now_ - since + EXACT < least) fail(rule);
    }
    uint16_t& at(int bank, int row, int column) {
        return words[(static_cast<size_t>(row) * BANKS + bank) * COLUMNS + column];
    }
    void shift() {
        pending_ = pipe_[0];
        std::move(pipe_.begin() + 1, pipe_.end(), pipe_.begin());
        pipe_.back() = Word{};
    }
    // The column `step` words into a burst from `column`: bursts wrap within their aligned block.
    int wrapped(int column, int step) const { return (column & ~(burst_ - 1)) | ((column + step) & (burst_ - 1)); }

    void command(const Pins& pins) {
        const int code = pins.ras_n << 2 | pins.cas_n << 1 | static_cast<int>(pins.we_n);
        if (code == 7) return;
        if (!started_) {
            need(0, T_POWER, "a command before the clock was stable for 200 us");
            started_ = true;
        }
        if (edge_ - mode_edge_ < MRD_CYCLES) fail("t_MRD");
        switch (code) {
            case 0: mode(pins); break;
            case 1: refresh(); break;
            case 2: precharge(pins); break;
            case 3: activate(pins); break;
            case 4: write(pins); break;
            case 5: read(pins); break;
            default: fail("BURST STOP is not used by this design");
        }
    }

    void all_closed(const char* rule) {
        for (const Bank& bank : banks_) {
            if (bank.open) fail(std::string(rule) + " with an open bank");
            need(bank.precharged, T_RP, "t_RP");
        }
        need(refreshed_, T_RFC, "t_RFC");
    }
    void mode(const Pins& pins) {
        all_closed("MODE REGISTER SET");
        if (!precharged_all_ || (!ready_ && refreshes_done_ < POWER_REFRESHES)) fail("MODE REGISTER SET before precharge and refreshes");
        latency_ = pins.a >> 4 & 7;
        burst_ = 1 << (pins.a & 7);
        if ((latency_ != 2 && latency_ != 3) || burst_ > 8 || (pins.a & 0x1F88) || pins.ba) fail("mode register");
        mode_edge_ = edge_;
        if (!ready_) ready_at_ = now_, refreshes_done_ = 0;
        ready_ = true;
    }
    void refresh() {
        all_closed("REFRESH");
        if (!precharged_all_) fail("REFRESH before PRECHARGE ALL");
        refreshed_ = now_;
        refreshes_done_++, refreshes++;
    }
    void precharge(const Pins& pins) {
        const bool all = pins.a >> 10 & 1;
        need(refreshed_, T_RFC, "t_RFC");
        for (int i = 0; i < BANKS; i++) {
            Bank& bank = banks_[i];
            if (!all && i != static_cast<int>(pins.ba)) continue;
            if (bank.open) {
                need(bank.activated, T_RAS, "t_RAS");
                if (now_ - bank.activated > T_RAS_MAX) fail("t_RAS max");
                need(bank.written, T_WR, "t_WR");
                if (write_left_ && write_bank_ == i) fail("PRECHARGE of a bank that is written");
            }
            bank.open = false;
            bank.precharged = now_;
        }
        precharged_all_ |= all;
    }
    void activate(const Pins& pins) {
        Bank& bank = banks_[pins.ba];
        if (!ready_) fail("ACTIVATE before the mode register is set");
        if (bank.open) fail("ACTIVATE of an open bank");
        need(bank.precharged, T_RP, "t_RP");
        need(bank.activated, T_RC, "t_RC");
        need(activated_, T_RRD, "t_RRD");
        need(refreshed_, T_RFC, "t_RFC");
        bank.open = true;
        bank.row = pins.a & (ROWS - 1);
        bank.activated = activated_ = now_;
        activates++;
    }
    Bank& column(const Pins& pins) {
        Bank& bank = banks_[pins.ba];
        if (!bank.open) fail("a column of a closed bank");
        need(bank.activated, T_RCD, "t_RCD");
        if (now_ - bank.activated > T_RAS_MAX) fail("t_RAS max");
        if (pins.a >> 10 & 1) fail("auto-precharge is not used by this design");
        return bank;
    }
    void read(const Pins& pins) {
        const Bank& bank = column(pins);
        if (write_left_) fail("READ while a burst is written");
        // A read cuts the one before it. Word i is on DQ for the edge `latency_` + i after this one.
        for (size_t i = latency_ - 1; i < pipe_.size(); i++) pipe_[i - 1] = Word{};
        for (int i = 0; i < burst_; i++) {
            const uint16_t word = at(pins.ba, bank.row, wrapped(pins.a & (COLUMNS - 1), i));
            pipe_[latency_ - 2 + i] = {true, word};
        }
        reads++;
    }
    void write(const Pins& pins) {
        column(pins);
        for (const Word& word : pipe_)
            if (word.valid) fail("WRITE while a burst is read");
        write_bank_ = pins.ba;
        write_column_ = pins.a & (COLUMNS - 1);
        write_left_ = burst_;
        writes++;
    }
    void burst_write(const Pins& pins) {
        if (!write_left_) {
            return;
        }
        if (!pins.dq_driven) fail("nothing drives DQ in a burst that is written");
        Bank& bank = banks_[write_bank_];
        at(write_bank_, bank.row, wrapped(write_column_, burst_ - write_left_)) = pins.dq;
        bank.written = now_;
        write_left_--;
    }
};

// The registers in the FPGA's pads on both sides of the chip: outputs a cycle late, the chip's clock half a cycle after the
// FPGA's, and its words in the FPGA's input register at the edge after.
class Pads {
   public:
    // Before a rising edge of the FPGA's clock at `now` ns: takes what the design drives; returns what its input register
    // holds after the edge.
    uint16_t edge(Sdram& chip, double now, double cycle, const Pins& design) {
        if (known_) chip.edge(now - cycle / 2, output_);
        output_ = design;
        known_ = true;
        return chip.word();
    }

   private:
    Pins output_{};
    bool known_ = false;
};

}  // namespace sdram
