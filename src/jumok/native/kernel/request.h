// The state of a generation request: encoded sources, decoded rows, and their key-value caches.

#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "attention_recorder.h"
#include "forward_pass.h"
#include "top_k.h"

namespace jumok {

template <class Format>
class Request {
  using CacheType = typename Format::CacheType;

 public:
  explicit Request(const Transformer<Format>& model)
      : model_(model),
        dims_(model.dims),
        A_(dims_.n_heads * dims_.d_head),
        kv_width_(dims_.n_kv_heads * dims_.d_head),
        cache_(dims_.decoder_layers, 2 * kv_width_) {}

  // Encodes N sources: their ids, concatenated without padding, at offsets (N + 1).
  int encode_sources(const int32_t* ids, const int32_t* offsets, int N, int threads) {
    offsets_.assign(offsets, offsets + N + 1);
    const std::vector<int64_t> tokens(ids, ids + offsets_.back());
    std::vector<int> source_of;
    for (int row = 0; row < N; ++row) source_of.resize(offsets_[row + 1], row);
    if (!in_vocabulary(tokens, model_.embedding_table(true))) return OUT_OF_VOCABULARY;
    encode(tokens, source_of, threads);
    reset(nullptr, N);
    sources_.resize(N);
    for (int row = 0; row < N; ++row) sources_[row] = row;
    return OK;
  }

  // Starts N empty rows; padding (N) is the left padding of each row, or null.
  void reset(const int64_t* padding, int N) {
    length_ = 0;
    slots_.assign(N, {});
    padding_.assign(N, 0);
    if (padding != nullptr) padding_.assign(padding, padding + N);
  }

  int n_rows() const { return static_cast<int>(slots_.size()); }
  int length() const { return length_; }
  int vocabulary() const { return dims_.vocabulary; }

  // The new tokens (B, T) of one request, and the first row of its logits.
  struct Step {
    Request* request;
    const int64_t* ids;
    int T;
    size_t first_row = 0;
  };

  // New tokens ids (B, T) -> logits (B, T, V), or (B, V) for the last position.
  int step(const int64_t* ids, int T, bool all_positions, float* logits, int threads) {
    return step_together({{this, ids, T}}, all_positions, logits, threads);
  }

  // The steps of several requests of one model as one pass; their logits follow each other. A row
  // has the same logits as in a pass of its own.
  static int step_together(const std::vector<Step>& steps, bool all_positions, float* logits,
                           int threads) {
    std::vector<int64_t> tokens;
    std::vector<QueryToken> queries;
    size_t output_rows = 0;
    for (const Step& step : steps) {
      const Request& request = *step.request;
      output_rows += static_cast<size_t>(request.n_rows()) * (all_positions ? step.T : 1);
      for (int row = 0; row < request.n_rows(); ++row)
        for (int t = 0; t < step.T; ++t) {
          const int position = request.length_ + t - static_cast<int>(request.padding_[row]);
          if (position < 0) continue;
          size_t output_row = NO_OUTPUT;
          if (all_positions)
            output_row = step.first_row + static_cast<size_t>(row) * step.T + t;
          else if (t == step.T - 1)
            output_row = step.first_row + row;
          queries.push_back({step.request, row, position, output_row});
          tokens.push_back(step.ids[static_cast<size_t>(row) * step.T + t]);
        }
    }
    Request& first = *steps[0].request;
    if (!first.in_vocabulary(tokens, first.model_.embedding_table(false))) return OUT_OF_VOCABULARY;
    for (const QueryToken& token : queries) {
      Request& request = *token.request;
      request.slots_[token.row].push_back(request.cache_.allocate(request.slots_));
    }
    for (const Step& step : steps) {
      step.request->length_ += step.T;
      step.request->begin_recording();
    }
    if (!queries.empty()) first.decode(tokens, queries, threads);
    first.compute_logits(queries, output_rows, logits, threads);
    return OK;
  }

  // The same for the k most likely tokens: log-probabilities and ids (B, k), in descending order.
  int top_k(const int64_t* ids, int T, int k, float* log_p, int64_t* tokens, int threads) {
    const int B = n_rows(), V = dims_.vocabulary;
    logits_.reserve(static_cast<size_t>(B) * V);
    if (const int status = step(ids, T, false, logits_.data(), threads)) return status;
    top_k_rows(logits_.data(), B, V, k, log_p, tokens, threads);
    return OK;
  }

  // Row i continues the former row order[i].
  int reorder(const int64_t* order, int n) {
    for (int i = 0; i < n; ++i)
      if (order[i] < 0 || order[i] >= n_rows()) return NO_SUCH_ROW;
    std::vector<SlotList> rows(n);
    std::vector<int64_t> padding(n);
    std::vector<int> sources(sources_.empty() ? 0 : n);
    for (int i = 0; i < n; ++i) {
      rows[i] = slots_[order[i]];
      padding[i] = padding_[order[i]];
      if (!sources.empty()) sources[i] = sources_[order[i]];
    }
    slots_.swap(rows);
    padding_.swap(padding);
    sources_.swap(sources);
    return OK;
  }

