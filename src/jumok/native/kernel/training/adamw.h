// One pass over all weights: clipping, AdamW (Loshchilov and Hutter 2019) and the moving average.
//
// Separate operations read and write gradients, weights and moments several times, and memory is
// what limits them.

#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "parallel.h"

namespace jumok {

// Must match AdamWTensor in src/jumok/native/training.py.
struct AdamWTensor {
  float *weight, *mean, *square, *average;  // average: null without a moving average
  const float* gradient;
  int64_t size;
  float decay;      // the weight is multiplied by this first
  float step_size;  // of the mean: the rate, corrected for the bias of the mean
  float root;       // sqrt of the correction for the bias of the squares
};

// Must match AdamWSettings in src/jumok/native/training.py.
struct AdamWSettings {
  float beta1, beta2, epsilon;
  float scale;           // of all gradients: clipping
  float average_weight;  // of the new weights in the moving average
};

constexpr int64_t CHUNK = 16384;  // numbers: a unit of work, and of the sums of `square_sum`

struct Chunk {
  int tensor;
  int64_t first, last;
};

// `size_of(i)` is the size of tensor i.
template <class Size>
std::vector<Chunk> chunks_of(int tensors, const Size& size_of) {
  std::vector<Chunk> chunks;
  for (int i = 0; i < tensors; ++i)
    for (int64_t first = 0, size = size_of(i); first < size; first += CHUNK)
      chunks.push_back({i, first, first + CHUNK < size ? first + CHUNK : size});
  return chunks;
}

template <bool AVERAGED>
void update(const AdamWTensor& tensor, const AdamWSettings& settings, int64_t first, int64_t last) {
  float* const w = tensor.weight + first;
  float* const m = tensor.mean + first;
  float* const v = tensor.square + first;
  float* const average = AVERAGED ? tensor.average + first : nullptr;
  const float* const g = tensor.gradient + first;
  const float scale = settings.scale, beta1 = settings.beta1, beta2 = settings.beta2;
  const float epsilon = settings.epsilon, weight = settings.average_weight;
  const float decay = tensor.decay, rate = tensor.step_size, root = 1 / tensor.root;
  const int n = static_cast<int>(last - first);
#pragma omp simd
  for (int i = 0; i < n; ++i) {
    const float gradient = scale * g[i];
    const float mean = beta1 * m[i] + (1 - beta1) * gradient;
    const float square = beta2 * v[i] + (1 - beta2) * gradient * gradient;
    m[i] = mean, v[i] = square;
    const float x = decay * w[i] - rate * mean / (std::sqrt(square) * root + epsilon);
    w[i] = x;
    if constexpr (AVERAGED) average[i] += weight * (x - average[i]);
  }
}

inline void adamw(const AdamWTensor* tensors, int n, const AdamWSettings& settings, int threads) {
  const auto chunks = chunks_of(n, [&](int i) { return tensors[i].size; });
  parallel_parts(static_cast<int64_t>(chunks.size()), threads, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const AdamWTensor& tensor = tensors[chunks[i].tensor];
      const auto update_chunk = tensor.average == nullptr ? update<false> : update<true>;
      update_chunk(tensor, settings, chunks[i].first, chunks[i].last);
    }
  });
}

// The sum of the squares of all numbers; its order depends on their number alone.
inline double square_sum(const float* const* tensors, const int64_t* sizes, int n, int threads) {
  const auto chunks = chunks_of(n, [&](int i) { return sizes[i]; });
  std::vector<double> sums(chunks.size());
  parallel_parts(static_cast<int64_t>(chunks.size()), threads, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const float* const x = tensors[chunks[i].tensor] + chunks[i].first;
      const int size = static_cast<int>(chunks[i].last - chunks[i].first);
      float sum = 0;  // of lanes: each adds a few hundred squares
#pragma omp simd reduction(+ : sum)
      for (int j = 0; j < size; ++j) sum += x[j] * x[j];
      sums[i] = sum;
    }
  });
  double total = 0;
  for (const double each : sums) total += each;
  return total;
}

}  // namespace jumok
