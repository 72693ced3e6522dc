// Reading whole texts: an encoder over tokens that stand end to end, every token of a text seeing
// every other.
//
// A text's head is one piece of work. Its keys are turned once, so that sixteen of them meet a
// number of a query at a time, and six queries meet each key that was read.

#pragma once

#include <algorithm>
#include <vector>

#include "pass.h"

namespace jumok {

// One head of one text: S tokens, each `stride` numbers after the one before.
struct Head {
  const float *q, *k, *v;
  size_t stride;
  int S, d_head;
  float scale;
  float* y;  // S lines of d_head numbers
  size_t y_stride;
};

// scores (ROWS, wide) = ROWS queries, from `row` on, times all keys: turned is (d_head, wide).
template <int ROWS, int LINES>
inline void score(const Head& head, const float* turned, int wide, int row, int key,
                  float* scores) {
  Floats sums[ROWS][LINES] = {};
  const float* q = head.q + row * head.stride;
  for (int i = 0; i < head.d_head; ++i) {
    Floats keys[LINES];
    for (int l = 0; l < LINES; ++l)
      keys[l] = load<Floats>(turned + static_cast<size_t>(i) * wide + key + l * LANES);
    for (int r = 0; r < ROWS; ++r) {
      const Floats number = all(q[r * head.stride + i]);
      for (int l = 0; l < LINES; ++l) sums[r][l] += number * keys[l];
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int l = 0; l < LINES; ++l) {
      const Floats scaled = sums[r][l] * head.scale;
      store(scores + static_cast<size_t>(r) * wide + key + l * LANES, scaled);
    }
}

// y = weights (ROWS, wide) times the values, from number `i` of a head on.
template <int ROWS, int LINES>
inline void mix_rows(const Head& head, const float* weights, int wide, int row, int i) {
  Floats sums[ROWS][LINES] = {};
  for (int s = 0; s < head.S; ++s) {
    Floats values[LINES];
    for (int l = 0; l < LINES; ++l)
      values[l] = load<Floats>(head.v + s * head.stride + i + l * LANES);
    for (int r = 0; r < ROWS; ++r) {
      const Floats weight = all(weights[static_cast<size_t>(r) * wide + s]);
      for (int l = 0; l < LINES; ++l) sums[r][l] += weight * values[l];
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int l = 0; l < LINES; ++l)
      store(head.y + (row + r) * head.y_stride + i + l * LANES, sums[r][l]);
}

// ROWS queries, from `row` on. bias(query, key) is added to the scores.
template <int ROWS, class Bias>
inline void attend_rows(const Head& head, const float* turned, int wide, int row, float* scores,
                        const Bias& bias) {
  constexpr int LINE = LINES_AT_ONCE * LANES;
  int key = 0;
  for (; key + LINE <= wide; key += LINE)
    score<ROWS, LINES_AT_ONCE>(head, turned, wide, row, key, scores);
  for (; key < wide; key += LANES) score<ROWS, 1>(head, turned, wide, row, key, scores);
  for (int r = 0; r < ROWS; ++r) {
    float* x = scores + static_cast<size_t>(r) * wide;
    bias(row + r, x);
    const float share = 1 / exponentials(x, head.S, largest(x, head.S));
#pragma omp simd
    for (int s = 0; s < head.S; ++s) x[s] *= share;
  }
  int i = 0;
  for (; i + LINE <= head.d_head; i += LINE)
    mix_rows<ROWS, LINES_AT_ONCE>(head, scores, wide, row, i);
  for (; i + LANES <= head.d_head; i += LANES) mix_rows<ROWS, 1>(head, scores, wide, row, i);
  for (; i < head.d_head; ++i)
    for (int r = 0; r < ROWS; ++r) {
      float sum = 0;
      for (int s = 0; s < head.S; ++s)
        sum += scores[static_cast<size_t>(r) * wide + s] * head.v[s * head.stride + i];
      head.y[(row + r) * head.y_stride + i] = sum;
    }
}

template <int ROWS, class Bias>
inline void attend_some(int rows, const Head& head, const float* turned, int wide, int row,
                        float* scores, const Bias& bias) {
  if (rows == ROWS) return attend_rows<ROWS>(head, turned, wide, row, scores, bias);
  if constexpr (ROWS > 1) attend_some<ROWS - 1>(rows, head, turned, wide, row, scores, bias);
}

// y = softmax(q K^T scale + bias) V for all queries of a head: equation (1).
template <class Bias>
void attend_all(const Head& head, const Bias& bias) {
  const int wide = rounded_up(head.S, LANES);
  thread_local std::vector<float> room;
  const size_t turned_size = static_cast<size_t>(head.d_head) * wide;
  room.resize(std::max(room.size(), turned_size + static_cast<size_t>(ROWS_AT_ONCE) * wide));
  float *turned = room.data(), *scores = turned + turned_size;
  for (int i = 0; i < head.d_head; ++i) {
    float* to = turned + static_cast<size_t>(i) * wide;
    for (int s = 0; s < head.S; ++s) to[s] = head.k[s * head.stride + i];
    std::fill(to + head.S, to + wide, 0.0f);
  }
  for (int row = 0; row < head.S; row += ROWS_AT_ONCE)
    attend_some<ROWS_AT_ONCE>(std::min(ROWS_AT_ONCE, head.S - row), head, turned, wide, row, scores,
                              bias);
}

// Hidden states of N texts: x (n, D) comes as embedded, and is written over. Text i begins at
// first[i], and first[N] is n. places (n): each token's position, where the layers know positions.
template <class Format>
void read_texts(const Transformer<Format>& model, Workshop<Format>& rooms, float* x,
                const int32_t* first, int N, const int32_t* places, int threads) {
  const Measures& m = model.measures;
  const Tower<Format>& tower = model.encoder;
  const int n = first[N], A = m.n_heads * m.d_head;
  const size_t bytes = static_cast<size_t>(n) * m.d_model * sizeof(float);
  Pass<Format> pass(model, tower, rooms, n, threads);
  std::memcpy(pass.x(0), x, bytes);
  for (const Layer<Format>& layer : tower.layers) {
    pass.project(layer, [&](int token) { return places[token]; });
    Threads::of_process().share(N * m.n_heads, threads, [&](int item) {
      const int text = item / m.n_heads, number = item % m.n_heads, begin = first[text];
      const float* q = pass.inside(begin) + number * m.d_head;
      const Head head{q, q + A, q + 2 * A, static_cast<size_t>(3) * A, first[text + 1] - begin,
                      m.d_head, m.attention_scale,
                      rooms.attended.data() + static_cast<size_t>(begin) * A + number * m.d_head,
                      static_cast<size_t>(A)};
      if (!tower.relative.size()) return attend_all(head, [](int, float*) {});
      const float* middle = tower.relative.data() + m.max_length - 1 +
                            static_cast<size_t>(number) * (2 * m.max_length - 1);
      attend_all(head, [&](int query, float* scores) {
        const int32_t* place = places + begin;
        for (int s = 0; s < head.S; ++s) scores[s] += middle[place[s] - place[query]];
      });
    });
    pass.collect(layer.output, layer.around_attention);
    pass.feed_forward(layer);
  }
  pass.close();
  std::memcpy(x, pass.x(0), bytes);
}

}  // namespace jumok
