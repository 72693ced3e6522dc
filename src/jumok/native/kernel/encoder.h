// An encoder over unpadded texts: the tokens of all texts are concatenated, and every token attends
// to all tokens of its text.
//
// One head of one text is one work item. Its keys and values are copied once into vectors of LANES
// outputs times GROUP inputs, like weights, and TILE_ROWS queries share each loaded vector. Models
// in int8 and bfloat16 multiply them in bfloat16, the type of keys and values in the caches of
// decoding, if an instruction does; others in float32. Scores and sums are float32.

#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "forward_pass.h"
#include "position_scores.h"

namespace jumok {

// The format in which an encoder multiplies queries, keys and values.
template <class Format>
using AttentionFormat =
    std::conditional_t<std::is_same_v<typename Format::CacheType, Bfloat> &&
                           std::is_same_v<typename Bfloat16::Input, Bfloat>,
                       Bfloat16, Float32>;

// Parts of a batch: enough for a thread that has lost its core to leave some to the others, at best
// four for each, and enough tokens for the packed weights to be read often from the caches.
constexpr int MIN_PARTS_PER_THREAD = 2, PARTS_PER_THREAD = 4, MIN_PART_TOKENS = 32;

// One head of one text: S queries, keys and values, `stride` elements apart.
struct HeadView {
  const float *q, *k, *v;
  size_t stride;
  int S, d_head;
  int window;  // keys that a query attends to on each side, itself included; S: all
  float scale;
  float* y;  // S rows of d_head elements
  size_t y_stride;
  float* record = nullptr;  // S rows of S attention weights, if they are wanted
};

// softmax(q K^T scale + bias) V for all queries of a head (equation 1). The buffers are reused.
template <class Format>
class HeadAttention {
 public:
  // bias(query, scores) adds the position bias.
  template <class Bias>
  void operator()(const HeadView& head, const Bias& bias) {
    pack(head);
    for (int row = 0; row < head.S; row += TILE_ROWS)
      attend_tail<TILE_ROWS>(std::min(TILE_ROWS, head.S - row), head, row, bias);
  }

 private:
  static constexpr int GROUP = Format::GROUP;
  using Element = typename Format::Input;

  void pack(const HeadView& head) {
    const int d_head = head.d_head, row_stride = round_up(d_head, GROUP);
    scores_stride_ = round_up(head.S, LANES);
    keys_.pack(head.k, head.stride, head.S, d_head);
    grow(values_, static_cast<size_t>(scores_stride_) * d_head);
    grow(rows_, static_cast<size_t>(GROUP) * row_stride);
    grow(weights_, static_cast<size_t>(TILE_ROWS) * scores_stride_);
    grow(scores_, static_cast<size_t>(TILE_ROWS) * scores_stride_);
    for (int s = 0; s < head.S; s += GROUP) {
      for (int g = 0; g < GROUP; ++g) {
        Element* row = rows_.data() + g * row_stride;
        if (s + g < head.S)
          RowProducts<Format>::pack_row(head.v + (s + g) * head.stride, d_head, row);
        else
          std::fill(row, row + d_head, Element{});
      }
      interleave(rows_.data(), rows_.data() + (GROUP - 1) * row_stride, d_head,
                 values_.data() + static_cast<size_t>(s) * d_head);
    }
  }

  // n groups, each of an element of `first` and, if GROUP is 2, of `second`.
  static void interleave(const Element* first, const Element* second, int n, Element* to) {
    static_assert(GROUP <= 2);
    if constexpr (GROUP == 1)
      std::memcpy(to, first, static_cast<size_t>(n) * sizeof(Element));
    else
      for (int i = 0; i < n; ++i) {
        const uint32_t pair = first[i] | static_cast<uint32_t>(second[i]) << 16;
        std::memcpy(to + 2 * i, &pair, sizeof pair);
      }
  }

  // Keys `first` to `last` - 1, those of one or several queries.
  struct Keys {
    int first, last;
  };

  static Keys keys_of(const HeadView& head, int query) {
    return {std::max(0, query - head.window + 1), std::min(head.S, query + head.window)};
  }

  // y = the weights of ROWS queries times the values, starting at element `i`, times `factors`.
  template <int ROWS, int VECTORS>
  void multiply_values(const HeadView& head, const Keys& keys, int row, int i,
                       const float* factors) {
    const Element* values = values_.data() + static_cast<size_t>(i) * GROUP;
    typename Format::Sum sums[ROWS][VECTORS] = {};
    for (int s = keys.first; s < keys.last; s += GROUP) {
      decltype(Format::weights(values, 0)) loaded[VECTORS];
      for (int v = 0; v < VECTORS; ++v)
        loaded[v] = Format::weights(
            values + static_cast<size_t>(s) * head.d_head + v * LANES * GROUP, 0);
      for (int r = 0; r < ROWS; ++r) {
        const auto weight =
            Format::inputs(weights_.data() + static_cast<size_t>(r) * scores_stride_ + s, 0);
        for (int v = 0; v < VECTORS; ++v)
          sums[r][v] = Format::multiply_add(sums[r][v], weight, loaded[v]);
      }
    }
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECTORS; ++v)
        store(head.y + (row + r) * head.y_stride + i + v * LANES, sums[r][v] * factors[r]);
  }

