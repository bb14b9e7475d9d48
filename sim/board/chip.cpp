// The SDRAM's model by itself, command by command: for the test of its rules.
#include "sdram.h"

#pragma GCC visibility push(default)
extern "C" {
void* sd_create() { return new sdram::Sdram; }
void sd_destroy(void* handle) { delete static_cast<sdram::Sdram*>(handle); }
// A rising edge at `now` ns; `command` is ras_n, cas_n, we_n from the top. Returns the word that the chip drives, -1: none.
int sd_edge(void* handle, double now, int cke, int command, int ba, int a, int driven, int dq) {
    sdram::Sdram& chip = *static_cast<sdram::Sdram*>(handle);
    chip.edge(now, {cke != 0, false, (command & 4) != 0, (command & 2) != 0, (command & 1) != 0, driven != 0,
                    static_cast<unsigned>(ba), static_cast<unsigned>(a), static_cast<uint16_t>(dq)});
    return chip.drives() ? chip.word() : -1;
}
const char* sd_error(void* handle) { return static_cast<sdram::Sdram*>(handle)->error.c_str(); }
}
#pragma GCC visibility pop
