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

namespace jumok {

// The format in which an encoder multiplies queries, keys and values.
template <class Format>
using AttentionFormat =
    std::conditional_t<std::is_same_v<typename Format::CacheType, Bfloat> &&
                           std::is_same_v<typename Bfloat16::Input, Bfloat>,
                       Bfloat16, Float32>;

// Parts of a batch: enough for a preempted thread to leave some to the others, and enough tokens for
// the packed weights to be read often from the caches.
constexpr int PARTS_PER_THREAD = 2, MIN_PART_TOKENS = 32;

// One head of one text: S queries, keys and values, `stride` elements apart.
struct HeadView {
  const float *q, *k, *v;
  size_t stride;
  int S, d_head;
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
  static_assert(std::is_same_v<Element, typename Format::Weight> && Format::STEPS == 1);

  void pack(const HeadView& head) {
    const int d_head = head.d_head;
    scores_stride_ = round_up(head.S, LANES);
    row_stride_ = round_up(d_head, GROUP);
    grow(keys_, static_cast<size_t>(scores_stride_) * row_stride_);
    grow(values_, static_cast<size_t>(scores_stride_) * d_head);
    grow(rows_, static_cast<size_t>(TILE_ROWS) * row_stride_);
    grow(weights_, static_cast<size_t>(TILE_ROWS) * scores_stride_);
    grow(scores_, static_cast<size_t>(TILE_ROWS) * scores_stride_);
    for (int s = 0; s < head.S; ++s) {
      pack_row(head.k + s * head.stride, d_head, rows_.data());
      Element* to = keys_.data() + static_cast<size_t>(s / LANES * LANES) * row_stride_ +
                    s % LANES * GROUP;
      for (int i = 0; i < row_stride_; i += GROUP)
        std::memcpy(to + i * LANES, rows_.data() + i, GROUP * sizeof(Element));
    }
    for (int s = 0; s < head.S; s += GROUP) {
      for (int g = 0; g < GROUP; ++g) {
        Element* row = rows_.data() + g * row_stride_;
        if (s + g < head.S)
          pack_row(head.v + (s + g) * head.stride, d_head, row);
        else
          std::fill(row, row + d_head, Element{});
      }
      interleave(rows_.data(), rows_.data() + (GROUP - 1) * row_stride_, d_head,
                 values_.data() + static_cast<size_t>(s) * d_head);
    }
  }

  // Packs n elements, padded with zeros to whole groups.
  static void pack_row(const float* x, int n, Element* to) {
    Format::pack_row(x, n, to);
    for (int i = n; i % GROUP; ++i) to[i] = 0;
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

  template <class T>
  static void grow(std::vector<T>& buffer, size_t size) {
    if (buffer.size() < size) buffer.resize(size);
  }

  // scores = scale * ROWS queries times VECTORS * LANES keys, starting at `key`.
  template <int ROWS, int VECTORS>
  void multiply_keys(int key, float scale) {
    const size_t block = static_cast<size_t>(LANES) * row_stride_;
    const Element* keys = keys_.data() + static_cast<size_t>(key) * row_stride_;
    typename Format::Sum sums[ROWS][VECTORS] = {};
    for (int i = 0; i < row_stride_; i += GROUP) {
      decltype(Format::weights(keys, 0)) loaded[VECTORS];
      for (int v = 0; v < VECTORS; ++v)
        loaded[v] = Format::weights(keys + v * block + static_cast<size_t>(i) * LANES, 0);
      for (int r = 0; r < ROWS; ++r) {
        const auto query = Format::inputs(rows_.data() + r * row_stride_ + i, 0);
        for (int v = 0; v < VECTORS; ++v)
          sums[r][v] = Format::multiply_add(sums[r][v], query, loaded[v]);
      }
    }
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECTORS; ++v)
        store(scores_.data() + static_cast<size_t>(r) * scores_stride_ + key + v * LANES,
              sums[r][v] * scale);
  }

  // y = the weights of ROWS queries times the values, starting at element `i`, times `factors`.
  template <int ROWS, int VECTORS>
  void multiply_values(const HeadView& head, int row, int i, const float* factors) {
    const Element* values = values_.data() + static_cast<size_t>(i) * GROUP;
    typename Format::Sum sums[ROWS][VECTORS] = {};
    for (int s = 0; s < head.S; s += GROUP) {
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
    for (int r = 0; r < ROWS; ++r)
      pack_row(head.q + (row + r) * head.stride, head.d_head, rows_.data() + r * row_stride_);
    int key = 0;
    for (; key + TILE <= scores_stride_; key += TILE)
      multiply_keys<ROWS, TILE_VECTORS>(key, head.scale);
    for (; key < scores_stride_; key += LANES) multiply_keys<ROWS, 1>(key, head.scale);
    float factors[ROWS];
    for (int r = 0; r < ROWS; ++r) {
      float* x = scores_.data() + static_cast<size_t>(r) * scores_stride_;
      bias(row + r, x);
      factors[r] = 1 / exp_minus_max(x, head.S, max_of(x, head.S));
      if (head.record != nullptr)
        for (int s = 0; s < head.S; ++s)
          head.record[static_cast<size_t>(row + r) * head.S + s] = x[s] * factors[r];
      pack_row(x, head.S, weights_.data() + static_cast<size_t>(r) * scores_stride_);
    }
    int i = 0;
    for (; i + TILE <= head.d_head; i += TILE)
      multiply_values<ROWS, TILE_VECTORS>(head, row, i, factors);
    for (; i + LANES <= head.d_head; i += LANES)
      multiply_values<ROWS, 1>(head, row, i, factors);
    for (; i < head.d_head; ++i)
      for (int r = 0; r < ROWS; ++r) {
        const Element* weights = weights_.data() + static_cast<size_t>(r) * scores_stride_;
        float sum = 0;
        for (int s = 0; s < head.S; ++s)
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

  int row_stride_ = 0, scores_stride_ = 0;  // d_head and S, rounded up to GROUP and LANES
  std::vector<Element> keys_;     // (scores_stride / LANES, row_stride / GROUP, LANES, GROUP)
  std::vector<Element> values_;   // (scores_stride / GROUP, d_head, GROUP)
  std::vector<Element> rows_;     // (TILE_ROWS, row_stride)
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
    ThreadPool::instance().parallel_for(N * dims.n_heads, threads, [&](int item) {
      thread_local HeadAttention<AttentionFormat<Format>> attend;
      const int text = item / dims.n_heads, head_index = item % dims.n_heads;
      const int begin = offsets[text] - start;
      const float* q = pass.qkv(begin) + head_index * dims.d_head;
      const HeadView head{q,
                          q + A,
                          q + 2 * A,
                          static_cast<size_t>(3) * A,
                          offsets[text + 1] - offsets[text],
                          dims.d_head,
                          dims.attention_scale,
                          workspace.attention_output.data() + static_cast<size_t>(begin) * A +
                              head_index * dims.d_head,
                          static_cast<size_t>(A),
                          record == nullptr ? nullptr
                                            : record + head_index * static_cast<size_t>(n) * n};
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
  if (threads <= 1 || parts < PARTS_PER_THREAD * threads)
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
