// Softmax cross-entropy with label smoothing, and its gradient by the logits, in one pass over them.
//
// Log-probabilities are never stored: with m = max z and S = sum e^(z - m),
//
//     loss = log S + m - (1 - s) z[target] - s mean(z)      dz = e^(z - m) / S - s / V - (1 - s) onehot

#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "parallel.h"

namespace jumok {

inline void store_numbers(const float* from, int n, float* to) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}
inline void store_numbers(const float* from, int n, Bfloat* to) { convert(from, n, to); }

// `row` has V numbers of scratch memory; `gradient` may be `logits`.
template <class Number>
float cross_entropy_row(const Number* logits, int V, int64_t target, float smoothing,
                        Number* gradient, float* row) {
  float largest = to_float(logits[0]), sum_of_logits = 0, sum = 0;
#pragma omp simd reduction(max : largest) reduction(+ : sum_of_logits)
  for (int i = 0; i < V; ++i) {
    const float z = row[i] = to_float(logits[i]);
    largest = z > largest ? z : largest;
    sum_of_logits += z;
  }
  const float at_target = row[target];
  sum = exp_minus_max(row, V, largest);
  const float inverse = 1 / sum, spread = smoothing / static_cast<float>(V);
#pragma omp simd
  for (int i = 0; i < V; ++i) row[i] = row[i] * inverse - spread;
  row[target] -= 1 - smoothing;
  store_numbers(row, V, gradient);
  return std::log(sum) + largest - (1 - smoothing) * at_target - spread * sum_of_logits;
}

// logits, gradient (N, V), targets and losses (N); false if a target is no token.
template <class Number>
bool cross_entropy(const Number* logits, const int64_t* targets, int64_t N, int V, float smoothing,
                   Number* gradient, float* losses, int threads) {
  for (int64_t i = 0; i < N; ++i)
    if (targets[i] < 0 || targets[i] >= V) return false;
  parallel_parts(N, threads, [&](int64_t first, int64_t last) {
    std::vector<float> row(V);
    for (int64_t i = first; i < last; ++i)
      losses[i] = cross_entropy_row(logits + i * V, V, targets[i], smoothing, gradient + i * V,
                                    row.data());
  });
  return true;
}

}  // namespace jumok
