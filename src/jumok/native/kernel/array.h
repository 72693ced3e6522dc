// Memory for numbers: lines of 64 bytes, and large pages where the system has them.

#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace jumok {

constexpr size_t LINE_BYTES = 64;
constexpr size_t LARGE_PAGE = size_t{2} << 20;

constexpr int rounded_up(int n, int to) { return (n + to - 1) / to * to; }

// `size` numbers, all 0 at first.
template <class Number>
class Array {
 public:
  Array() = default;

  explicit Array(size_t size) : size_(size) {
    if (size == 0) return;
    size_t bytes = size * sizeof(Number);
    // Weights are read from end to end at every step: with small pages the processor would spend
    // its time looking up addresses.
    const size_t unit = bytes >= LARGE_PAGE ? LARGE_PAGE : LINE_BYTES;
    const size_t whole = (bytes + unit - 1) / unit * unit;
    void* memory = std::aligned_alloc(unit, whole);
    if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (unit == LARGE_PAGE) {  // what does not fill the last one would take the whole of it
      const size_t large = bytes / LARGE_PAGE * LARGE_PAGE;
      madvise(memory, large, MADV_HUGEPAGE);
      if (large < whole) madvise(static_cast<char*>(memory) + large, whole - large, MADV_NOHUGEPAGE);
    }
#endif
    numbers_.reset(static_cast<Number*>(memory));
    std::memset(memory, 0, bytes);
  }

  Number* data() const { return numbers_.get(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(Number); }
  Number& operator[](size_t i) const { return numbers_.get()[i]; }

  // Room for at least `size` numbers; what was there is forgotten when it has to grow.
  Number* room(size_t size) {
    if (size > size_) *this = Array(size);
    return data();
  }

 private:
  struct Free {
    void operator()(Number* memory) const { std::free(memory); }
  };

  std::unique_ptr<Number[], Free> numbers_;
  size_t size_ = 0;
};

}  // namespace jumok
