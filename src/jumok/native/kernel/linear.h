// y = W x + b for several rows x, with weights packed for sequential access.
//
// Weights are stored in panels of 64 outputs, and a panel is read sequentially. For one row the
// cost is the memory traffic of the weights, and all sums of a panel stay in registers; for many
// rows the micro-kernel multiplies TILE_ROWS rows with a part of the panel, so that each loaded
// weight is used that often. The order of summation over the inputs does not depend on the number
// of rows or threads: the result of a row does not depend on the batch.

#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "array.h"
#include "formats.h"
#include "thread_pool.h"

namespace jumok {

constexpr int PANEL_OUTPUTS = 64;
constexpr int VECTORS_PER_PANEL = PANEL_OUTPUTS / LANES;
constexpr int TILE_VECTORS = TILE_SUMS / TILE_ROWS;

// The vectors of outputs that are multiplied with so many rows at a time.
constexpr int tile_vectors(int rows) {
  int vectors = VECTORS_PER_PANEL;
  while (vectors * rows > std::max(TILE_SUMS, VECTORS_PER_PANEL)) vectors /= 2;
  return vectors;
}

// Rows are allocated in whole tiles of AMX: a tile is loaded with the unused rows after the last.
constexpr int ALLOCATED_ROWS = 16;

// Input rows in the type that the weight format multiplies with.
template <class Format>
struct PackedInputs {
  Array<typename Format::Input> inputs;
  Array<float> scales;
  Array<int32_t> zero_point_correction;  // per row: subtracted from its sums
  int stride = 0;

  // Allocates `rows` rows of `n` inputs.
  void reserve(int rows, int n) {
    stride = round_up(n, static_cast<int>(CACHE_LINE_BYTES / sizeof(typename Format::Input)));
    inputs.reserve(static_cast<size_t>(round_up(rows, ALLOCATED_ROWS)) * stride);
    scales.reserve(rows);
    if (Format::SCALED) zero_point_correction.reserve(rows);
  }
  void pack(int row, const float* x, int n) {
    typename Format::Input* to = inputs.data() + static_cast<size_t>(row) * stride;
    scales[row] = Format::pack_row(x, n, to);
    for (int i = n; i % Format::GROUP; ++i) to[i] = 0;
    if constexpr (Format::SCALED) {
      int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int i = 0; i < n; ++i) sum += to[i];
      zero_point_correction[row] = sum * Format::ZERO_POINT;
    }
  }
};

template <class Format>
struct Linear {
  using Weight = typename Format::Weight;

  int inputs = 0, outputs = 0, groups = 0, panels = 0;
  Array<Weight> weights;  // (panels, groups, VECTORS_PER_PANEL, LANES, GROUP)
  Array<float> bias;      // (outputs); empty without bias
  Array<float> scales;    // (outputs); empty unless SCALED

  // Allocates a linear map with zero weights and biases.
  void allocate(int n_outputs, int n_inputs, bool biased) {
    inputs = n_inputs, outputs = n_outputs;
    groups = (inputs + Format::GROUP - 1) / Format::GROUP;
    panels = (outputs + PANEL_OUTPUTS - 1) / PANEL_OUTPUTS;
    const size_t padded = static_cast<size_t>(panels) * PANEL_OUTPUTS;
    weights = Array<Weight>(padded * groups * Format::GROUP);
    if (biased) bias = Array<float>(padded);
    if (Format::SCALED) scales = Array<float>(padded);
  }

  // Packs the weights of n outputs starting at `first`: weight (n, inputs), scale and bias (n);
  // bias may be null. Packing in parts avoids a second copy of a large matrix.
  void pack(int first, int n, const Weight* weight, const float* scale, const float* b) {
    for (int o = 0; o < n; ++o, weight += inputs) {
      for (int i = 0; i < inputs; ++i) *address(first + o, i) = Format::encode(weight[i]);
      if (b != nullptr) bias[first + o] = b[o];
      if (Format::SCALED) scales[first + o] = scale[o];
    }
  }

  // Unpacks the weights of one output: the embedding of a token.
  void unpack_row(int output, float factor, float* to) const {
    if (Format::SCALED) factor *= scales[output];
    for (int i = 0; i < inputs; ++i) to[i] = Format::decode(*address(output, i)) * factor;
  }

  size_t bytes() const { return weights.bytes() + bias.bytes() + scales.bytes(); }

