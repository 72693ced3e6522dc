// The weights of the Transformer of figure 1. The encoder processes unpadded tokens, the decoder
// one or more new tokens per row with a key-value cache.
//
// D d_model, A = heads * d_head, F d_ff, V vocabulary, n tokens of a forward pass.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attention.h"
#include "block_linear.h"
#include "embedding_table.h"
#include "kv_cache.h"

namespace jumok {

// Return codes; must match those in src/jumok/native/library.py.
enum Status : int {
  OK,
  OUT_OF_VOCABULARY,
  OUT_OF_MEMORY,
  NO_SUCH_ROW,
  NO_SUCH_NAME,
  TEXT_TOO_LONG,
  NOT_FINITE
};

// Must match ModelDims in src/jumok/native/library.py.
struct ModelDims {
  int32_t d_model, n_heads, n_kv_heads, d_head, d_ff;
  int32_t encoder_layers, decoder_layers, cross;
  int32_t max_length, vocabulary;
  int32_t activation, gated, rms, norm_first, sublayer_norm, qk_norm, embedding_norm;
  float norm_eps, attention_scale, embedding_scale;
};

// LayerNorm or RMSNorm of one row.
struct Norm {
  Array<float> weight, bias;

  void operator()(const ModelDims& dims, const float* x, float* y) const {
    apply(dims, dims.d_model, x, y);
  }

  // The same for a row of D elements, such as a query.
  void apply(const ModelDims& dims, int D, const float* x, float* y) const {
    float mean = 0, square = 0;
    if (!dims.rms) {
#pragma omp simd reduction(+ : mean)
      for (int i = 0; i < D; ++i) mean += x[i];
      mean /= static_cast<float>(D);
    }
#pragma omp simd reduction(+ : square)
    for (int i = 0; i < D; ++i) square += (x[i] - mean) * (x[i] - mean);
    const float variance = square / static_cast<float>(D) + dims.norm_eps;
    // Not 0 where the squares overflow: infinity - infinity is NaN.
    const float factor = 1 / std::sqrt(variance) + (variance - variance);
    const float *w = weight.data(), *b = bias.data();
    if (b == nullptr) {
#pragma omp simd
      for (int i = 0; i < D; ++i) y[i] = (x[i] - mean) * factor * w[i];
    } else {
#pragma omp simd
      for (int i = 0; i < D; ++i) y[i] = (x[i] - mean) * factor * w[i] + b[i];
    }
  }
};

// Which of the tables of its stack rotates queries and keys of a layer.
enum class Rotary : int32_t { none, shared, local };

template <class Format>
struct Layer {
  Linear<Format> query_key_value, output;                     // self-attention
  Linear<Format> cross_query, cross_key_value, cross_output;  // cross-attention
  Linear<Format> up, gate, down;                              // feed-forward
  Norm self_attention_norm, cross_attention_norm, feed_forward_norm;
  Norm self_attention_sublayer_norm, feed_forward_sublayer_norm;  // of outputs, before the sum
  Norm query_norm, key_norm;                                      // of each head
  int window = 0;  // keys that a query attends to, its own included; 0: all
  Rotary rotary = Rotary::shared;
  Array<float> encoder_window;  // (1), the same in an encoder, where it counts to both sides

  // (heads, buckets, d_head), keys and queries of relative positions in DeBERTa; may be empty
  Array<float> position_key, position_query;

  // Those of one head, or null.
  const float* relative_head(const Array<float>& vectors, int head, const ModelDims& dims) const {
    return vectors.size() ? vectors.data() + vectors.size() / dims.n_heads * head : nullptr;
  }

