// A table of token vectors in the memory of the caller, such as a mapped file: it is not copied.

#pragma once

#include <cstddef>

#include "simd.h"

namespace jumok {

// The types of a table, in the order of TABLE_TYPES in ../library.py. int8 has a scale for each row.
enum class TableType : int32_t { float32, bfloat16, float16, int8 };

struct EmbeddingTable {
  TableType type = TableType::float32;
  int rows = 0, width = 0;
  const void* values = nullptr;   // (rows, width); must outlive the model
  const float* scales = nullptr;  // (rows) of int8

  // to (width) = the vector of a row times `factor`.
  void read(int row, float factor, float* to) const {
    const size_t first = static_cast<size_t>(row) * width;
    switch (type) {
      case TableType::float32: return decode<float>(first, factor, to);
      case TableType::bfloat16: return decode<Bfloat>(first, factor, to);
      case TableType::float16: {
        const Half* from = static_cast<const Half*>(values) + first;
        for (int i = 0; i < width; ++i) to[i] = half_to_float(from[i]) * factor;
        return;
      }
      case TableType::int8: {
        const int8_t* from = static_cast<const int8_t*>(values) + first;
        factor *= scales[row];
        for (int i = 0; i < width; ++i) to[i] = static_cast<float>(from[i]) * factor;
        return;
      }
    }
  }

 private:
  template <class T>
  void decode(size_t first, float factor, float* to) const {
    const T* from = static_cast<const T*>(values) + first;
    for (int i = 0; i < width; ++i) to[i] = to_float(from[i]) * factor;
  }
};

}  // namespace jumok
