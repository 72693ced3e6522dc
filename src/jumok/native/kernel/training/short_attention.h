// Attention over short rows and its gradient: softmax(Q K^T scale) V for each text and head.
//
// All products of a head stay in the cache: batched products of PyTorch write the scores to memory
// and read them again, and need copies of queries, keys and values. Keys that are hidden at the end of
// a row, as by a triangle or by padding, are not computed. Numbers are float32: in bfloat16 the
// products of PyTorch are faster.
//
// T queries, S keys, K width of a head; rows of scratch matrices are padded to whole vectors.

#pragma once

#include <algorithm>
#include <vector>

#include "parallel.h"

namespace jumok {

inline int padded(int n) { return (n + LANES - 1) / LANES * LANES; }

// C (M, N) = factor * A (M, L) B (L, N): A has any strides, N is a whole number of vectors. Each
// number is a sum in the order of L.
template <int ROWS, int VECTORS>
inline void product_tile(int L, const float* a, int a_row, int a_inner, const float* b, int ldb,
                         float factor, float* c, int ldc) {
  Floats sums[ROWS][VECTORS] = {};
  for (int l = 0; l < L; ++l) {
    Floats columns[VECTORS];
    for (int v = 0; v < VECTORS; ++v) columns[v] = load<Floats>(b + l * ldb + v * LANES);
    for (int r = 0; r < ROWS; ++r) {
      const Floats x = broadcast(a[r * a_row + l * a_inner]);
      for (int v = 0; v < VECTORS; ++v) sums[r][v] += x * columns[v];
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) store(c + r * ldc + v * LANES, sums[r][v] * factor);
}

template <int VECTORS>
inline void product_columns(int M, int L, const float* a, int a_row, int a_inner, const float* b,
                            int ldb, float factor, float* c, int ldc) {
  int m = 0;
  for (; m + 4 <= M; m += 4)
    product_tile<4, VECTORS>(L, a + m * a_row, a_row, a_inner, b, ldb, factor, c + m * ldc, ldc);
  for (; m < M; ++m)
    product_tile<1, VECTORS>(L, a + m * a_row, a_row, a_inner, b, ldb, factor, c + m * ldc, ldc);
}

inline void product(int M, int N, int L, const float* a, int a_row, int a_inner, const float* b,
                    int ldb, float factor, float* c, int ldc) {
  int n = 0;
  for (; n + 2 * LANES <= N; n += 2 * LANES)
    product_columns<2>(M, L, a, a_row, a_inner, b + n, ldb, factor, c + n, ldc);
  if (n < N) product_columns<1>(M, L, a, a_row, a_inner, b + n, ldb, factor, c + n, ldc);
}

// Numbers of one kind, (B, H, n, K) with any strides but 1 of the last dimension.
struct HeadRows {
  float* data;
  int64_t batch, head, row;  // strides

  float* of(int b, int h) const { return data + b * batch + h * head; }
};

// Must match AttentionCall in src/jumok/native/training.py.
struct AttentionCall {
  HeadRows q, k, v, y, dq, dk, dv;  // y: of the backward pass its gradient
  const uint8_t* allowed;           // (B, H, T, S); null: every query may attend to every key
  int64_t allowed_batch, allowed_head, allowed_row;  // strides; 1 of the last dimension
  float* weights;                                    // (B, H, T, S)
  int32_t B, H, T, S, K;
  float scale;
};

// (n, K) with rows `ld` apart; the padding is 0.
inline void read_rows(const float* from, int64_t row, int n, int K, float* to, int ld) {
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < K; ++k) to[i * ld + k] = from[i * row + k];
    for (int k = K; k < ld; ++k) to[i * ld + k] = 0;
  }
}

// The same, transposed: (K, n) with rows `ld` apart.
inline void read_transposed(const float* from, int64_t row, int n, int K, float* to, int ld) {
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < n; ++i) to[k * ld + i] = from[i * row + k];
    for (int i = n; i < ld; ++i) to[k * ld + i] = 0;
  }
}

inline void write_rows(const float* from, int ld, int n, int K, float* to, int64_t row) {
  for (int i = 0; i < n; ++i) std::copy_n(from + i * ld, K, to + i * row);
}

struct AttentionScratch {
  std::vector<float> memory;
  float *rows, *columns, *queries, *scores, *products;

  AttentionScratch(int T, int S, int K) {
    const size_t longest = padded(T > S ? T : S), width = padded(K);
    memory.resize(longest * width * 3 + K * longest + 2 * static_cast<size_t>(T) * padded(S));
    rows = memory.data();
    queries = rows + longest * width;
    products = queries + longest * width;
    columns = products + longest * width;
    scores = columns + K * longest;
  }
};

