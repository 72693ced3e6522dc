// softmax(q K^T scale + bias) V for one query of one head (equation 1).

#pragma once

#include <vector>

#include "formats.h"

namespace jumok {

template <class CacheType>
inline float dot(const float* q, const CacheType* k, int n) {
  Floats sums{};
  int i = 0;
  for (; i + LANES <= n; i += LANES) sums += load<Floats>(q + i) * to_float(k + i);
  float sum = horizontal_sum(sums);
  for (; i < n; ++i) sum += q[i] * to_float(k[i]);
  return sum;
}

// y (VECTORS * LANES) = the weighted sum of the values; the sums stay in registers.
template <int VECTORS, class Value>
inline void weighted_sum(const float* weights, int count, const Value& value, float* y) {
  Floats sums[VECTORS] = {};
  for (int s = 0; s < count; ++s) {
    const auto* v = value(s);
    for (int i = 0; i < VECTORS; ++i) sums[i] += broadcast(weights[s]) * to_float(v + i * LANES);
  }
  for (int i = 0; i < VECTORS; ++i) store(y + i * LANES, sums[i]);
}

// Keys and values were last used one step ago and are no longer in the cache: prefetch them.
template <class CacheType>
inline void prefetch(const CacheType* from, int n) {
  for (int i = 0; i < n; i += static_cast<int>(64 / sizeof(CacheType)))
    __builtin_prefetch(from + i);
}

// q and y (d_head). key(s) is the address of the s-th key; its value is value_offset elements after
// it. bias (count) is added to the scores; it may be null. Without keys, y is zero. The weights
// (count) are copied to `record` unless it is null.
template <class Key>
inline void attend_one(const float* q, int d_head, int count, const Key& key, int value_offset,
                       float scale, const float* bias, float* y, float* record = nullptr) {
  if (count == 0) {
    std::memset(y, 0, static_cast<size_t>(d_head) * sizeof(float));
    return;
  }
  thread_local std::vector<float> buffer;
  if (buffer.size() < static_cast<size_t>(count)) buffer.resize(2 * static_cast<size_t>(count));
  float* weights = buffer.data();
  constexpr int PREFETCH_DISTANCE = 8;
  for (int s = 0; s < count; ++s) {
    if (s + PREFETCH_DISTANCE < count) prefetch(key(s + PREFETCH_DISTANCE), d_head);
    prefetch(key(s) + value_offset, d_head);
    weights[s] = dot(q, key(s), d_head) * scale + (bias == nullptr ? 0 : bias[s]);
  }
  const float inverse_sum = 1 / exp_minus_max(weights, count, max_of(weights, count));
  for (int s = 0; s < count; ++s) weights[s] *= inverse_sum;
  if (record != nullptr) std::memcpy(record, weights, static_cast<size_t>(count) * sizeof(float));
  int i = 0;
  const auto value = [&](int s) { return key(s) + value_offset + i; };
  constexpr int VECTORS = LANES < 8 ? 8 : 64 / LANES;  // a head of 64 in one pass, if they fit
  for (; i + VECTORS * LANES <= d_head; i += VECTORS * LANES)
    weighted_sum<VECTORS>(weights, count, value, y + i);
  for (; i + LANES <= d_head; i += LANES) weighted_sum<1>(weights, count, value, y + i);
  for (; i < d_head; ++i) {
    y[i] = 0;
    for (int s = 0; s < count; ++s) y[i] += weights[s] * to_float(*value(s));
  }
}

}  // namespace jumok
