// y = W x + b for several rows x at once, from weights packed for it.
//
// Weights stand in panels of 64 outputs; a panel is read from its beginning to its end. One row
// costs what reading the weights costs; of many rows, six at a time meet a panel while their sums
// stay in registers, so that each weight that was read is used six times.
// Sums run over the inputs in their order, whatever the number of rows or threads: a row's result
// does not depend on its company.

#pragma once

#include <algorithm>
#include <type_traits>

#include "array.h"
#include "formats.h"
#include "threads.h"

namespace jumok {

constexpr int LINES = 4;  // of a panel
constexpr int PANEL = LINES * LANES;

// Rows of numbers in the form in which they meet the weights.
template <class Format>
struct Rows {
  Array<typename Format::Input> inputs;
  Array<float> scales;
  int stride = 0;

  // Room for `rows` rows of `n` numbers.
  void make_room(int rows, int n) {
    stride = rounded_up(n, static_cast<int>(LINE_BYTES / sizeof(typename Format::Input)));
    inputs.room(static_cast<size_t>(rows) * stride);
    scales.room(rows);
  }
  void put(int row, const float* x, int n) {
    typename Format::Input* to = inputs.data() + static_cast<size_t>(row) * stride;
    scales[row] = Format::prepare(x, n, to);
    for (int i = n; i % Format::GROUP; ++i) to[i] = 0;  // meets weights that are 0
  }
};

template <class Format>
struct Linear {
  using Weight = typename Format::Weight;

  int inputs = 0, outputs = 0, groups = 0, panels = 0;
  Array<Weight> weights;  // (panels, groups, LINES, LANES, GROUP)
  Array<float> bias;
  Array<float> scales;    // of each output
  Array<int32_t> excess;  // 128 times the sum of each output's weights

  // weight (outputs, inputs), scale and bias (outputs); bias may be null.
  void pack(int n_outputs, int n_inputs, const Weight* weight, const float* scale, const float* b) {
    inputs = n_inputs, outputs = n_outputs;
    groups = (inputs + Format::GROUP - 1) / Format::GROUP;
    panels = (outputs + PANEL - 1) / PANEL;
    const size_t padded = static_cast<size_t>(panels) * PANEL;
    weights = Array<Weight>(padded * groups * Format::GROUP);
    bias = Array<float>(padded);
    if (Format::SCALED) scales = Array<float>(padded), excess = Array<int32_t>(padded);
    for (int o = 0; o < outputs; ++o) {
      const Weight* row = weight + static_cast<size_t>(o) * inputs;
      for (int i = 0; i < inputs; ++i) *place(o, i) = row[i];
      if (b != nullptr) bias[o] = b[o];
      if constexpr (Format::SCALED) {
        scales[o] = scale[o];
        int32_t sum = 0;
        for (int i = 0; i < inputs; ++i) sum += row[i];
        excess[o] = sum * Format::ZERO;
      }
    }
  }

  // The weights of one output: a token's vector, where the table of embeddings is the output map.
  void row(int output, float factor, float* to) const {
    if (Format::SCALED) factor *= scales[output];
    for (int i = 0; i < inputs; ++i) to[i] = Format::weight(*place(output, i)) * factor;
  }

  size_t bytes() const {
    return weights.bytes() + bias.bytes() + scales.bytes() + excess.bytes();
  }

  Weight* place(int output, int input) const {
    const size_t panel = output / PANEL, lane = output % PANEL, group = input / Format::GROUP;
    return weights.data() + ((panel * groups + group) * PANEL + lane) * Format::GROUP +
           input % Format::GROUP;
  }

  // Sixteen sums as numbers.
  Floats finish(typename Format::Sum sum, float row_scale, int output) const {
    const Floats b = load<Floats>(bias.data() + output);
    if constexpr (Format::SCALED) {
      const Integers exact = Format::integers(sum) - load<Integers>(excess.data() + output);
      const Floats scale = load<Floats>(scales.data() + output) * row_scale;
      return __builtin_convertvector(exact, Floats) * scale + b;
    } else {
      return Format::floats(sum) + b;
    }
  }
};

// One panel and ROWS rows, beginning with `row`; give(row, output, sixteen numbers) takes them.
template <int ROWS, class Format, class Give>
inline void meet(const Linear<Format>& linear, int panel, const Rows<Format>& x, int row,
                 const Give& give) {
  using Input = typename Format::Input;
  constexpr int LINE = LANES * Format::GROUP;
  const typename Format::Weight* weights = linear.place(panel * PANEL, 0);
  const Input* inputs = x.inputs.data() + static_cast<size_t>(row) * x.stride;
  for (int line = 0; line < LINES; line += LINES_AT_ONCE) {
    typename Format::Sum sums[ROWS][LINES_AT_ONCE];
    std::memset(sums, 0, sizeof sums);
    const typename Format::Weight* w = weights + line * LINE;
    for (int group = 0; group < linear.groups; ++group, w += LINES * LINE) {
      typename Format::Line lines[LINES_AT_ONCE];
      for (int l = 0; l < LINES_AT_ONCE; ++l)
        lines[l] = load<typename Format::Line>(w + l * LINE);
      for (int r = 0; r < ROWS; ++r) {
        const auto spread = Format::spread(inputs + r * x.stride + group * Format::GROUP);
        for (int l = 0; l < LINES_AT_ONCE; ++l)
          sums[r][l] = Format::multiply(sums[r][l], spread, lines[l]);
      }
    }
    for (int r = 0; r < ROWS; ++r)
      for (int l = 0; l < LINES_AT_ONCE; ++l) {
        const int output = panel * PANEL + (line + l) * LANES;
        give(row + r, output, linear.finish(sums[r][l], x.scales[row + r], output));
      }
  }
}

template <int ROWS, class Format, class Give>
inline void meet_some(int rows, const Linear<Format>& linear, int panel, const Rows<Format>& x,
                      int row, const Give& give) {
  if (rows == ROWS) return meet<ROWS>(linear, panel, x, row, give);
  if constexpr (ROWS > 1) meet_some<ROWS - 1>(rows, linear, panel, x, row, give);
}

// All rows and all outputs. The last of an output's sixteen numbers may lie beyond `outputs`.
template <class Format, class Give>
void multiply(const Linear<Format>& linear, const Rows<Format>& x, int rows, int threads,
              const Give& give) {
  constexpr int PORTION = 8 * ROWS_AT_ONCE;
  const int portions = (rows + PORTION - 1) / PORTION;
  Threads::of_process().share(linear.panels * portions, threads, [&](int item) {
    const int panel = item / portions, portion = item % portions;
    int row = portion * PORTION;
    const int end = std::min(rows, row + PORTION);
    for (int blocks = (end - row + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE; blocks > 0; --blocks) {
      const int n = (end - row + blocks - 1) / blocks;  // blocks of nearly the same height
      meet_some<ROWS_AT_ONCE>(n, linear, panel, x, row, give);
      row += n;
    }
  });
}

// y (rows, stride) = W x + b, in full.
template <class Format>
void multiply_into(const Linear<Format>& linear, const Rows<Format>& x, int rows, int threads,
                   float* y, size_t stride) {
  multiply(linear, x, rows, threads, [&](int row, int output, Floats numbers) {
    float* to = y + row * stride + output;
    const int left = linear.outputs - output;
    if (left >= LANES) return store(to, numbers);
    if (left > 0) std::memcpy(to, &numbers, static_cast<size_t>(left) * sizeof(float));
  });
}

}  // namespace jumok