  Weight* address(int output, int input) const {
    const size_t panel = output / PANEL_OUTPUTS, lane = output % PANEL_OUTPUTS,
                 group = input / Format::GROUP;
    return weights.data() + ((panel * groups + group) * PANEL_OUTPUTS + lane) * Format::GROUP +
           input % Format::GROUP;
  }
};

// The destination of results: row i is written to row i, or to row row_index[i] if given.
struct OutputView {
  float* values;
  size_t stride;
  const size_t* row_index = nullptr;
  bool add = false;  // add to the destination: the residual sum

  float* row(int row) const {
    return values + (row_index == nullptr ? row : row_index[row]) * stride;
  }

  // Writes LANES values of a row starting at `output`, without those beyond `outputs`.
  void write(int row, int output, int outputs, Floats x) const {
    float* to = this->row(row) + output;
    const int n = std::min(LANES, outputs - output);
    if (n == LANES) return store(to, add ? load<Floats>(to) + x : x);
    for (int i = 0; i < n; ++i) to[i] = add ? to[i] + x[i] : x[i];
  }
};

// Writes sums of VECTORS * LANES outputs, starting at `output`, as floats. The loops over vectors are
// unrolled: indexed at run time, the sums would be in memory in the loop that computes them.
template <int VECTORS, class Format>
class SumWriter {
 public:
  SumWriter(const Linear<Format>& linear, int output, const OutputView& y)
      : y_(y),
        output_(output),
        outputs_(linear.outputs),
        whole_(output + VECTORS * LANES <= linear.outputs),
        biased_(linear.bias.size() != 0) {
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; ++v) {
      if (biased_) bias_[v] = load<Floats>(linear.bias.data() + output + v * LANES);
      if (Format::SCALED) scales_[v] = load<Floats>(linear.scales.data() + output + v * LANES);
    }
  }

  void operator()(const PackedInputs<Format>& x, int row, const typename Format::Sum* sums) const {
    float* to = y_.row(row) + output_;
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; ++v) {
      Floats values;
      if constexpr (Format::SCALED) {
        const Integers exact = sums[v] - x.zero_point_correction[row];
        values = __builtin_convertvector(exact, Floats);
        values *= scales_[v] * x.scales[row];
      } else {
        values = sums[v];
      }
      if (biased_) values += bias_[v];
      if (!whole_)
        y_.write(row, output_ + v * LANES, outputs_, values);
      else if (y_.add)
        store(to + v * LANES, load<Floats>(to + v * LANES) + values);
      else
        store(to + v * LANES, values);
    }
  }

 private:
  const OutputView y_;
  const int output_, outputs_;
  const bool whole_, biased_;
  Floats bias_[VECTORS], scales_[VECTORS];
};

// Multiplies ROWS rows, starting at `row`, with one panel.
// The last rows of a panel prefetch the next panel; for a single row the hardware prefetcher
// recognizes the sequential access.
template <int ROWS, bool PREFETCH_NEXT, class Format>
inline void micro_kernel(const Linear<Format>& linear, int panel, const PackedInputs<Format>& x,
                         int row, const OutputView& y) {
  using Weight = typename Format::Weight;
  constexpr int VECTORS = tile_vectors(ROWS), VECTOR = LANES * Format::GROUP;
  constexpr int CACHE_LINE = static_cast<int>(CACHE_LINE_BYTES / sizeof(Weight));
  const size_t panel_size = static_cast<size_t>(linear.groups) * PANEL_OUTPUTS * Format::GROUP;
  for (int vector = 0; vector < VECTORS_PER_PANEL; vector += VECTORS) {
    typename Format::Sum sums[ROWS][VECTORS] = {};
    const Weight* w = linear.address(panel * PANEL_OUTPUTS, 0) + vector * VECTOR;
    const typename Format::Input* inputs = x.inputs.data() + static_cast<size_t>(row) * x.stride;
    for (int group = 0; group < linear.groups; ++group) {
      if constexpr (PREFETCH_NEXT && ROWS > 1)
        for (int i = 0; i < VECTORS * VECTOR; i += CACHE_LINE) __builtin_prefetch(w + panel_size + i);
      for (int step = 0; step < Format::STEPS; ++step) {
        decltype(Format::weights(w, step)) weights[VECTORS];
        for (int v = 0; v < VECTORS; ++v) weights[v] = Format::weights(w + v * VECTOR, step);
        for (int r = 0; r < ROWS; ++r) {
          const auto x_group = Format::inputs(inputs + r * x.stride, step);
          for (int v = 0; v < VECTORS; ++v)
            sums[r][v] = Format::multiply_add(sums[r][v], x_group, weights[v]);
        }
      }
      w += VECTORS_PER_PANEL * VECTOR;
      inputs += Format::GROUP;
    }
    const int output = panel * PANEL_OUTPUTS + vector * LANES;
    const SumWriter<VECTORS, Format> write(linear, output, y);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r) write(x, row + r, sums[r]);
  }
}

