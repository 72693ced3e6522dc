// The Transformer of figure 1, for writing: the encoder reads packed tokens without padding, the
// decoder writes one or more tokens a row and remembers.
//
// D d_model, A = heads * d_head, F d_ff, V vocabulary, n tokens at work in this pass.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attention.h"
#include "linear.h"
#include "places.h"

namespace jumok {

// As the Python side fills it in (src/jumok/native/library.py).
struct Measures {
  int32_t d_model, n_heads, d_head, d_ff;
  int32_t encoder_layers, decoder_layers, cross;
  int32_t max_length, vocabulary;
  int32_t activation, gated, rms, norm_first, embedding_norm;
  float norm_eps, attention_scale, embedding_scale;
};

// LayerNorm, or RMSNorm, of one row.
struct Norm {
  Array<float> gain, shift;

  void operator()(const Measures& m, const float* x, float* y) const {
    const int D = m.d_model;
    float mean = 0, square = 0;
    if (!m.rms) {
#pragma omp simd reduction(+ : mean)
      for (int i = 0; i < D; ++i) mean += x[i];
      mean /= static_cast<float>(D);
    }
#pragma omp simd reduction(+ : square)
    for (int i = 0; i < D; ++i) square += (x[i] - mean) * (x[i] - mean);
    const float factor = 1 / std::sqrt(square / static_cast<float>(D) + m.norm_eps);
    const float *g = gain.data(), *b = shift.data();
    if (b == nullptr) {
#pragma omp simd
      for (int i = 0; i < D; ++i) y[i] = (x[i] - mean) * factor * g[i];
    } else {
#pragma omp simd
      for (int i = 0; i < D; ++i) y[i] = (x[i] - mean) * factor * g[i] + b[i];
    }
  }
};

template <class Format>
struct Layer {
  Linear<Format> query_key_value, output;                      // self-attention
  Linear<Format> cross_query, cross_key_value, cross_output;   // cross-attention
  Linear<Format> up, gate, down;                               // feed-forward
  Norm around_attention, around_cross, around_feed_forward;
};

template <class Format>
struct Tower {
  std::vector<Layer<Format>> layers;
  Norm embedding_norm, norm;
  Array<float> positions;       // (max_length, D), added to the embedding; or empty
  Array<float> cosine, sine;    // (max_length, d_head) of rotary positions; or empty
  Array<float> relative;        // (heads, 2 max_length - 1), by key - query + max_length - 1; or empty
};

template <class Format>
struct Transformer {
  Measures measures;
  Tower<Format> encoder, decoder;
  Linear<Format> source, target, output;  // tables of embeddings; empty ones are tied to `output`
  std::map<std::string, Linear<Format>*> linears;
  std::map<std::string, Array<float>*> vectors;

  explicit Transformer(const Measures& m) : measures(m) {
    encoder.layers = std::vector<Layer<Format>>(m.encoder_layers);
    decoder.layers = std::vector<Layer<Format>>(m.decoder_layers);
    linears = {{"source", &source}, {"target", &target}, {"output", &output}};
    name("encoder", encoder);
    name("decoder", decoder);
  }

  const Linear<Format>& table(bool of_source) const {
    const Linear<Format>& own = of_source ? source : target;
    return own.outputs ? own : output;
  }

  size_t bytes() const {
    size_t sum = 0;
    for (const auto& [key, linear] : linears) sum += linear->bytes();
    for (const auto& [key, vector] : vectors) sum += vector->bytes();
    return sum;
  }

 private:
  void name(const std::string& side, Tower<Format>& tower) {
    vectors[side + ".positions"] = &tower.positions;
    vectors[side + ".cosine"] = &tower.cosine;
    vectors[side + ".sine"] = &tower.sine;
    vectors[side + ".relative"] = &tower.relative;
    name(side + ".embedding_norm", tower.embedding_norm);
    name(side + ".norm", tower.norm);
    for (size_t i = 0; i < tower.layers.size(); ++i) {
      const std::string here = side + "." + std::to_string(i) + ".";
      Layer<Format>& layer = tower.layers[i];
      linears[here + "query_key_value"] = &layer.query_key_value;
      linears[here + "output"] = &layer.output;
      linears[here + "cross_query"] = &layer.cross_query;
      linears[here + "cross_key_value"] = &layer.cross_key_value;
      linears[here + "cross_output"] = &layer.cross_output;
      linears[here + "up"] = &layer.up;
      linears[here + "gate"] = &layer.gate;
      linears[here + "down"] = &layer.down;
      name(here + "around_attention", layer.around_attention);
      name(here + "around_cross", layer.around_cross);
      name(here + "around_feed_forward", layer.around_feed_forward);
    }
  }

  void name(const std::string& here, Norm& norm) {
    vectors[here + ".gain"] = &norm.gain;
    vectors[here + ".shift"] = &norm.shift;
  }
};

}  // namespace jumok