  // Keeps the attention weights of these heads in each step from now on.
  void record_attention(bool cross, const int32_t* heads, int n) {
    recorder_.choose(cross, heads, n, dims_.decoder_layers * dims_.n_heads);
  }
  const AttentionRecorder& recorder() const { return recorder_; }
  // Copies the weights of the encoder (layers, heads, n, n) for the next source, which is alone.
  void record_encoder(float* weights) { encoder_record_ = weights; }

  void rewind(int tokens) {
    length_ -= tokens;
    for (int row = 0; row < n_rows(); ++row) {
      const int64_t remaining = std::max<int64_t>(0, length_ - padding_[row]);
      if (static_cast<size_t>(remaining) < slots_[row].size()) slots_[row].resize(remaining);
    }
  }

 private:
  static constexpr size_t NO_OUTPUT = std::numeric_limits<size_t>::max();

  // A token of this pass: its row, its position in the row, and the row of its logits, if any.
  struct QueryToken {
    Request* request;
    int row, position;
    size_t output_row;
  };

  bool in_vocabulary(const std::vector<int64_t>& tokens,
                     const Linear<Format>& embedding_table) const {
    for (const int64_t token : tokens)
      if (token < 0 || token >= embedding_table.outputs) return false;
    return true;
  }

  void encode(const std::vector<int64_t>& tokens, const std::vector<int>& source_of, int threads) {
    const int n = static_cast<int>(tokens.size());
    const Stack<Format>& stack = model_.encoder;
    ForwardPass<Format> pass(model_, stack, workspace_, n, threads);
    const auto position = [&](int i) { return i - offsets_[source_of[i]]; };
    pass.embed(model_.embedding_table(true), [&](int i) { return tokens[i]; }, position);
    float* record = std::exchange(encoder_record_, nullptr);
    for (const Layer<Format>& layer : stack.layers) {
      pass.project_qkv(layer, position);
      pass.attention(layer.output, layer.self_attention_norm, layer.self_attention_sublayer_norm,
                     [&](int i, int head, float* y) {
        const int start = offsets_[source_of[i]], count = offsets_[source_of[i] + 1] - start;
        attend_one(
            pass.qkv(i) + head * dims_.d_head, dims_.d_head, count,
            [&](int s) { return pass.qkv(start + s) + A_ + head * dims_.d_head; }, A_,
            dims_.attention_scale, bias(stack, head, i - start), y,
            record == nullptr ? nullptr : record + (static_cast<size_t>(head) * n + i) * n);
      });
      pass.feed_forward(layer);
      if (record != nullptr) record += static_cast<size_t>(dims_.n_heads) * n * n;
    }
    pass.final_norm();
    // Keys and values of cross-attention for every layer, computed once.
    cross_cache_ = Array<CacheType>(static_cast<size_t>(n) * dims_.decoder_layers * 2 * A_);
    pass.pack(pass.x(0), dims_.d_model);
    for (int l = 0; l < dims_.decoder_layers; ++l) {
      pass.apply_linear(pass.qkv(0), 3 * A_, model_.decoder.layers[l].cross_key_value);
      pass.for_each_token([&](int i) {
        const int source = source_of[i], offset = (i - offsets_[source]) * dims_.d_head;
        for (int head = 0; head < dims_.n_heads; ++head) {
          const float* from = pass.qkv(i) + head * dims_.d_head;
          CacheType* key = cross_keys(source, l, head) + offset;
          convert(from, dims_.d_head, key);
          convert(from + A_, dims_.d_head, key + value_offset(source));
        }
      });
    }
  }