template <int ROWS, bool PREFETCH_NEXT, class Format>
inline void micro_kernel_tail(int rows, const Linear<Format>& linear, int panel,
                              const PackedInputs<Format>& x, int row, const OutputView& y) {
  if (rows == ROWS) return micro_kernel<ROWS, PREFETCH_NEXT>(linear, panel, x, row, y);
  if constexpr (ROWS > 1)
    micro_kernel_tail<ROWS - 1, PREFETCH_NEXT>(rows, linear, panel, x, row, y);
}

#if defined(__AMX_INT8__)
// The fewest rows that tiles multiply faster than vectors.
constexpr int MIN_AMX_ROWS = 8;

// The same sums as the micro-kernel's, with tiles; the inputs are a multiple of AMX_TILE_INPUTS.
inline void matmul_with_tiles(const Linear<Int8>& linear, const PackedInputs<Int8>& x, int rows,
                              int threads, const OutputView& y) {
  constexpr int BLOCK_ROWS = 64, PAIR_ROWS = 2 * AMX_TILE_ROWS, VECTORS = AMX_OUTPUTS / LANES;
  const int row_blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  ThreadPool::instance().parallel_for(linear.panels * row_blocks, threads, [&](int item) {
    const AmxTiles tiles;
    alignas(CACHE_LINE_BYTES) Integers sums[PAIR_ROWS][VECTORS];
    int32_t* to = reinterpret_cast<int32_t*>(sums);
    const int first = item % row_blocks * BLOCK_ROWS, end = std::min(rows, first + BLOCK_ROWS);
    const int panel_output = item / row_blocks * PANEL_OUTPUTS;
    for (int output = panel_output; output < panel_output + PANEL_OUTPUTS; output += AMX_OUTPUTS) {
      if (output >= linear.outputs) break;
      const int8_t* w = linear.address(output, 0);
      const SumWriter<VECTORS, Int8> write(linear, output, y);
      for (int row = first; row < end; row += PAIR_ROWS) {
        const int8_t* inputs = x.inputs.data() + static_cast<size_t>(row) * x.stride;
        constexpr int GROUP_BYTES = PANEL_OUTPUTS * Int8::GROUP;
        if (end - row > AMX_TILE_ROWS)
          tiles.multiply<2>(inputs, x.stride, w, GROUP_BYTES, linear.inputs, to);
        else
          tiles.multiply<1>(inputs, x.stride, w, GROUP_BYTES, linear.inputs, to);
        for (int r = 0; r < std::min(PAIR_ROWS, end - row); ++r)
          write(x, row + r, sums[r]);
      }
    }
  });
}
#endif

// y = W x + b, or y += W x + b, for all rows.
template <class Format>
void matmul(const Linear<Format>& linear, const PackedInputs<Format>& x, int rows, int threads,
            const OutputView& y) {
#if defined(__AMX_INT8__)
  if constexpr (std::is_same_v<Format, Int8>)
    if (rows >= MIN_AMX_ROWS && linear.inputs % AMX_TILE_INPUTS == 0 && AmxTiles::are_permitted())
      return matmul_with_tiles(linear, x, rows, threads, y);
#endif
  constexpr int BLOCK_ROWS = 8 * TILE_ROWS;
  const int row_blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  ThreadPool::instance().parallel_for(linear.panels * row_blocks, threads, [&](int item) {
    const int panel = item / row_blocks, row_block = item % row_blocks;
    int row = row_block * BLOCK_ROWS;
    const int end = std::min(rows, row + BLOCK_ROWS);
    for (int tiles = (end - row + TILE_ROWS - 1) / TILE_ROWS; tiles > 0; --tiles) {
      const int n = (end - row + tiles - 1) / tiles;  // tiles of nearly equal height
      if (row + n < rows)
        micro_kernel_tail<TILE_ROWS, false>(n, linear, panel, x, row, y);
      else
        micro_kernel_tail<TILE_ROWS, true>(n, linear, panel, x, row, y);
      row += n;
    }
  });
}

}  // namespace jumok
