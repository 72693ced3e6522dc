// The k most likely tokens of each row of logits.

#pragma once

#include <algorithm>
#include <cstdint>

#include "thread_pool.h"
#include "vector_math.h"

namespace jumok {

// The k largest of x in descending order, minus log_sum; ties are resolved by the smaller index.
inline void select_top_k(const float* x, int n, int k, float log_sum, float* log_p,
                         int64_t* tokens) {
  constexpr int CHUNK = 64;
  int found = 0;
  for (int start = 0; start < n; start += CHUNK) {
    const int end = std::min(n, start + CHUNK);
    // Most chunks hold no candidate: comparing their maximum is enough.
    if (found == k && !(max_of(x + start, end - start) > log_p[k - 1])) continue;
    for (int i = start; i < end; ++i) {
      if (found == k && !(x[i] > log_p[k - 1])) continue;
      int at = found < k ? found++ : k - 1;
      for (; at > 0 && x[i] > log_p[at - 1]; --at) {
        log_p[at] = log_p[at - 1];
        tokens[at] = tokens[at - 1];
      }
      log_p[at] = x[i];
      tokens[at] = i;
    }
  }
  for (int i = 0; i < k; ++i) log_p[i] -= log_sum;
}

// logits (rows, V) -> log-probabilities and tokens (rows, k), in descending order.
inline void top_k_rows(const float* logits, int rows, int V, int k, float* log_p, int64_t* tokens,
                       int threads) {
  ThreadPool::instance().parallel_for(rows, threads, [&](int row) {
    const float* x = logits + static_cast<size_t>(row) * V;
    select_top_k(x, V, k, log_sum_exp(x, V), log_p + static_cast<size_t>(row) * k,
                 tokens + static_cast<size_t>(row) * k);
  });
}

}  // namespace jumok
