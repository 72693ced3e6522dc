// Rotary positions (Su et al. 2021, section 3.2): numbers i and i + K/2 of each head are a pair.

#pragma once

#include "parallel.h"

namespace jumok {

// Rotates heads of K numbers in place: x (rows, width), its rows `stride` numbers apart; cosine and
// sine (angles, K), those of row i in i mod angles. Sign -1 rotates back.
inline void rotate(float* x, const float* cosine, const float* sine, int64_t rows, int64_t angles,
            int64_t stride, int width, int K, float sign, int threads) {
  const int half = K / 2;
  parallel_parts(rows, threads, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const c = cosine + row % angles * K;
      const float* const s = sine + row % angles * K;
      for (int head = 0; head < width; head += K) {
        float* const numbers = x + row * stride + head;
#pragma omp simd
        for (int i = 0; i < half; ++i) {
          const float first = numbers[i], second = numbers[i + half];
          numbers[i] = first * c[i] - sign * second * s[i];
          numbers[i + half] = second * c[i + half] + sign * first * s[i + half];
        }
      }
    }
  });
}

}  // namespace jumok
