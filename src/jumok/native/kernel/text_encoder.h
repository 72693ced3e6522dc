// From ids to answers: the embedding in front of an encoder, and the pooling and the linear maps
// behind it. Texts are concatenated without padding, as in encoder.h: text i has the tokens
// offsets[i] ... offsets[i + 1] - 1 of n.
//
// D d_model, E width of the embedding, n tokens, N texts.

#pragma once

#include <cfloat>

#include "encoder.h"

namespace jumok {

// The ids of texts, and the segment of each token or null: all of segment 0.
struct EncoderInput {
  const int32_t *ids, *segments;
};

// x (n, D) = the embeddings (figure 1, bottom) of n tokens at their positions in the text:
// norm(token * scale + position + segment), projected to the width of the layers if E is not D.
template <class Format>
void embed_tokens(const Transformer<Format>& model, Workspace<Format>& workspace,
                  const EncoderInput& input, const int32_t* positions, int n, float* x,
                  int threads) {
  const EmbeddingTable& table = model.tokens;
  const Stack<Format>& stack = model.encoder;
  const size_t E = table.width;
  float* rows = x;
  if (model.projection.outputs) rows = workspace.embedding.reserve(n * E);
  ThreadPool::instance().parallel_for(n, threads, [&](int token) {
    float* to = rows + token * E;
    table.read(input.ids[token], model.dims.embedding_scale, to);
    if (stack.positions.size()) {
      const float* position = stack.positions.data() + positions[token] * E;
      for (size_t i = 0; i < E; ++i) to[i] += position[i];
    }
    if (stack.segments.size()) {
      const size_t number = input.segments == nullptr ? 0 : input.segments[token];
      const float* segment = stack.segments.data() + number * E;
      for (size_t i = 0; i < E; ++i) to[i] += segment[i];
    }
    if (model.dims.embedding_norm) stack.embedding_norm.apply(model.dims, table.width, to, to);
  });
  if (!model.projection.outputs) return;
  workspace.inputs.reserve(n, table.width);
  ThreadPool::instance().parallel_for(n, threads, [&](int token) {
    workspace.inputs.pack(token, rows + token * E, table.width);
  });
  matmul(model.projection, workspace.inputs, n, threads,
         {x, static_cast<size_t>(model.dims.d_model)});
}

// The hidden states (n, D) of the last layer for N texts of ids. A number outside its table is
// OUT_OF_VOCABULARY, a text of more tokens than the model has positions TEXT_TOO_LONG. `record` is
// that of encode_batch.
template <class Format>
int encode_ids(const Transformer<Format>& model, const EncoderInput& input, const int32_t* offsets,
               int N, float* hidden, int threads, float* record = nullptr) {
  const int n = offsets[N], n_segments = model.n_segments();
  std::vector<int32_t> positions(n);
  for (int text = 0; text < N; ++text) {
    if (offsets[text + 1] - offsets[text] > model.dims.max_length) return TEXT_TOO_LONG;
    for (int token = offsets[text]; token < offsets[text + 1]; ++token) {
      if (input.ids[token] < 0 || input.ids[token] >= model.tokens.rows) return OUT_OF_VOCABULARY;
      positions[token] = token - offsets[text];
      if (input.segments == nullptr || !n_segments) continue;
      if (input.segments[token] < 0 || input.segments[token] >= n_segments)
        return OUT_OF_VOCABULARY;
    }
  }
  const auto embed = [&](Workspace<Format>& workspace, int first, int tokens, float* x,
                         int its_threads) {
    const int32_t* segments = input.segments == nullptr ? nullptr : input.segments + first;
    embed_tokens(model, workspace, {input.ids + first, segments}, positions.data() + first, tokens,
                 x, its_threads);
  };
  if (record != nullptr)
    encode_batch(model, thread_workspace<Format>(), embed, hidden, offsets, N, positions.data(),
                 threads, record);
  else
    encode(model, embed, hidden, offsets, N, positions.data(), threads);
  return OK;
}

// One vector of a text, in the order of POOLINGS in ../library.py.
enum class Pooling : int32_t { first, mean, max, last };

// y (N, D) = the pooled hidden states (n, D) of each text; zeros for a text without tokens.
inline void pool(const float* hidden, int D, const int32_t* offsets, int N, Pooling pooling,
                 float* y) {
  for (int text = 0; text < N; ++text, y += D) {
    const int begin = offsets[text], end = offsets[text + 1];
    const float* x = hidden + static_cast<size_t>(begin) * D;
    std::fill(y, y + D, pooling == Pooling::max && begin < end ? -FLT_MAX : 0.0f);
    if (begin == end) continue;
    if (pooling == Pooling::first || pooling == Pooling::last) {
      if (pooling == Pooling::last) x += static_cast<size_t>(end - begin - 1) * D;
      std::copy(x, x + D, y);
      continue;
    }
    for (int token = begin; token < end; ++token, x += D)
      if (pooling == Pooling::mean)
        for (int i = 0; i < D; ++i) y[i] += x[i];
      else
        for (int i = 0; i < D; ++i) y[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i];
    if (pooling == Pooling::mean)
      for (int i = 0; i < D; ++i) y[i] /= static_cast<float>(end - begin);
  }
}

// Divides each row of x (rows, D) by its length, or by 1e-12 if that is larger.
inline void normalize(float* x, int rows, int D) {
  for (int row = 0; row < rows; ++row, x += D) {
    float square = 0;
#pragma omp simd reduction(+ : square)
    for (int i = 0; i < D; ++i) square += x[i] * x[i];
    const float length = std::sqrt(square), divisor = length < 1e-12f ? 1e-12f : length;
    for (int i = 0; i < D; ++i) x[i] /= divisor;
  }
}

inline float dot(const float* x, const float* y, int D) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < D; ++i) sum += x[i] * y[i];
  return sum;
}

