// Threads that run one function together, and the barrier between its phases.
#pragma once
#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace symlight {

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Waits until `value` leaves `old`: spins for some microseconds, then sleeps, so that a busy machine is not blocked.
inline void await(const std::atomic<uint32_t>& value, uint32_t old) {
    for (int i = 0; i < 2000; i++) {
        if (value.load(std::memory_order_acquire) != old) return;
        relax();
    }
    while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

class Team {
   public:
    explicit Team(int threads) : size_(threads) {
        for (int i = 1; i < threads; i++) workers_.emplace_back([this, i] { work(i); });
    }
    ~Team() {
        task_ = nullptr;
        start_.fetch_add(1, std::memory_order_release);
        start_.notify_all();
        for (auto& worker : workers_) worker.join();
    }
    int size() const { return size_; }

    // task(thread) on every thread; the caller is thread 0.
    void run(const std::function<void(int)>& task) {
        if (size_ > 1) {
            task_ = &task;
            start_.fetch_add(1, std::memory_order_release);
            start_.notify_all();
        }
        task(0);
        barrier();
    }

    void barrier() {
        if (size_ == 1) return;
        const uint32_t phase = phase_.load(std::memory_order_relaxed);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == uint32_t(size_)) {
            arrived_.store(0, std::memory_order_relaxed);
            phase_.fetch_add(1, std::memory_order_release);
            phase_.notify_all();
        } else {
            await(phase_, phase);
        }
    }

   private:
    void work(int thread) {
        for (uint32_t seen = 0;;) {
            await(start_, seen);
            seen = start_.load(std::memory_order_acquire);
            if (task_ == nullptr) return;
            (*task_)(thread);
            barrier();
        }
    }

    const int size_;
    const std::function<void(int)>* task_ = nullptr;
    alignas(64) std::atomic<uint32_t> start_{0};
    alignas(64) std::atomic<uint32_t> arrived_{0};
    alignas(64) std::atomic<uint32_t> phase_{0};
    std::vector<std::thread> workers_;
};

// The share of `units` that thread `thread` of `threads` works on.
inline std::pair<int, int> share(int units, int thread, int threads) {
    return {int(int64_t(units) * thread / threads), int(int64_t(units) * (thread + 1) / threads)};
}

}  // namespace symlight
