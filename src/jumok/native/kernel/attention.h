// softmax(q K^T scale + bias) V: one query of one head over the keys it may see (equation 1).

#pragma once

#include <vector>

#include "formats.h"
#include "mathematics.h"

namespace jumok {

// q and y (d_head). key(s) is the place of the s-th key; its value stands `to_value` numbers on.
// bias (count) is added to the scores; null when there is none. Who may see nothing gets zeros.
template <class Key>
inline void attend(const float* q, int d_head, int count, const Key& key, int to_value, float scale,
                   const float* bias, float* y) {
  std::memset(y, 0, static_cast<size_t>(d_head) * sizeof(float));
  if (count == 0) return;
  thread_local std::vector<float> room;
  if (room.size() < static_cast<size_t>(count)) room.resize(2 * static_cast<size_t>(count));
  float* weights = room.data();
  for (int s = 0; s < count; ++s) {
    const auto* k = key(s);
    float score = 0;
#pragma omp simd reduction(+ : score)
    for (int i = 0; i < d_head; ++i) score += q[i] * wide(k[i]);
    weights[s] = score * scale + (bias == nullptr ? 0 : bias[s]);
  }
  const float share = 1 / exponentials(weights, count, largest(weights, count));
  for (int s = 0; s < count; ++s) {
    const auto* v = key(s) + to_value;
    const float weight = weights[s] * share;
#pragma omp simd
    for (int i = 0; i < d_head; ++i) y[i] += weight * wide(v[i]);
  }
}

}  // namespace jumok