  // Attention of ROWS queries, starting at `row`.
  template <int ROWS, class Bias>
  void attend(const HeadView& head, int row, const Bias& bias) {
    constexpr int TILE = TILE_VECTORS * LANES;
    // Whole vectors from the first key of the first query to the last key of the last one.
    const Keys keys{keys_of(head, row).first / LANES * LANES, keys_of(head, row + ROWS - 1).last};
    keys_.template multiply<ROWS>(head.q + row * head.stride, head.stride, keys.first, keys.last,
                                  head.scale, scores_.data(), scores_stride_);
    float factors[ROWS];
    for (int r = 0; r < ROWS; ++r) {
      float* x = scores_.data() + static_cast<size_t>(r) * scores_stride_;
      bias(row + r, x);
      const Keys own = keys_of(head, row + r);
      const int n = own.last - own.first;
      factors[r] = 1 / exp_minus_max(x + own.first, n, max_of(x + own.first, n));
      std::fill(x + keys.first, x + own.first, 0.0f);
      std::fill(x + own.last, x + keys.last, 0.0f);
      if (head.record != nullptr) {
        float* record = head.record + static_cast<size_t>(row + r) * head.S;
        std::fill(record, record + head.S, 0.0f);
        for (int s = own.first; s < own.last; ++s) record[s] = x[s] * factors[r];
      }
      RowProducts<Format>::pack_row(
          x + keys.first, keys.last - keys.first,
          weights_.data() + static_cast<size_t>(r) * scores_stride_ + keys.first);
    }
    int i = 0;
    for (; i + TILE <= head.d_head; i += TILE)
      multiply_values<ROWS, TILE_VECTORS>(head, keys, row, i, factors);
    for (; i + LANES <= head.d_head; i += LANES)
      multiply_values<ROWS, 1>(head, keys, row, i, factors);
    for (; i < head.d_head; ++i)
      for (int r = 0; r < ROWS; ++r) {
        const Element* weights = weights_.data() + static_cast<size_t>(r) * scores_stride_;
        float sum = 0;
        for (int s = keys.first; s < keys.last; ++s)
          sum += to_float(weights[s]) * to_float(value(head, s, i));
        head.y[(row + r) * head.y_stride + i] = sum * factors[r];
      }
  }

  template <int ROWS, class Bias>
  void attend_tail(int rows, const HeadView& head, int row, const Bias& bias) {
    if (rows == ROWS) return attend<ROWS>(head, row, bias);
    if constexpr (ROWS > 1) attend_tail<ROWS - 1>(rows, head, row, bias);
  }

  Element value(const HeadView& head, int s, int i) const {
    return values_[(static_cast<size_t>(s / GROUP) * head.d_head + i) * GROUP + s % GROUP];
  }

  int scores_stride_ = 0;         // S, rounded up to LANES
  RowProducts<Format> keys_;
  std::vector<Element> values_;   // (scores_stride / GROUP, d_head, GROUP)
  std::vector<Element> rows_;     // (GROUP, d_head), rounded up
  std::vector<Element> weights_;  // (TILE_ROWS, scores_stride)
  std::vector<float> scores_;     // (TILE_ROWS, scores_stride)
};

