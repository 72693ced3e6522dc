// Scalar products of float rows with rows that are packed like weights: queries with keys.

#pragma once

#include <vector>

#include "linear.h"

namespace jumok {

template <class T>
inline void grow(std::vector<T>& buffer, size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

// n rows of K elements, packed once into vectors of LANES rows times GROUP elements.
template <class Format>
class RowProducts {
 public:
  static constexpr int GROUP = Format::GROUP;
  using Element = typename Format::Input;
  static_assert(std::is_same_v<Element, typename Format::Weight> && Format::STEPS == 1);

  // Packs n elements, padded with zeros to whole groups.
  static void pack_row(const float* x, int n, Element* to) {
    Format::pack_row(x, n, to);
    for (int i = n; i % GROUP; ++i) to[i] = 0;
  }

  // Packs b (n, K), whose rows are `stride` elements apart.
  void pack(const float* b, size_t stride, int n, int K) {
    K_ = K, row_stride_ = round_up(K, GROUP);
    grow(packed_, static_cast<size_t>(round_up(n, LANES)) * row_stride_);
    grow(rows_, static_cast<size_t>(TILE_ROWS) * row_stride_);
    for (int s = 0; s < n; ++s) {
      pack_row(b + s * stride, K, rows_.data());
      Element* to = packed_.data() + static_cast<size_t>(s / LANES * LANES) * row_stride_ +
                    s % LANES * GROUP;
      for (int i = 0; i < row_stride_; i += GROUP)
        std::memcpy(to + i * LANES, rows_.data() + i, GROUP * sizeof(Element));
    }
  }

  // y (ROWS, y_stride) = scale * a b^T for the packed rows `first`, a multiple of LANES, to
  // `last` - 1, and the rest of its vector; the rows a (ROWS, K) are `stride` elements apart.
  template <int ROWS>
  void multiply(const float* a, size_t stride, int first, int last, float scale, float* y,
                size_t y_stride) {
    constexpr int TILE = TILE_VECTORS * LANES;
    for (int r = 0; r < ROWS; ++r) pack_row(a + r * stride, K_, rows_.data() + r * row_stride_);
    int s = first;
    for (; s + TILE <= round_up(last, LANES); s += TILE)
      multiply_vectors<ROWS, TILE_VECTORS>(s, scale, y, y_stride);
    for (; s < last; s += LANES) multiply_vectors<ROWS, 1>(s, scale, y, y_stride);
  }

  // The same of all of n packed rows for any number of rows.
  void multiply_all(const float* a, size_t stride, int rows, int n, float scale, float* y,
                    size_t y_stride) {
    for (int row = 0; row < rows; row += TILE_ROWS)
      multiply_tail<TILE_ROWS>(std::min(TILE_ROWS, rows - row), a + row * stride, stride, n, scale,
                               y + row * y_stride, y_stride);
  }

 private:
  template <int ROWS>
  void multiply_tail(int rows, const float* a, size_t stride, int n, float scale, float* y,
                     size_t y_stride) {
    if (rows == ROWS) return multiply<ROWS>(a, stride, 0, n, scale, y, y_stride);
    if constexpr (ROWS > 1) multiply_tail<ROWS - 1>(rows, a, stride, n, scale, y, y_stride);
  }

  template <int ROWS, int VECTORS>
  void multiply_vectors(int s, float scale, float* y, size_t y_stride) {
    const size_t block = static_cast<size_t>(LANES) * row_stride_;
    const Element* packed = packed_.data() + static_cast<size_t>(s) * row_stride_;
    typename Format::Sum sums[ROWS][VECTORS] = {};
    for (int i = 0; i < row_stride_; i += GROUP) {
      decltype(Format::weights(packed, 0)) loaded[VECTORS];
      for (int v = 0; v < VECTORS; ++v)
        loaded[v] = Format::weights(packed + v * block + static_cast<size_t>(i) * LANES, 0);
      for (int r = 0; r < ROWS; ++r) {
        const auto row = Format::inputs(rows_.data() + r * row_stride_ + i, 0);
        for (int v = 0; v < VECTORS; ++v)
          sums[r][v] = Format::multiply_add(sums[r][v], row, loaded[v]);
      }
    }
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECTORS; ++v) store(y + r * y_stride + s + v * LANES, sums[r][v] * scale);
  }

  int K_ = 0, row_stride_ = 0;   // K, rounded up to GROUP
  std::vector<Element> packed_;  // (n / LANES, row_stride / GROUP, LANES, GROUP)
  std::vector<Element> rows_;    // (TILE_ROWS, row_stride)
};

}  // namespace jumok