  void decode(const std::vector<int64_t>& tokens, const std::vector<QueryToken>& queries,
              int threads) {
    const Stack<Format>& stack = model_.decoder;
    ForwardPass<Format> pass(model_, stack, workspace_, static_cast<int>(queries.size()), threads);
    const auto position = [&](int i) { return queries[i].position; };
    pass.embed(model_.embedding_table(false), [&](int i) { return tokens[i]; }, position);
    for (int l = 0; l < dims_.decoder_layers; ++l) {
      const Layer<Format>& layer = stack.layers[l];
      pass.project_qkv(layer, position);
      pass.for_each_token([&](int i) {  // cache the key and value of each head, interleaved
        const float* from = pass.qkv(i) + A_;
        const Request& request = *queries[i].request;
        CacheType* to = request.cache_.at(request.slots_[queries[i].row][queries[i].position], l);
        for (int head = 0; head < dims_.n_kv_heads;
             ++head, from += dims_.d_head, to += 2 * dims_.d_head) {
          convert(from, dims_.d_head, to);
          convert(from + kv_width_, dims_.d_head, to + dims_.d_head);
        }
      });
      pass.attention(layer.output, layer.self_attention_norm, layer.self_attention_sublayer_norm,
                     [&](int i, int head, float* y) {
        const Request& request = *queries[i].request;
        const int end = queries[i].position + 1;
        const int start = layer.window ? std::max(0, end - layer.window) : 0;
        const Slot* row = request.slots_[queries[i].row].data() + start;
        const int kv_head = head / (dims_.n_heads / dims_.n_kv_heads);
        const float* relative = bias(stack, head, queries[i].position);
        float* record = queries[i].request->record(false, l, head, queries[i]);
        attend_one(
            pass.qkv(i) + head * dims_.d_head, dims_.d_head, end - start,
            [&](int s) { return request.cache_.at(row[s], l) + kv_head * 2 * dims_.d_head; },
            dims_.d_head, dims_.attention_scale,
            relative == nullptr ? nullptr : relative + start, y,
            record == nullptr ? nullptr : record + start);
      });
      if (dims_.cross) {
        pass.cross_query(layer);
        pass.attention(layer.cross_output, layer.cross_attention_norm, Norm(),
                       [&](int i, int head, float* y) {
                         const Request& request = *queries[i].request;
                         const int source = request.sources_[queries[i].row];
                         const CacheType* first = request.cross_keys(source, l, head);
                         attend_one(
                             pass.qkv(i) + head * dims_.d_head, dims_.d_head,
                             request.offsets_[source + 1] - request.offsets_[source],
                             [&](int s) { return first + s * dims_.d_head; },
                             request.value_offset(source), dims_.attention_scale, nullptr, y,
                             queries[i].request->record(true, l, head, queries[i]));
                       });
      }
      pass.feed_forward(layer);
    }
    pass.final_norm();
  }

  // The contiguous keys of a source for one head of cross-attention in a layer.
  CacheType* cross_keys(int source, int layer, int head) const {
    const size_t tokens_before = static_cast<size_t>(layer) * offsets_.back() + offsets_[source];
    return cross_cache_.data() + tokens_before * 2 * A_ +
           2 * static_cast<size_t>(head) * value_offset(source);
  }

  // The distance from a key of cross-attention to its value: all values follow all keys.
  int value_offset(int source) const {
    return (offsets_[source + 1] - offsets_[source]) * dims_.d_head;
  }

  // Makes room for the weights of the newest token of each row.
  void begin_recording() {
    size_t width = 0;
    if (recorder_.active(false)) {
      for (const SlotList& row : slots_) width = std::max(width, row.size());
    } else if (recorder_.active(true)) {
      for (const int source : sources_)
        width = std::max<size_t>(width, offsets_[source + 1] - offsets_[source]);
    } else {
      return;
    }
    recorder_.begin(slots_.size(), width);
  }

  // Where the weights of a head are recorded; null for other heads and for earlier tokens.
  float* record(bool cross, int layer, int head, const QueryToken& token) {
    const bool newest = token.position + 1 == static_cast<int>(slots_[token.row].size());
    if (!newest || !recorder_.active(cross)) return nullptr;
    return recorder_.at(layer * dims_.n_heads + head, token.row);
  }

  // The relative bias of a query at `position` for the keys of its row, in order.
  const float* bias(const Stack<Format>& stack, int head, int position) const {
    if (!stack.relative.size()) return nullptr;
    const size_t width = 2 * static_cast<size_t>(dims_.max_length) - 1;
    return stack.relative.data() + head * width + (dims_.max_length - 1 - position);
  }

  void compute_logits(const std::vector<QueryToken>& queries, size_t rows, float* logits,
                      int threads) {
    const size_t V = dims_.vocabulary;
    std::vector<int> selected;
    std::vector<size_t> output_rows;
    for (size_t i = 0; i < queries.size(); ++i) {
      if (queries[i].output_row == NO_OUTPUT) continue;
      selected.push_back(static_cast<int>(i));
      output_rows.push_back(queries[i].output_row);
    }
    if (selected.size() < rows)
      std::memset(logits, 0, rows * V * sizeof(float));  // zeros on padding
    const int n = static_cast<int>(selected.size()), D = dims_.d_model;
    workspace_.inputs.reserve(n, D);
    ThreadPool::instance().parallel_for(n, threads, [&](int i) {
      workspace_.inputs.pack(i, workspace_.x.data() + static_cast<size_t>(selected[i]) * D, D);
    });
    matmul(model_.output, workspace_.inputs, n, threads, {logits, V, output_rows.data()});
  }

  const Transformer<Format>& model_;
  const ModelDims& dims_;
  const int A_, kv_width_;
  Workspace<Format> workspace_;
  Array<float> logits_;
  PagedKVCache<CacheType> cache_;
  std::vector<SlotList> slots_;   // per row
  std::vector<int64_t> padding_;  // left padding per row
  std::vector<int> sources_;      // source index per row
  std::vector<int> offsets_;      // first token of each source, and the total
  Array<CacheType> cross_cache_;  // layers x sources x (heads, 2, source length, d_head)
  AttentionRecorder recorder_;
  float* encoder_record_ = nullptr;  // of the caller
  int length_ = 0;
};

}  // namespace jumok
