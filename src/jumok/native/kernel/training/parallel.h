// Parallel loops on the threads of PyTorch: its OpenMP runtime is called by address.
//
// A step of a training alternates between operations of PyTorch and those of the kernel. Threads of
// our own would compete for the cores with those of PyTorch, which spin between its operations.

#pragma once

#include <cstdint>

namespace jumok {

struct OpenMp {
  // GOMP_parallel of libgomp, which libomp has too: runs work(data) in each thread of a team.
  void (*parallel)(void (*work)(void*), void* data, unsigned threads, unsigned flags);
  int (*thread_number)();
  int (*team_size)();
};

inline OpenMp openmp{};  // without it every loop runs in the calling thread

// Calls work(first, last) for equal parts of 0 ... items, one in each thread. No exception may leave
// `work`, and its results must not depend on where the parts begin.
template <class Work>
void parallel_parts(int64_t items, int threads, const Work& work) {
  if (threads <= 1 || items <= 1 || openmp.parallel == nullptr) {
    work(int64_t{0}, items);
    return;
  }
  struct Call {
    const Work* work;
    int64_t items;
  } call{&work, items};
  openmp.parallel(
      [](void* data) {
        const Call& one = *static_cast<Call*>(data);
        const int64_t part = openmp.thread_number(), parts = openmp.team_size();
        (*one.work)(one.items * part / parts, one.items * (part + 1) / parts);
      },
      &call, static_cast<unsigned>(threads), 0);
}

}  // namespace jumok
