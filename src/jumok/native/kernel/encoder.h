// An encoder over unpadded texts: the tokens of all texts are concatenated, and every token attends
// to all tokens of its text.
//
// One head of one text is one work item. Its keys are transposed once, so that LANES keys are
// multiplied with an element of a query at a time, and TILE_ROWS queries share each loaded key.

#pragma once

#include <algorithm>
#include <vector>

#include "forward_pass.h"

namespace jumok {

// One head of one text: S tokens, `stride` elements apart.
struct HeadView {
  const float *q, *k, *v;
  size_t stride;
  int S, d_head;
  float scale;
  float* y;  // S rows of d_head elements
  size_t y_stride;
};

// scores (ROWS, padded_length) = ROWS queries, starting at `row`, times VECTORS * LANES keys,
// starting at `key`. keys_transposed is (d_head, padded_length).
template <int ROWS, int VECTORS>
inline void qk_scores(const HeadView& head, const float* keys_transposed, int padded_length,
                      int row, int key, float* scores) {
  Floats sums[ROWS][VECTORS] = {};
  const float* q = head.q + row * head.stride;
  for (int i = 0; i < head.d_head; ++i) {
    Floats keys[VECTORS];
    for (int v = 0; v < VECTORS; ++v)
      keys[v] =
          load<Floats>(keys_transposed + static_cast<size_t>(i) * padded_length + key + v * LANES);
    for (int r = 0; r < ROWS; ++r) {
      const Floats element = broadcast(q[r * head.stride + i]);
      for (int v = 0; v < VECTORS; ++v) sums[r][v] += element * keys[v];
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) {
      const Floats scaled = sums[r][v] * head.scale;
      store(scores + static_cast<size_t>(r) * padded_length + key + v * LANES, scaled);
    }
}

// y = weights (ROWS, padded_length) times the values, starting at element `i` of the head.
template <int ROWS, int VECTORS>
inline void weighted_sum_rows(const HeadView& head, const float* weights, int padded_length,
                              int row, int i) {
  Floats sums[ROWS][VECTORS] = {};
  for (int s = 0; s < head.S; ++s) {
    Floats values[VECTORS];
    for (int v = 0; v < VECTORS; ++v)
      values[v] = load<Floats>(head.v + s * head.stride + i + v * LANES);
    for (int r = 0; r < ROWS; ++r) {
      const Floats weight = broadcast(weights[static_cast<size_t>(r) * padded_length + s]);
      for (int v = 0; v < VECTORS; ++v) sums[r][v] += weight * values[v];
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v)
      store(head.y + (row + r) * head.y_stride + i + v * LANES, sums[r][v]);
}

// Attention of ROWS queries, starting at `row`. bias(query, scores) adds the position bias.
template <int ROWS, class Bias>
inline void attend_rows(const HeadView& head, const float* keys_transposed, int padded_length,
                        int row, float* scores, const Bias& bias) {
  constexpr int TILE = TILE_VECTORS * LANES;
  int key = 0;
  for (; key + TILE <= padded_length; key += TILE)
    qk_scores<ROWS, TILE_VECTORS>(head, keys_transposed, padded_length, row, key, scores);
  for (; key < padded_length; key += LANES)
    qk_scores<ROWS, 1>(head, keys_transposed, padded_length, row, key, scores);
  for (int r = 0; r < ROWS; ++r) {
    float* x = scores + static_cast<size_t>(r) * padded_length;
    bias(row + r, x);
    const float inverse_sum = 1 / exp_minus_max(x, head.S, max_of(x, head.S));
#pragma omp simd
    for (int s = 0; s < head.S; ++s) x[s] *= inverse_sum;
  }
  int i = 0;
  for (; i + TILE <= head.d_head; i += TILE)
    weighted_sum_rows<ROWS, TILE_VECTORS>(head, scores, padded_length, row, i);
  for (; i + LANES <= head.d_head; i += LANES)
    weighted_sum_rows<ROWS, 1>(head, scores, padded_length, row, i);
  for (; i < head.d_head; ++i)
    for (int r = 0; r < ROWS; ++r) {
      float sum = 0;
      for (int s = 0; s < head.S; ++s)
        sum += scores[static_cast<size_t>(r) * padded_length + s] * head.v[s * head.stride + i];
      head.y[(row + r) * head.y_stride + i] = sum;
    }
}

template <int ROWS, class Bias>
inline void attend_rows_tail(int rows, const HeadView& head, const float* keys_transposed,
                             int padded_length, int row, float* scores, const Bias& bias) {
  if (rows == ROWS)
    return attend_rows<ROWS>(head, keys_transposed, padded_length, row, scores, bias);
  if constexpr (ROWS > 1)
    attend_rows_tail<ROWS - 1>(rows, head, keys_transposed, padded_length, row, scores, bias);
}

// y = softmax(q K^T scale + bias) V for all queries of a head (equation 1).
template <class Bias>
void attend_head(const HeadView& head, const Bias& bias) {
  const int padded_length = round_up(head.S, LANES);
  thread_local std::vector<float> buffer;
  const size_t keys_size = static_cast<size_t>(head.d_head) * padded_length;
  buffer.resize(
      std::max(buffer.size(), keys_size + static_cast<size_t>(TILE_ROWS) * padded_length));
  float *keys_transposed = buffer.data(), *scores = keys_transposed + keys_size;
  for (int i = 0; i < head.d_head; ++i) {
    float* to = keys_transposed + static_cast<size_t>(i) * padded_length;
    for (int s = 0; s < head.S; ++s) to[s] = head.k[s * head.stride + i];
    std::fill(to + head.S, to + padded_length, 0.0f);
  }
  for (int row = 0; row < head.S; row += TILE_ROWS)
    attend_rows_tail<TILE_ROWS>(std::min(TILE_ROWS, head.S - row), head, keys_transposed,
                                padded_length, row, scores, bias);
}

// Hidden states of N texts: x (n, D) holds the embeddings and is overwritten. Text i starts at
// offsets[i], and offsets[N] is n. positions (n) are the positions for rotary and relative biases.
template <class Format>
void encode_batch(const Transformer<Format>& model, Workspace<Format>& workspace, float* x,
                  const int32_t* offsets, int N, const int32_t* positions, int threads) {
  const ModelDims& dims = model.dims;
  const Stack<Format>& stack = model.encoder;
  const int n = offsets[N], A = dims.n_heads * dims.d_head;
  const size_t bytes = static_cast<size_t>(n) * dims.d_model * sizeof(float);
  ForwardPass<Format> pass(model, stack, workspace, n, threads);
  std::memcpy(pass.x(0), x, bytes);
  for (const Layer<Format>& layer : stack.layers) {
    pass.project_qkv(layer, [&](int token) { return positions[token]; });
    ThreadPool::instance().parallel_for(N * dims.n_heads, threads, [&](int item) {
      const int text = item / dims.n_heads, head_index = item % dims.n_heads, begin = offsets[text];
      const float* q = pass.qkv(begin) + head_index * dims.d_head;
      const HeadView head{q,
                          q + A,
                          q + 2 * A,
                          static_cast<size_t>(3) * A,
                          offsets[text + 1] - begin,
                          dims.d_head,
                          dims.attention_scale,
                          workspace.attention_output.data() + static_cast<size_t>(begin) * A +
                              head_index * dims.d_head,
                          static_cast<size_t>(A)};
      if (!stack.relative.size()) return attend_head(head, [](int, float*) {});
      const float* bias_at_zero = stack.relative.data() + dims.max_length - 1 +
                                  static_cast<size_t>(head_index) * (2 * dims.max_length - 1);
      attend_head(head, [&](int query, float* scores) {
        const int32_t* text_positions = positions + begin;
        for (int s = 0; s < head.S; ++s)
          scores[s] += bias_at_zero[text_positions[s] - text_positions[query]];
      });
    });
    pass.project_output(layer.output, layer.self_attention_norm,
                        layer.self_attention_sublayer_norm);
    pass.feed_forward(layer);
  }
  pass.final_norm();
  std::memcpy(x, pass.x(0), bytes);
}

}  // namespace jumok
