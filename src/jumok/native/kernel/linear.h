// y = W x + b for several rows x at once, from weights packed for it.
//
// Weights stand in panels of 64 outputs; a panel is read from its beginning to its end. One row
// costs what reading the weights costs; of many rows, six at a time meet a panel while their sums
// stay in registers, so that each weight that was read is used six times.
// Sums run over the inputs in their order, whatever the number of rows or threads: a row's result
// does not depend on its company.

#pragma once

#include <algorithm>
#include <cstdint>
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
  Array<int32_t> excess;  // what each row's sums are too large by
  int stride = 0;

  // Room for `rows` rows of `n` numbers.
  void make_room(int rows, int n) {
    stride = rounded_up(n, static_cast<int>(LINE_BYTES / sizeof(typename Format::Input)));
    inputs.room(static_cast<size_t>(rows) * stride);
    scales.room(rows);
    if (Format::SCALED) excess.room(rows);
  }
  void put(int row, const float* x, int n) {
    typename Format::Input* to = inputs.data() + static_cast<size_t>(row) * stride;
    scales[row] = Format::prepare(x, n, to);
    for (int i = n; i % Format::GROUP; ++i) to[i] = 0;
    if constexpr (Format::SCALED) {
      int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int i = 0; i < n; ++i) sum += to[i];
      excess[row] = sum * Format::EXCESS;
    }
  }
};

template <class Format>
struct Linear {
  using Weight = typename Format::Weight;

  int inputs = 0, outputs = 0, groups = 0, panels = 0;
  Array<Weight> weights;  // (panels, groups, LINES, LANES, GROUP)
  Array<float> bias;      // empty where there is none
  Array<float> scales;    // of each output

  // A map whose weights and biases are all 0.
  void make(int n_outputs, int n_inputs, bool biased) {
    inputs = n_inputs, outputs = n_outputs;
    groups = (inputs + Format::GROUP - 1) / Format::GROUP;
    panels = (outputs + PANEL - 1) / PANEL;
    const size_t padded = static_cast<size_t>(panels) * PANEL;
    weights = Array<Weight>(padded * groups * Format::GROUP);
    if (biased) bias = Array<float>(padded);
    if (Format::SCALED) scales = Array<float>(padded);
  }

  // The weights of n outputs from `first` on: weight (n, inputs), scale and bias (n); bias may be
  // null. They come by parts so that nobody has to hold a second copy of a large map.
  void pack(int first, int n, const Weight* weight, const float* scale, const float* b) {
    for (int o = 0; o < n; ++o, weight += inputs) {
      for (int i = 0; i < inputs; ++i) *place(first + o, i) = weight[i];
      if (b != nullptr) bias[first + o] = b[o];
      if (Format::SCALED) scales[first + o] = scale[o];
    }
  }

  // The weights of one output: a token's vector, where the table of embeddings is the output map.
  void row(int output, float factor, float* to) const {
    if (Format::SCALED) factor *= scales[output];
    for (int i = 0; i < inputs; ++i) to[i] = Format::weight(*place(output, i)) * factor;
  }

  size_t bytes() const { return weights.bytes() + bias.bytes() + scales.bytes(); }

  Weight* place(int output, int input) const {
    const size_t panel = output / PANEL, lane = output % PANEL, group = input / Format::GROUP;
    return weights.data() + ((panel * groups + group) * PANEL + lane) * Format::GROUP +
           input % Format::GROUP;
  }

  // Sixteen sums of a row as numbers.
  Floats finish(typename Format::Sum sum, const Rows<Format>& x, int row, int output) const {
    Floats y;
    if constexpr (Format::SCALED) {
      const Integers exact = Format::integers(sum) - x.excess[row];
      y = __builtin_convertvector(exact, Floats) * load<Floats>(scales.data() + output);
      y *= x.scales[row];
    } else {
      y = Format::floats(sum);
    }
    return bias.size() ? y + load<Floats>(bias.data() + output) : y;
  }
};