// What a classifier of pairs compares, for each row [CLS] a [SEP] b [SEP] with segments 0 and 1:
// y (N, 4 D + 3) = u, v, |u - v| and u * v of the means u and v of both texts without the special
// tokens, and three similarities times D: the cosine of u and v, the mean over the tokens of a of
// the cosine with the nearest token of b, and the same with the texts exchanged. A text without
// tokens has mean 0, and its pair similarities 0.
inline void compare_pairs(const float* hidden, int D, const int32_t* segments,
                          const int32_t* offsets, int N, float* y) {
  std::vector<int> tokens[2];
  std::vector<float> units, nearest[2];
  for (int pair = 0; pair < N; ++pair, y += 4 * D + 3) {
    for (auto& each : tokens) each.clear();
    for (int token = offsets[pair] + 1; token + 1 < offsets[pair + 1]; ++token) {
      const int segment = segments[token];  // the last token of a segment is [SEP]
      if (segment == segments[token + 1] && (segment == 0 || segment == 1))
        tokens[segment].push_back(token);
    }
    float *u = y, *v = y + D, *similarities = y + 4 * D;
    std::fill(y, y + 4 * D + 3, 0.0f);
    for (int side = 0; side < 2; ++side)
      for (const int token : tokens[side])
        for (int i = 0; i < D; ++i)
          y[side * D + i] += hidden[static_cast<size_t>(token) * D + i] /
                             static_cast<float>(tokens[side].size());
    for (int i = 0; i < D; ++i) y[2 * D + i] = std::fabs(u[i] - v[i]), y[3 * D + i] = u[i] * v[i];
    const int A = static_cast<int>(tokens[0].size()), B = static_cast<int>(tokens[1].size());
    if (A == 0 || B == 0) continue;
    const auto length = [D](const float* x, float least) {
      return std::max(std::sqrt(dot(x, x, D)), least);
    };
    similarities[0] = D * dot(u, v, D) / (length(u, 1e-8f) * length(v, 1e-8f));
    units.resize(static_cast<size_t>(A + B) * D);
    for (int i = 0; i < A + B; ++i) {
      const int token = i < A ? tokens[0][i] : tokens[1][i - A];
      std::copy_n(hidden + static_cast<size_t>(token) * D, D, units.data() + i * size_t(D));
    }
    normalize(units.data(), A + B, D);
    nearest[0].assign(A, -1), nearest[1].assign(B, -1);
    for (int a = 0; a < A; ++a)
      for (int b = 0; b < B; ++b) {
        const float* unit = units.data();
        const float cosine = dot(unit + a * size_t(D), unit + (A + b) * size_t(D), D);
        nearest[0][a] = std::max(nearest[0][a], cosine);
        nearest[1][b] = std::max(nearest[1][b], cosine);
      }
    for (int side = 0; side < 2; ++side) {
      float sum = 0;
      for (const float cosine : nearest[side]) sum += cosine;
      similarities[1 + side] = D * sum / static_cast<float>(nearest[side].size());
    }
  }
}

// The activations of heads, in the order of HEAD_ACTIVATIONS in ../library.py.
enum class HeadActivation : int32_t { none, relu, gelu, gelu_tanh, silu, tanh };

// y (rows, outputs) = activation(W x + b) for a linear map of a head, which is float32.
inline void apply_head(const Linear<Float32>& linear, const float* x, int rows,
                       HeadActivation activation, float* y, int threads) {
  PackedInputs<Float32> inputs;
  inputs.reserve(rows, linear.inputs);
  for (int row = 0; row < rows; ++row)
    inputs.pack(row, x + static_cast<size_t>(row) * linear.inputs, linear.inputs);
  const size_t outputs = linear.outputs;
  matmul(linear, inputs, rows, threads, {y, outputs});
  for (int row = 0; row < rows; ++row, y += outputs) {
    if (activation == HeadActivation::tanh)
      for (size_t i = 0; i < outputs; ++i) y[i] = std::tanh(y[i]);
    else if (activation != HeadActivation::none)
      activate(static_cast<Activation>(static_cast<int32_t>(activation) - 1), y, nullptr,
               linear.outputs);
  }
}

}  // namespace jumok
