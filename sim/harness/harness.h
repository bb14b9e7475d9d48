// C interface of a simulated card: the verilated kernel with a memory port per channel (sim/model.py calls it).
//
// Time advances only inside sl_run, sl_read and sl_write, in whole kernel cycles; the same calls with the same seed
// take the same cycles. All functions of one handle must be called from one thread at a time, except sl_stop.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)    // the rest of the library is hidden: several kernels live in one process

extern "C" {

// Result of sl_run, and of register accesses that fail.
enum { SL_LIMIT = 0, SL_INTERRUPT = 1, SL_STOPPED = 2, SL_ERROR = -1 };

// `threads` simulate a cycle, the caller's included. `settings` is "name=value,..." of hbm.h's parameters. NULL when a name
// is unknown.
void* sl_create(int clock_mhz, uint64_t seed, int threads, const char* settings);
void sl_destroy(void* handle);

// Writes a waveform file (VCD or FST, as the model was built) of so many levels of modules from now on (99: everything); 0 when the model was built with trace, else -1.
// A model is traced once: Verilator fixes the signals when the file is opened.
int sl_trace(void* handle, const char* path, int levels);
// Completes the file.
void sl_trace_end(void* handle);

// Reset of kernel, memory timing and counters; memories stay attached.
void sl_reset(void* handle);

// `data` must live until the detach. Accesses outside all memories of a channel answer a decode error.
void sl_attach(void* handle, int channel, uint64_t base, uint64_t size, uint8_t* data);
void sl_detach(void* handle, int channel, uint64_t base);

// Beats of `channel` that touch [base, base + size) answer `response` (2: SLVERR, 3: DECERR). kinds: 1 reads, 2 writes.
void sl_inject(void* handle, int channel, uint64_t base, uint64_t size, int response, int kinds);
void sl_clear_faults(void* handle);

// One AXI4-Lite access; value or response, negative on error.
int64_t sl_read(void* handle, uint32_t address);
int sl_write(void* handle, uint32_t address, uint32_t value);

// At most `cycles` cycles; with `until_interrupt`, ends at the first one that sees the interrupt.
int sl_run(void* handle, int64_t cycles, int until_interrupt);
void sl_stop(void* handle);

int64_t sl_cycles(void* handle);

// A counter of a channel by the name in axi_slave.h; -1: unknown.
int64_t sl_counter(void* handle, int channel, const char* name);

// What failed (assertion or bus protocol), or "".
const char* sl_error(void* handle);
}

#pragma GCC visibility pop
