// y = W x + b with weights in blocks: 32 inputs of one output with one float16 scale, as in GGUF
// files (Q8_0, Q4_0).
//
// A panel of 64 outputs is a sequence of blocks: 64 scales, then the weights of 32 inputs, in the
// order of linear.h. Together they have the bytes of the file. Inputs are quantized to int8 by
// blocks as well, and a block's products are summed exactly in integers:
//
//     y = sum over blocks of (sum over the block of q_w q_x) scale_w scale_x
//
// The sums of blocks are added in float32 in the order of the blocks, whatever the number of rows
// or threads: as in linear.h, the result of a row does not depend on the batch.

#pragma once

#include "linear.h"

namespace jumok {

constexpr int BLOCK_INPUTS = 32;

inline int blocks_of(int inputs) { return (inputs + BLOCK_INPUTS - 1) / BLOCK_INPUTS; }

// Signed bytes.
struct ByteBlocks {
  using Products = Int8Products;
  static constexpr int WEIGHT_BYTES = 32;
  static constexpr int32_t ZERO_POINT = Products::ZERO_POINT;

  // Copies the weights of a block of a file to where they are multiplied from: `to` is that of the
  // first input and `stride` bytes lie between groups of inputs.
  static void pack(const uint8_t* from, uint8_t* to, size_t stride) {
    for (int i = 0; i < BLOCK_INPUTS; ++i)
      to[i / Products::GROUP * stride + i % Products::GROUP] =
          static_cast<uint8_t>(Products::encode(static_cast<int8_t>(from[i])));
  }
  static int unpack(const uint8_t* from, size_t stride, int i) {
    const uint8_t q = from[i / Products::GROUP * stride + i % Products::GROUP];
    return Products::encode(static_cast<int8_t>(q));  // its own inverse
  }
};

// Four bits, 0 ... 15 for -8 ... 7. A byte of a file has weights j and j + 16; a byte of a panel has
// inputs that are HALF apart in a group.
struct NibbleBlocks {
  using Products = NibbleProducts;
  static constexpr int WEIGHT_BYTES = 16;
  static constexpr int32_t ZERO_POINT = 8;
  static constexpr int HALF = Products::GROUP / 2;

  static void pack(const uint8_t* from, uint8_t* to, size_t stride) {
    for (int i = 0; i < BLOCK_INPUTS; ++i) {
      const int q = i < 16 ? from[i] & 15 : from[i - 16] >> 4, place = i % Products::GROUP;
      uint8_t& pair = to[i / Products::GROUP * stride + place % HALF];
      pair = static_cast<uint8_t>(place < HALF ? (pair & 0xf0) | q : (pair & 0x0f) | (q << 4));
    }
  }
  static int unpack(const uint8_t* from, size_t stride, int i) {
    const int place = i % Products::GROUP;
    const uint8_t pair = from[i / Products::GROUP * stride + place % HALF];
    return (place < HALF ? pair & 15 : pair >> 4) - ZERO_POINT;
  }
};

// The formats Q8_0 and Q4_0.
template <class Kind>
struct Blocks {
  static constexpr bool SCALED = true;
  using Weight = uint8_t;  // of rows as in a file: 2 bytes of scale, then the weights, by blocks
  using CacheType = Bfloat;
  using Products = typename Kind::Products;
};

using Q8_0 = Blocks<ByteBlocks>;
using Q4_0 = Blocks<NibbleBlocks>;

template <class Format>
constexpr bool IS_BLOCKS = false;
template <class Kind>
constexpr bool IS_BLOCKS<Blocks<Kind>> = true;

template <class Kind>
struct PackedInputs<Blocks<Kind>> {
  using Input = typename Kind::Products::Input;

  Array<Input> inputs;        // (rows, blocks, BLOCK_INPUTS)
  Array<float> scales;        // (rows, blocks)
  Array<int32_t> correction;  // (rows, blocks): subtracted from the sums of a block
  int blocks = 0;

  void reserve(int rows, int n) {
    blocks = blocks_of(n);
    const size_t count = static_cast<size_t>(rows) * blocks;
    inputs.reserve(count * BLOCK_INPUTS);
    scales.reserve(count);
    correction.reserve(count);
  }
  void pack(int row, const float* x, int n) {
    const size_t first = static_cast<size_t>(row) * blocks;
    for (int block = 0; block < blocks; ++block, x += BLOCK_INPUTS, n -= BLOCK_INPUTS) {
      Input* to = inputs.data() + (first + block) * BLOCK_INPUTS;
      const int count = std::min(n, BLOCK_INPUTS);
      scales[first + block] = quantize_row(x, count, to);
      for (int i = count; i < BLOCK_INPUTS; ++i) to[i] = 0;
      int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int i = 0; i < BLOCK_INPUTS; ++i) sum += to[i];
      correction[first + block] = sum * Kind::ZERO_POINT;
    }
  }
};

template <class Kind>
struct Linear<Blocks<Kind>> {
  static constexpr size_t SCALE_BYTES = 2;
  static constexpr size_t ROW_BLOCK = SCALE_BYTES + Kind::WEIGHT_BYTES;   // bytes in a file
  static constexpr size_t PANEL_BLOCK = PANEL_OUTPUTS * ROW_BLOCK;        // and in a panel
  static constexpr int OUTPUT_BYTES = Kind::WEIGHT_BYTES * Kind::Products::GROUP / BLOCK_INPUTS;
  static constexpr int GROUP_BYTES = PANEL_OUTPUTS * OUTPUT_BYTES;

  int inputs = 0, outputs = 0, blocks = 0, panels = 0;
  Array<uint8_t> weights;  // (panels, blocks, PANEL_BLOCK)
  Array<float> bias;       // (outputs); empty without bias

