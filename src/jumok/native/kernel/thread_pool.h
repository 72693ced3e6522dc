// A thread pool with dynamic scheduling: an idle thread takes the next chunk.
//
// A decoding step has about fifty parallel loops of a few microseconds each, so workers spin while
// they wait and sleep only after a while without work; so does the caller, when the scheduler has
// given the core of a worker to another program. A second OpenMP runtime in a process where torch
// has already loaded one is avoided.

#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace jumok {

inline void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class ThreadPool {
 public:
  // The pool of this process. After fork() the child creates a new pool: threads are not inherited.
  static ThreadPool& instance() {
    static const int registered = pthread_atfork(nullptr, nullptr, recreate_after_fork);
    static_cast<void>(registered);
    return *instance_;
  }

  // Calls work(i) for every i < items on at most `threads` threads. Blocks until all calls return,
  // then rethrows one of their exceptions, if any.
  template <class Work>
  void parallel_for(int items, int threads, const Work& work) {
    if (items <= 1 || threads <= 1 || !run_mutex_.try_lock()) {  // the pool is busy: run serially
      for (int i = 0; i < items; ++i) work(i);
      return;
    }
    start_workers(threads - 1);
    // Several chunks per thread, so that a preempted thread does not delay the others.
    const int chunks = items < 4 * threads ? items : 4 * threads;
    run_ = [](const void* any, int first, int last) {
      for (int i = first; i < last; ++i) (*static_cast<const Work*>(any))(i);
    };
    work_ = &work;
    items_ = items;
    chunks_ = chunks;
    finished_chunks_.store(0, std::memory_order_relaxed);
    next_chunk_.store(static_cast<uint64_t>(chunks) << 32);  // workers start here
    if (sleeping_.load() > 0) {
      std::lock_guard<std::mutex> lock(sleep_mutex_);
      wake_.notify_all();
    }
    run_chunks();
    wait_for_workers();
    const std::exception_ptr failure = std::exchange(failure_, nullptr);
    run_mutex_.unlock();
    if (failure) std::rethrow_exception(failure);
  }

 private:
  using Run = void (*)(const void*, int, int);

  // The upper half of next_chunk_ is the number of chunks, the lower half the next chunk to take.
  // A thread reads run_, work_ and items_ only after taking a chunk: they cannot change before that
  // chunk is finished.
  void run_chunks() {
    uint64_t next_chunk = next_chunk_.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(next_chunk) < next_chunk >> 32) {
      if (!next_chunk_.compare_exchange_weak(next_chunk, next_chunk + 1, std::memory_order_acq_rel))
        continue;
      const int64_t chunk = static_cast<uint32_t>(next_chunk), chunks = chunks_;
      try {
        run_(work_, static_cast<int>(items_ * chunk / chunks),
             static_cast<int>(items_ * (chunk + 1) / chunks));
      } catch (...) {  // parallel_for rethrows it after all chunks finish
        std::lock_guard<std::mutex> lock(sleep_mutex_);
        failure_ = std::current_exception();
      }
      // Both this and the caller write before they read: one of them sees the other.
      if (finished_chunks_.fetch_add(1) + 1 == chunks && caller_sleeps_.load()) {
        std::lock_guard<std::mutex> lock(sleep_mutex_);
        finished_.notify_one();
      }
      next_chunk = next_chunk_.load(std::memory_order_acquire);
    }
  }

  // The last chunks finish soon, unless the scheduler has preempted a worker: then this sleeps.
  void wait_for_workers() {
    for (int i = 0; i < WAIT_SPINS && !all_finished(); ++i) cpu_relax();
    if (all_finished()) return;
    std::unique_lock<std::mutex> lock(sleep_mutex_);
    caller_sleeps_.store(true);
    finished_.wait(lock, [this] { return all_finished(); });
    caller_sleeps_.store(false);
  }

  bool all_finished() const { return finished_chunks_.load() == chunks_; }

  bool has_work() const {
    const uint64_t next_chunk = next_chunk_.load();
    return static_cast<uint32_t>(next_chunk) < next_chunk >> 32;
  }

  void start_workers(int helpers) {
    try {
      for (; started_ < helpers; ++started_) std::thread([this] { worker_loop(); }).detach();
    } catch (const std::exception&) {  // thread limit reached: run with fewer workers
    }
  }

  void worker_loop() {
    for (;;) {
      for (int i = 0; i < SPIN_ITERATIONS && !has_work(); ++i) cpu_relax();
      if (!has_work()) {
        std::unique_lock<std::mutex> lock(sleep_mutex_);
        sleeping_.fetch_add(1);
        wake_.wait(lock, [this] { return has_work(); });
        sleeping_.fetch_sub(1);
      }
      run_chunks();
    }
  }

  static void recreate_after_fork() { instance_ = new ThreadPool; }

  static ThreadPool* instance_;

  static constexpr int SPIN_ITERATIONS = 20'000;  // before sleeping: below 1 ms
  static constexpr int WAIT_SPINS = 5'000;

  std::mutex run_mutex_;  // one parallel_for at a time
  std::atomic<uint64_t> next_chunk_{0};
  std::atomic<int> finished_chunks_{0};
  Run run_ = nullptr;
  const void* work_ = nullptr;
  int64_t items_ = 0, chunks_ = 0;
  int started_ = 0;
  std::atomic<int> sleeping_{0};
  std::mutex sleep_mutex_;
  std::exception_ptr failure_;
  std::condition_variable wake_, finished_;
  std::atomic<bool> caller_sleeps_{false};
};

// Never deleted: worker threads may outlive all static objects.
inline ThreadPool* ThreadPool::instance_ = new ThreadPool;

}  // namespace jumok
