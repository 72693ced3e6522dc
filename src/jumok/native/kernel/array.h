// Aligned arrays: cache lines of 64 bytes, and huge pages where the system has them.

#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace jumok {

constexpr size_t CACHE_LINE_BYTES = 64;
constexpr size_t HUGE_PAGE_BYTES = size_t{2} << 20;

constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

// `size` elements, initialized to 0.
template <class T>
class Array {
 public:
  Array() = default;

  explicit Array(size_t size) : size_(size) {
    if (size == 0) return;
    size_t bytes = size * sizeof(T);
    // Each decoding step reads all weights: with small pages, TLB misses would dominate.
    const size_t unit = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : CACHE_LINE_BYTES;
    const size_t whole = (bytes + unit - 1) / unit * unit;
    void* memory = std::aligned_alloc(unit, whole);
    if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (unit == HUGE_PAGE_BYTES) {  // the rest would allocate a whole huge page
      const size_t large = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
      madvise(memory, large, MADV_HUGEPAGE);
      if (large < whole)
        madvise(static_cast<char*>(memory) + large, whole - large, MADV_NOHUGEPAGE);
    }
#endif
    data_.reset(static_cast<T*>(memory));
    std::memset(memory, 0, bytes);
  }

  T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t i) const { return data_.get()[i]; }

  // Grows the array to at least `size` elements; growing discards the contents.
  T* reserve(size_t size) {
    if (size > size_) *this = Array(size);
    return data();
  }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };

  std::unique_ptr<T[], Free> data_;
  size_t size_ = 0;
};

}  // namespace jumok