// Hidden states x (n, D) of N texts. Text i starts at offsets[i] - offsets[0], and n is
// offsets[N] - offsets[0]. embed writes the embeddings, see `encode`; positions (n) are those for
// rotary and relative biases. The attention weights of a single text (layers, heads, n, n) are
// copied to `record` unless it is null.
template <class Format, class Embed>
void encode_batch(const Transformer<Format>& model, Workspace<Format>& workspace,
                  const Embed& embed, float* x, const int32_t* offsets, int N,
                  const int32_t* positions, int threads, float* record = nullptr) {
  const ModelDims& dims = model.dims;
  const Stack<Format>& stack = model.encoder;
  const int start = offsets[0], n = offsets[N] - start, A = dims.n_heads * dims.d_head;
  ForwardPass<Format> pass(model, stack, workspace, n, threads);
  embed(workspace, start, n, pass.x(0), threads);
  for (const Layer<Format>& layer : stack.layers) {
    pass.project_qkv(layer, [&](int token) { return positions[token]; });
    const int window =
        layer.encoder_window.size() ? static_cast<int>(layer.encoder_window.data()[0]) : INT32_MAX / 2;
    ThreadPool::instance().parallel_for(N * dims.n_heads, threads, [&](int item) {
      thread_local HeadAttention<AttentionFormat<Format>> attend;
      const int text = item / dims.n_heads, head_index = item % dims.n_heads;
      const int begin = offsets[text] - start;
      const int S = offsets[text + 1] - offsets[text];
      const float* q = pass.qkv(begin) + head_index * dims.d_head;
      const HeadView head{q,
                          q + A,
                          q + 2 * A,
                          static_cast<size_t>(3) * A,
                          S,
                          dims.d_head,
                          std::min(window, S),
                          dims.attention_scale,
                          workspace.attention_output.data() + static_cast<size_t>(begin) * A +
                              head_index * dims.d_head,
                          static_cast<size_t>(A),
                          record == nullptr ? nullptr
                                            : record + head_index * static_cast<size_t>(n) * n};
      if (layer.position_key.size() || layer.position_query.size()) {
        thread_local PositionScores<AttentionFormat<Format>> scores_of_positions;
        const RelativeHead relative{layer.relative_head(layer.position_key, head_index, dims),
                                    layer.relative_head(layer.position_query, head_index, dims),
                                    stack.buckets.data() + dims.max_length - 1};
        scores_of_positions.prepare(relative, head.q, head.k, head.stride, positions + begin, S,
                                    dims.d_head, dims.attention_scale);
        return attend(head, [&](int query, float* scores) {
          scores_of_positions.add(query, scores);
        });
      }
      if (!stack.relative.size()) return attend(head, [](int, float*) {});
      const float* bias_at_zero = stack.relative.data() + dims.max_length - 1 +
                                  static_cast<size_t>(head_index) * (2 * dims.max_length - 1);
      attend(head, [&](int query, float* scores) {
        const int32_t* text_positions = positions + begin;
        for (int s = 0; s < head.S; ++s)
          scores[s] += bias_at_zero[text_positions[s] - text_positions[query]];
      });
    });
    pass.project_output(layer.output, layer.self_attention_norm,
                        layer.self_attention_sublayer_norm);
    pass.feed_forward(layer);
    if (record != nullptr) record += static_cast<size_t>(dims.n_heads) * n * n;
  }
  pass.final_norm();
  std::memcpy(x, pass.x(0), static_cast<size_t>(n) * dims.d_model * sizeof(float));
}

// The workspace of the calling thread.
template <class Format>
Workspace<Format>& thread_workspace() {
  thread_local Workspace<Format> workspace;
  return workspace;
}

// The same on several threads. Many texts are divided into parts of similar numbers of tokens, each
// encoded by one thread: threads that share every product wait for each other some hundred times,
// which costs most while other processes use the cores too. A text alone is computed by all threads.
// embed(workspace, first, n, to, threads) writes the embeddings (n, D) of the tokens from `first`.
template <class Format, class Embed>
void encode(const Transformer<Format>& model, const Embed& embed, float* x, const int32_t* offsets,
            int N, const int32_t* positions, int threads) {
  const int n = offsets[N];
  const int parts = std::min({N, PARTS_PER_THREAD * threads, n / MIN_PART_TOKENS});
  if (threads <= 1 || parts < MIN_PARTS_PER_THREAD * threads)
    return encode_batch(model, thread_workspace<Format>(), embed, x, offsets, N, positions,
                        threads);
  std::vector<int> first(parts + 1, N);  // text
  for (int part = 0, text = 0; part < parts; ++part) {
    while (static_cast<int64_t>(offsets[text]) * parts < static_cast<int64_t>(n) * part) ++text;
    first[part] = text;
  }
  ThreadPool::instance().parallel_for(parts, threads, [&](int part) {
    const int text = first[part], texts = first[part + 1] - text, begin = offsets[text];
    if (texts > 0)
      encode_batch(model, thread_workspace<Format>(), embed,
                   x + static_cast<size_t>(begin) * model.dims.d_model, offsets + text, texts,
                   positions + begin, 1);
  });
}

// The same for embeddings x (n, D), which are overwritten.
template <class Format>
void encode_embedded(const Transformer<Format>& model, float* x, const int32_t* offsets, int N,
                     const int32_t* positions, int threads) {
  const size_t D = model.dims.d_model;
  const auto embed = [&](Workspace<Format>&, int first, int n, float* to, int) {
    std::memcpy(to, x + first * D, n * D * sizeof(float));
  };
  encode(model, embed, x, offsets, N, positions, threads);
}

}  // namespace jumok