// Where results go: row i to the i-th line of a table, or to the line that `lines` names for it.
struct Table {
  float* numbers;
  size_t stride;
  const size_t* lines = nullptr;
  bool add = false;  // to what stands there: the residual sum

  // Sixteen numbers of a row, from `output` on; those from `outputs` on are none.
  void take(int row, int output, int outputs, Floats x) const {
    float* to = numbers + (lines == nullptr ? row : lines[row]) * stride + output;
    const int n = std::min(LANES, outputs - output);
    if (n == LANES) return store(to, add ? load<Floats>(to) + x : x);
    for (int i = 0; i < n; ++i) to[i] = add ? to[i] + x[i] : x[i];
  }
};

// One panel and ROWS rows, beginning with `row`.
// The last rows to meet a panel ask for the next one, so that the memory works meanwhile; a row
// that is alone only reads, and processors see that coming by themselves.
template <int ROWS, bool LAST, class Format>
inline void meet(const Linear<Format>& linear, int panel, const Rows<Format>& x, int row,
                 const Table& y) {
  using Input = typename Format::Input;
  constexpr int LINE = LANES * Format::GROUP;
  const typename Format::Weight* weights = linear.place(panel * PANEL, 0);
  const Input* inputs = x.inputs.data() + static_cast<size_t>(row) * x.stride;
  for (int line = 0; line < LINES; line += LINES_AT_ONCE) {
    typename Format::Sum sums[ROWS][LINES_AT_ONCE];
    std::memset(sums, 0, sizeof sums);
    const typename Format::Weight* w = weights + line * LINE;
    for (int group = 0; group < linear.groups; ++group, w += LINES * LINE) {
      using Line = typename Format::Line;
      decltype(Format::ready(Line{})) lines[LINES_AT_ONCE];
      for (int l = 0; l < LINES_AT_ONCE; ++l) {
        lines[l] = Format::ready(load<Line>(w + l * LINE));
        if (LAST && ROWS > 1) __builtin_prefetch(w + l * LINE + linear.groups * LINES * LINE);
      }
      for (int r = 0; r < ROWS; ++r) {
        const auto spread = Format::spread(inputs + r * x.stride + group * Format::GROUP);
        for (int l = 0; l < LINES_AT_ONCE; ++l)
          sums[r][l] = Format::multiply(sums[r][l], spread, lines[l]);
      }
    }
    for (int r = 0; r < ROWS; ++r)
      for (int l = 0; l < LINES_AT_ONCE; ++l) {
        const int output = panel * PANEL + (line + l) * LANES;
        const Floats numbers = linear.finish(sums[r][l], x, row + r, output);
        y.take(row + r, output, linear.outputs, numbers);
      }
  }
}

template <int ROWS, bool LAST, class Format>
inline void meet_some(int rows, const Linear<Format>& linear, int panel, const Rows<Format>& x,
                      int row, const Table& y) {
  if (rows == ROWS) return meet<ROWS, LAST>(linear, panel, x, row, y);
  if constexpr (ROWS > 1) meet_some<ROWS - 1, LAST>(rows, linear, panel, x, row, y);
}

// y = W x + b, or y += W x + b, for all rows.
template <class Format>
void multiply(const Linear<Format>& linear, const Rows<Format>& x, int rows, int threads,
              const Table& y) {
  constexpr int PORTION = 8 * ROWS_AT_ONCE;
  const int portions = (rows + PORTION - 1) / PORTION;
  Threads::of_process().share(linear.panels * portions, threads, [&](int item) {
    const int panel = item / portions, portion = item % portions;
    int row = portion * PORTION;
    const int end = std::min(rows, row + PORTION);
    for (int blocks = (end - row + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE; blocks > 0; --blocks) {
      const int n = (end - row + blocks - 1) / blocks;  // blocks of nearly the same height
      if (row + n < rows)
        meet_some<ROWS_AT_ONCE, false>(n, linear, panel, x, row, y);
      else
        meet_some<ROWS_AT_ONCE, true>(n, linear, panel, x, row, y);
      row += n;
    }
  });
}

}  // namespace jumok