  void allocate(int n_outputs, int n_inputs, bool biased) {
    inputs = n_inputs, outputs = n_outputs;
    blocks = blocks_of(inputs);
    panels = (outputs + PANEL_OUTPUTS - 1) / PANEL_OUTPUTS;
    weights = Array<uint8_t>(static_cast<size_t>(panels) * blocks * PANEL_BLOCK);
    if (biased) bias = Array<float>(static_cast<size_t>(panels) * PANEL_OUTPUTS);
  }

  // Packs n outputs starting at `first`: rows (n, blocks, ROW_BLOCK) as in a file, bias (n) or null.
  void pack(int first, int n, const uint8_t* rows, const float*, const float* b) {
    for (int o = 0; o < n; ++o) {
      const int lane = (first + o) % PANEL_OUTPUTS;
      for (int i = 0; i < blocks; ++i, rows += ROW_BLOCK) {
        uint8_t* to = block((first + o) / PANEL_OUTPUTS, i);
        std::memcpy(to + lane * SCALE_BYTES, rows, SCALE_BYTES);
        Kind::pack(rows + SCALE_BYTES, weights_of(to, lane), GROUP_BYTES);
      }
      if (b != nullptr) bias[first + o] = b[o];
    }
  }

  void unpack_row(int output, float factor, float* to) const {
    const int lane = output % PANEL_OUTPUTS;
    for (int i = 0; i < inputs; ++i) {
      uint8_t* from = block(output / PANEL_OUTPUTS, i / BLOCK_INPUTS);
      const float scale = half_to_float(load<uint16_t>(from + lane * SCALE_BYTES));
      const int q = Kind::unpack(weights_of(from, lane), GROUP_BYTES, i % BLOCK_INPUTS);
      to[i] = static_cast<float>(q) * scale * factor;
    }
  }

  size_t bytes() const { return weights.bytes() + bias.bytes(); }

  uint8_t* block(int panel, int index) const {
    return weights.data() + (static_cast<size_t>(panel) * blocks + index) * PANEL_BLOCK;
  }
  static uint8_t* weights_of(uint8_t* block, int lane) {
    return block + PANEL_OUTPUTS * SCALE_BYTES + lane * OUTPUT_BYTES;
  }
};

// Multiplies ROWS rows, starting at `row`, with one panel: the sums of a block are in registers,
// those of the row in the first-level cache.
template <int ROWS, bool PREFETCH_NEXT, class Kind>
inline void micro_kernel(const Linear<Blocks<Kind>>& linear, int panel,
                         const PackedInputs<Blocks<Kind>>& x, int row, const OutputView& y) {
  using Products = typename Kind::Products;
  using Map = Linear<Blocks<Kind>>;
  constexpr int VECTORS = tile_vectors(ROWS), VECTOR = LANES * Map::OUTPUT_BYTES;
  constexpr int CACHE_LINE = static_cast<int>(CACHE_LINE_BYTES);
  const size_t panel_size = static_cast<size_t>(linear.blocks) * Map::PANEL_BLOCK;
  const size_t first = static_cast<size_t>(row) * x.blocks;
  Floats totals[ROWS][VECTORS_PER_PANEL] = {};
  for (int block = 0; block < linear.blocks; ++block) {
    const uint8_t* scales = linear.block(panel, block);
    for (int vector = 0; vector < VECTORS_PER_PANEL; vector += VECTORS) {
      typename Products::Sum sums[ROWS][VECTORS] = {};
      const auto* w = reinterpret_cast<const int8_t*>(Map::weights_of(linear.block(panel, block), 0)) +
                      vector * VECTOR;
      const auto* inputs = x.inputs.data() + (first + block) * BLOCK_INPUTS;
#pragma GCC unroll 1
      for (int group = 0; group < BLOCK_INPUTS / Products::GROUP; ++group) {
        if constexpr (PREFETCH_NEXT && ROWS > 1)
          for (int i = 0; i < VECTORS * VECTOR; i += CACHE_LINE)
            __builtin_prefetch(w + panel_size + i);
        for (int step = 0; step < Products::STEPS; ++step) {
          decltype(Products::weights(w, step)) weights[VECTORS];
          for (int v = 0; v < VECTORS; ++v) weights[v] = Products::weights(w + v * VECTOR, step);
          for (int r = 0; r < ROWS; ++r) {
            const auto x_group =
                Products::inputs(inputs + static_cast<size_t>(r) * x.blocks * BLOCK_INPUTS, step);
            for (int v = 0; v < VECTORS; ++v)
              sums[r][v] = Products::multiply_add(sums[r][v], x_group, weights[v]);
          }
        }
        w += Map::GROUP_BYTES;
        inputs += Products::GROUP;
      }
      typename Products::Sum finished[ROWS][VECTORS];  // a copy, as in linear.h
#pragma GCC unroll 8
      for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS; ++v) finished[r][v] = sums[r][v];
      for (int v = 0; v < VECTORS; ++v) {
        const Floats scale =
            half_to_float(reinterpret_cast<const Half*>(scales) + (vector + v) * LANES);
        for (int r = 0; r < ROWS; ++r) {
          const size_t at = first + static_cast<size_t>(r) * x.blocks + block;
          const Integers exact = Products::finish(finished[r][v]) - x.correction[at];
          totals[r][vector + v] += __builtin_convertvector(exact, Floats) * (scale * x.scales[at]);
        }
      }
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS_PER_PANEL; ++v) {
      const int output = panel * PANEL_OUTPUTS + v * LANES;
      Floats values = totals[r][v];
      if (linear.bias.size()) values += load<Floats>(linear.bias.data() + output);
      y.write(row + r, output, linear.outputs, values);
    }
}

}  // namespace jumok
