// softmax(q K^T scale + bias) V: one query of one head over the keys it may see (equation 1).

#pragma once

#include <vector>

#include "formats.h"
#include "mathematics.h"

namespace jumok {

template <class Kept>
inline float dot(const float* q, const Kept* k, int n) {
  Floats sums{};
  int i = 0;
  for (; i + LANES <= n; i += LANES) sums += load<Floats>(q + i) * wide(k + i);
  float sum = total(sums);
  for (; i < n; ++i) sum += q[i] * wide(k[i]);
  return sum;
}

// y (LINES * LANES) = the values' mean, weighted; the sums stay in registers.
template <int LINES, class Value>
inline void mix(const float* weights, int count, const Value& value, float* y) {
  Floats sums[LINES] = {};
  for (int s = 0; s < count; ++s) {
    const auto* v = value(s);
    for (int l = 0; l < LINES; ++l) sums[l] += all(weights[s]) * wide(v + l * LANES);
  }
  for (int l = 0; l < LINES; ++l) store(y + l * LANES, sums[l]);
}

// Keys and values come from memory that was last touched a step ago: ask for them early.
template <class Kept>
inline void fetch(const Kept* from, int n) {
  for (int i = 0; i < n; i += static_cast<int>(64 / sizeof(Kept))) __builtin_prefetch(from + i);
}

// q and y (d_head). key(s) is the place of the s-th key; its value stands `to_value` numbers on.
// bias (count) is added to the scores; null when there is none. Who may see nothing gets zeros.
template <class Key>
inline void attend(const float* q, int d_head, int count, const Key& key, int to_value, float scale,
                   const float* bias, float* y) {
  if (count == 0) {
    std::memset(y, 0, static_cast<size_t>(d_head) * sizeof(float));
    return;
  }
  thread_local std::vector<float> room;
  if (room.size() < static_cast<size_t>(count)) room.resize(2 * static_cast<size_t>(count));
  float* weights = room.data();
  constexpr int AHEAD = 8;
  for (int s = 0; s < count; ++s) {
    if (s + AHEAD < count) fetch(key(s + AHEAD), d_head);
    fetch(key(s) + to_value, d_head);
    weights[s] = dot(q, key(s), d_head) * scale + (bias == nullptr ? 0 : bias[s]);
  }
  const float share = 1 / exponentials(weights, count, largest(weights, count));
  for (int s = 0; s < count; ++s) weights[s] *= share;
  int i = 0;
  const auto value = [&](int s) { return key(s) + to_value + i; };
  for (; i + 4 * LANES <= d_head; i += 4 * LANES) mix<4>(weights, count, value, y + i);
  for (; i + LANES <= d_head; i += LANES) mix<1>(weights, count, value, y + i);
  for (; i < d_head; ++i) {
    y[i] = 0;
    for (int s = 0; s < count; ++s) y[i] += weights[s] * wide(*value(s));
  }
}

}  // namespace jumok