inline void attend(const AttentionCall& call, int b, int h, AttentionScratch& scratch) {
  const int T = call.T, S = call.S, K = call.K, ld = padded(S), width = padded(K);
  read_rows(call.q.of(b, h), call.q.row, T, K, scratch.queries, width);
  read_transposed(call.k.of(b, h), call.k.row, S, K, scratch.columns, ld);
  product(T, ld, K, scratch.queries, width, 1, scratch.columns, ld, call.scale, scratch.scores, ld);
  float* const weights = call.weights + (static_cast<size_t>(b) * call.H + h) * T * S;
  for (int t = 0; t < T; ++t) {
    float* const row = scratch.scores + t * ld;
    int keys = S;
    if (call.allowed != nullptr) {
      const uint8_t* const allowed = call.allowed + b * call.allowed_batch +
                                     h * call.allowed_head + t * call.allowed_row;
      while (keys > 0 && !allowed[keys - 1]) --keys;
      for (int s = 0; s < keys; ++s)
        if (!allowed[s]) row[s] = -3e38f;  // e^(this - maximum) is 0 below
    }
    for (int s = keys; s < ld; ++s) row[s] = 0;
    if (keys > 0) {
      const float inverse = 1 / exp_minus_max(row, keys, max_of(row, keys));
#pragma omp simd
      for (int s = 0; s < keys; ++s)  // no denormal weights, whose products are slow
        row[s] = row[s] < 1e-30f ? 0 : row[s] * inverse;
    }
    std::copy_n(row, S, weights + static_cast<size_t>(t) * S);
  }
  read_rows(call.v.of(b, h), call.v.row, S, K, scratch.rows, width);
  product(T, width, S, scratch.scores, ld, 1, scratch.rows, width, 1, scratch.products, width);
  write_rows(scratch.products, width, T, K, call.y.of(b, h), call.y.row);
}

inline void attend_backward(const AttentionCall& call, int b, int h, AttentionScratch& scratch) {
  const int T = call.T, S = call.S, K = call.K, ld = padded(S), width = padded(K);
  const float* const saved = call.weights + (static_cast<size_t>(b) * call.H + h) * T * S;
  float* const weights = scratch.scores;                                     // (T, S)
  float* const gradient = scratch.scores + static_cast<size_t>(T) * ld;      // (T, S)
  read_rows(saved, S, T, S, weights, ld);
  read_rows(call.y.of(b, h), call.y.row, T, K, scratch.rows, width);
  product(S, width, T, weights, 1, ld, scratch.rows, width, 1, scratch.products, width);
  write_rows(scratch.products, width, S, K, call.dv.of(b, h), call.dv.row);
  read_transposed(call.v.of(b, h), call.v.row, S, K, scratch.columns, ld);
  product(T, ld, K, scratch.rows, width, 1, scratch.columns, ld, 1, gradient, ld);
  for (int t = 0; t < T; ++t) {
    float* const row = gradient + t * ld;
    const float* const weight = weights + t * ld;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int s = 0; s < ld; ++s) sum += row[s] * weight[s];
#pragma omp simd
    for (int s = 0; s < ld; ++s) row[s] = weight[s] * (row[s] - sum);
  }
  read_rows(call.k.of(b, h), call.k.row, S, K, scratch.rows, width);
  product(T, width, S, gradient, ld, 1, scratch.rows, width, call.scale, scratch.products, width);
  write_rows(scratch.products, width, T, K, call.dq.of(b, h), call.dq.row);
  read_rows(call.q.of(b, h), call.q.row, T, K, scratch.queries, width);
  product(S, width, T, gradient, 1, ld, scratch.queries, width, call.scale, scratch.products,
          width);
  write_rows(scratch.products, width, S, K, call.dk.of(b, h), call.dk.row);
}

inline void attend_all(const AttentionCall& call, bool backward, int threads) {
  parallel_parts(static_cast<int64_t>(call.B) * call.H, threads, [&](int64_t first, int64_t last) {
    AttentionScratch scratch(call.T, call.S, call.K);
    for (int64_t i = first; i < last; ++i) {
      const int b = static_cast<int>(i / call.H), h = static_cast<int>(i % call.H);
      backward ? attend_backward(call, b, h, scratch) : attend(call, b, h, scratch);
    }
  });
}

}  // namespace jumok