  bool is_local() const { return rotary == Rotary::local || encoder_window.size(); }
};

template <class Format>
struct Stack {
  std::vector<Layer<Format>> layers;
  Norm embedding_norm, norm;
  Array<float> positions;     // (max_length, D), added to the embedding; may be empty
  Array<float> segments;      // (segments, D), the same for segments; may be empty
  Array<float> cosine, sine;  // (max_length, d_head) of rotary positions; may be empty
  Array<float> local_cosine, local_sine;  // the same for local layers; may be empty
  // (heads, 2 max_length - 1), indexed by key - query + max_length - 1; may be empty
  Array<float> relative;
  // (2 max_length - 1), the bucket of query - key + max_length - 1 in DeBERTa; may be empty
  Array<float> buckets;
};

template <class Format>
struct Transformer {
  ModelDims dims;
  Stack<Format> encoder, decoder;
  Linear<Format> source, target, output;  // an empty embedding table is tied to output
  EmbeddingTable tokens;                  // of an encoder without a decoder
  Linear<Format> projection;              // of its embeddings to D; empty if they have this width
  std::map<std::string, Linear<Float32>> heads;  // linear maps behind it, by name
  std::map<std::string, Linear<Format>*> linears;
  std::map<std::string, Array<float>*> vectors;

  explicit Transformer(const ModelDims& model_dims) : dims(model_dims) {
    encoder.layers = std::vector<Layer<Format>>(model_dims.encoder_layers);
    decoder.layers = std::vector<Layer<Format>>(model_dims.decoder_layers);
    linears = {{"source", &source},
               {"target", &target},
               {"output", &output},
               {"encoder.projection", &projection}};
    register_names("encoder", encoder);
    register_names("decoder", decoder);
  }

  const Linear<Format>& embedding_table(bool of_source) const {
    const Linear<Format>& table = of_source ? source : target;
    return table.outputs ? table : output;
  }

  int n_segments() const {
    return tokens.width ? static_cast<int>(encoder.segments.size() / tokens.width) : 0;
  }

  // Without the table of tokens, which is not copied.
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& [key, linear] : linears) sum += linear->bytes();
    for (const auto& [key, head] : heads) sum += head.bytes();
    for (const auto& [key, vector] : vectors) sum += vector->bytes();
    return sum;
  }

 private:
  void register_names(const std::string& side, Stack<Format>& stack) {
    vectors[side + ".positions"] = &stack.positions;
    vectors[side + ".segments"] = &stack.segments;
    vectors[side + ".cosine"] = &stack.cosine;
    vectors[side + ".sine"] = &stack.sine;
    vectors[side + ".local_cosine"] = &stack.local_cosine;
    vectors[side + ".local_sine"] = &stack.local_sine;
    vectors[side + ".relative"] = &stack.relative;
    vectors[side + ".buckets"] = &stack.buckets;
    register_names(side + ".embedding_norm", stack.embedding_norm);
    register_names(side + ".norm", stack.norm);
    for (size_t i = 0; i < stack.layers.size(); ++i) {
      const std::string prefix = side + "." + std::to_string(i) + ".";
      Layer<Format>& layer = stack.layers[i];
      linears[prefix + "query_key_value"] = &layer.query_key_value;
      linears[prefix + "output"] = &layer.output;
      linears[prefix + "cross_query"] = &layer.cross_query;
      linears[prefix + "cross_key_value"] = &layer.cross_key_value;
      linears[prefix + "cross_output"] = &layer.cross_output;
      linears[prefix + "up"] = &layer.up;
      linears[prefix + "gate"] = &layer.gate;
      linears[prefix + "down"] = &layer.down;
      register_names(prefix + "self_attention_norm", layer.self_attention_norm);
      register_names(prefix + "cross_attention_norm", layer.cross_attention_norm);
      register_names(prefix + "feed_forward_norm", layer.feed_forward_norm);
      register_names(prefix + "self_attention_sublayer_norm", layer.self_attention_sublayer_norm);
      register_names(prefix + "feed_forward_sublayer_norm", layer.feed_forward_sublayer_norm);
      register_names(prefix + "query_norm", layer.query_norm);
      register_names(prefix + "key_norm", layer.key_norm);
      vectors[prefix + "window"] = &layer.encoder_window;
      vectors[prefix + "position_key"] = &layer.position_key;
      vectors[prefix + "position_query"] = &layer.position_query;
    }
  }

  void register_names(const std::string& prefix, Norm& norm) {
    vectors[prefix + ".weight"] = &norm.weight;
    vectors[prefix + ".bias"] = &norm.bias;
  }
};

}  // namespace jumok
