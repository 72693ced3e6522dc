// Work shared by a few threads: whoever is free takes the next piece.
//
// A decoding step is some fifty pieces of work of a few microseconds each, so threads wait for the
// next one awake (spinning) and fall asleep only when none has come for a while. No second OpenMP
// runtime is brought into a process where torch already has one.

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

inline void breathe() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Threads {
 public:
  // The threads of this process. A child of fork() has lost its parent's and starts its own.
  static Threads& of_process() {
    static const int registered = pthread_atfork(nullptr, nullptr, begin_anew);
    static_cast<void>(registered);
    return *ours_;
  }

  // work(i) for every i below `items`, by at most `threads` threads; returns when all is done, or
  // throws then what one of them threw.
  template <class Work>
  void share(int items, int threads, const Work& work) {
    if (items <= 1 || threads <= 1 || !turn_.try_lock()) {  // another request is at it: go alone
      for (int i = 0; i < items; ++i) work(i);
      return;
    }
    start(threads - 1);
    // A few pieces a thread, so that one that is interrupted does not hold up the others.
    const int pieces = items < 4 * threads ? items : 4 * threads;
    run_ = [](const void* any, int first, int last) {
      for (int i = first; i < last; ++i) (*static_cast<const Work*>(any))(i);
    };
    work_ = &work;
    items_ = items;
    pieces_ = pieces;
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(static_cast<uint64_t>(pieces) << 32);  // from here on others join in
    if (sleeping_.load() > 0) {
      std::lock_guard<std::mutex> hold(bed_);
      wake_.notify_all();
    }
    help();
    // The last pieces take a moment, unless somebody else was given a helper's processor.
    for (int i = 0; done_.load(std::memory_order_acquire) < pieces; ++i)
      i < PATIENCE ? breathe() : std::this_thread::yield();
    const std::exception_ptr failure = std::exchange(failure_, nullptr);
    turn_.unlock();
    if (failure) std::rethrow_exception(failure);
  }

 private:
  using Run = void (*)(const void*, int, int);

  // The upper half of the ticket is the number of pieces, the lower half the next one to take.
  // What the piece is about is read only after it was taken: until it is done, that cannot change.
  void help() {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(ticket) < ticket >> 32) {
      if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
      const int64_t piece = static_cast<uint32_t>(ticket);
      try {
        run_(work_, static_cast<int>(items_ * piece / pieces_),
             static_cast<int>(items_ * (piece + 1) / pieces_));
      } catch (...) {  // told to who shared the work, when nobody is at it any more
        std::lock_guard<std::mutex> hold(bed_);
        failure_ = std::current_exception();
      }
      done_.fetch_add(1, std::memory_order_release);
      ticket = ticket_.load(std::memory_order_acquire);
    }
  }

  bool something_to_do() const {
    const uint64_t ticket = ticket_.load();
    return static_cast<uint32_t>(ticket) < ticket >> 32;
  }

  void start(int helpers) {
    try {
      for (; started_ < helpers; ++started_) std::thread([this] { serve(); }).detach();
    } catch (const std::exception&) {  // no more are to be had: those that are do the work
    }
  }

  void serve() {
    for (;;) {
      for (int i = 0; i < AWAKE && !something_to_do(); ++i) breathe();
      if (!something_to_do()) {
        std::unique_lock<std::mutex> hold(bed_);
        sleeping_.fetch_add(1);
        wake_.wait(hold, [this] { return something_to_do(); });
        sleeping_.fetch_sub(1);
      }
      help();
    }
  }

  static void begin_anew() { ours_ = new Threads; }

  static Threads* ours_;

  static constexpr int AWAKE = 20'000;  // pauses before falling asleep: a fraction of a millisecond
  static constexpr int PATIENCE = 5'000;

  std::mutex turn_;  // one piece of work at a time
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int> done_{0};
  Run run_ = nullptr;
  const void* work_ = nullptr;
  int64_t items_ = 0, pieces_ = 0;
  int started_ = 0;
  std::atomic<int> sleeping_{0};
  std::mutex bed_;
  std::exception_ptr failure_;
  std::condition_variable wake_;
};

// Never deleted: its threads may outlive every static object.
inline Threads* Threads::ours_ = new Threads;

}  // namespace jumok
