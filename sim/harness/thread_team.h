// Threads that meet twice in every simulated cycle and share its work.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

class ThreadTeam {
  public:
    // `threads` counts the caller; `items` pieces of work a cycle; `start` runs first in every thread but the caller's.
    ThreadTeam(int threads, int items, const std::function<void()>& start) : threads_(threads), ranges_(threads) {
        for (int t = 0; t < threads; t++) {
            ranges_[t].begin = items * t / threads;
            ranges_[t].end = items * (t + 1) / threads;
        }
        for (int t = 1; t < threads; t++)
            workers_.emplace_back([this, t, start] {
                start();
                work(t);
            });
    }

    ~ThreadTeam() {
        ended_ = true;
        round_.fetch_add(1);
        round_.notify_all();
        for (std::thread& worker : workers_) worker.join();
    }

    ThreadTeam(const ThreadTeam&) = delete;

    // Calls `task(thread)` in every thread, and returns when all have come back.
    template <typename Task>
    void run(const Task& task) {
        for (Range& range : ranges_) range.next.store(range.begin, std::memory_order_relaxed);
        if (workers_.empty()) {
            task(0);
            return;
        }
        const std::function<void(int)> call = std::cref(task);
        task_ = &call;
        waiting_.store(threads_ - 1, std::memory_order_relaxed);
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
        task(0);
        for (int spins = 0; waiting_.load(std::memory_order_acquire) != 0; spins++) pause(spins);
    }

    // Inside a task: `piece(item)` for items that no other thread has taken. A thread begins with its own share, whose data
    // lies in its cache, and then helps the others.
    template <typename Piece>
    void share(int thread, const Piece& piece) {
        for (int i = 0; i < threads_; i++) {
            Range& range = ranges_[(thread + i) % threads_];
            for (int k; (k = range.next.fetch_add(1, std::memory_order_relaxed)) < range.end;) piece(k);
        }
    }

  private:
    static constexpr int SPINS = 4000;      // some microseconds, the length of a cycle's serial part

    struct alignas(64) Range {
        std::atomic<int> next{0};
        int begin = 0, end = 0;
    };

    static void pause(int spins) {
        if (spins < SPINS) __builtin_ia32_pause(); else std::this_thread::yield();
    }

    void work(int thread) {
        for (unsigned seen = 0;; seen++) {
            for (int spins = 0; round_.load(std::memory_order_acquire) == seen; spins++) {
                if (spins < SPINS) __builtin_ia32_pause();
                else round_.wait(seen, std::memory_order_acquire);     // between runs nothing is to be simulated
            }
            if (ended_) return;
            (*task_)(thread);
            waiting_.fetch_sub(1, std::memory_order_release);
        }
    }

    const int threads_;
    std::vector<Range> ranges_;
    const std::function<void(int)>* task_ = nullptr;
    std::atomic<unsigned> round_{0};
    std::atomic<int> waiting_{0};
    std::atomic<bool> ended_{false};
    std::vector<std::thread> workers_;      // last: they use what is above
};
