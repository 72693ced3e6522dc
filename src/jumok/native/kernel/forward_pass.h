// The forward pass of n tokens through a stack of layers: the equations of section 3.

#pragma once

#include "transformer.h"

namespace jumok {

// The buffers of a forward pass, reused by the next one.
template <class Format>
struct Workspace {
  Array<float> embedding, x, qkv, attention_output, ffn, gate, sublayer;
  PackedInputs<Format> inputs;
};

template <class Format>
class ForwardPass {
 public:
  ForwardPass(const Transformer<Format>& model, const Stack<Format>& stack,
              Workspace<Format>& workspace, int n, int threads)
      : dims_(model.dims),
        stack_(stack),
        workspace_(workspace),
        n_(n),
        threads_(threads),
        A_(dims_.n_heads * dims_.d_head),
        qkv_width_(A_ + 2 * dims_.n_kv_heads * dims_.d_head) {
    const size_t rows = n;
    workspace.x.reserve(rows * dims_.d_model);
    workspace.qkv.reserve(rows * qkv_width_);
    workspace.attention_output.reserve(rows * A_);
    workspace.ffn.reserve(rows * dims_.d_ff);
    if (dims_.sublayer_norm) workspace.sublayer.reserve(rows * dims_.d_model);
    if (dims_.gated) workspace.gate.reserve(rows * dims_.d_ff);
  }

  float* x(int token) const {
    return workspace_.x.data() + static_cast<size_t>(token) * dims_.d_model;
  }

  // The queries (A), keys and values (both n_kv_heads * d_head) of a token in self-attention.
  float* qkv(int token) const {
    return workspace_.qkv.data() + static_cast<size_t>(token) * qkv_width_;
  }

  // Calls work(token) for each token, in parallel.
  template <class Work>
  void for_each_token(const Work& work) const {
    ThreadPool::instance().parallel_for(n_, threads_, work);
  }

  // x = token * scale + position (sections 3.4 and 3.5).
  template <class Id, class Position>
  void embed(const Linear<Format>& table, const Id& id, const Position& position) const {
    for_each_token([&](int token) {
      float* to = x(token);
      table.unpack_row(static_cast<int>(id(token)), dims_.embedding_scale, to);
      if (stack_.positions.size()) {
        const float* table_row =
            stack_.positions.data() + static_cast<size_t>(position(token)) * dims_.d_model;
        for (int i = 0; i < dims_.d_model; ++i) to[i] += table_row[i];
      }
      if (dims_.embedding_norm) stack_.embedding_norm(dims_, to, to);
    });
  }

  // Queries, keys and values of self-attention; queries and keys are normalized and rotated.
  template <class Position>
  void project_qkv(const Layer<Format>& layer, const Position& position) const {
    pre_norm(layer.self_attention_norm);
    apply_linear(qkv(0), qkv_width_, layer.query_key_value);
    const bool local = layer.is_local() && stack_.local_cosine.size();
    const Array<float>& cosine = local ? stack_.local_cosine : stack_.cosine;
    const Array<float>& sine = local ? stack_.local_sine : stack_.sine;
    const bool rotated = cosine.size() && layer.rotary != Rotary::none;
    if (!rotated && !dims_.qk_norm) return;
    for_each_token([&](int token) {
      const size_t offset = static_cast<size_t>(position(token)) * dims_.d_head;
      for (int head = 0; head < dims_.n_heads + dims_.n_kv_heads; ++head) {  // queries, then keys
        float* x = qkv(token) + head * dims_.d_head;
        const Norm& norm = head < dims_.n_heads ? layer.query_norm : layer.key_norm;
        if (dims_.qk_norm) norm.apply(dims_, dims_.d_head, x, x);
        if (rotated) rotate(x, cosine.data() + offset, sine.data() + offset);
      }
    });
  }

  // x += W attention(...): attend(token, head, y) computes the output of one head for one token.
  template <class Attend>
  void attention(const Linear<Format>& output, const Norm& norm, const Norm& sublayer_norm,
                 const Attend& attend) const {
    ThreadPool::instance().parallel_for(n_ * dims_.n_heads, threads_, [&](int item) {
      const int token = item / dims_.n_heads, head = item % dims_.n_heads;
      attend(token, head,
             workspace_.attention_output.data() + static_cast<size_t>(token) * A_ +
                 head * dims_.d_head);
    });
    project_output(output, norm, sublayer_norm);
  }

  // x += W applied to the concatenated heads.
  void project_output(const Linear<Format>& output, const Norm& norm,
                      const Norm& sublayer_norm) const {
    pack(workspace_.attention_output.data(), A_);
    add_linear(output, sublayer_norm);
    post_norm(norm);
  }

  // The queries of cross-attention (n, A), stored in place of those of self-attention.
  void cross_query(const Layer<Format>& layer) const {
    pre_norm(layer.cross_attention_norm);
    apply_linear(qkv(0), qkv_width_, layer.cross_query);
  }

  // x += FFN(x), equation (2).
  void feed_forward(const Layer<Format>& layer) const {
    const int F = dims_.d_ff;
    pre_norm(layer.feed_forward_norm);
    apply_linear(workspace_.ffn.data(), F, layer.up);
    if (dims_.gated) apply_linear(workspace_.gate.data(), F, layer.gate);
    workspace_.inputs.reserve(n_, F);
    for_each_token([&](int token) {
      const size_t at = static_cast<size_t>(token) * F;
      activate(static_cast<Activation>(dims_.activation), workspace_.ffn.data() + at,
               dims_.gated ? workspace_.gate.data() + at : nullptr, F);
      workspace_.inputs.pack(token, workspace_.ffn.data() + at, F);
    });
    add_linear(layer.down, layer.feed_forward_sublayer_norm);
    post_norm(layer.feed_forward_norm);
  }

  // The final norm of a stack whose sums are not normalized.
  void final_norm() const {
    if (!dims_.norm_first && !dims_.sublayer_norm) return;
    for_each_token([&](int token) { stack_.norm(dims_, x(token), x(token)); });
  }

  // y (n, stride) = W inputs + b.
  void apply_linear(float* y, int stride, const Linear<Format>& linear) const {
    matmul(linear, workspace_.inputs, n_, threads_, {y, static_cast<size_t>(stride)});
  }

  // Packs rows (n, width) as inputs of the next linear map.
  void pack(const float* from, int width) const {
    workspace_.inputs.reserve(n_, width);
    for_each_token([&](int token) {
      workspace_.inputs.pack(token, from + static_cast<size_t>(token) * width, width);
    });
  }

 private:
  // Packs the input of a sublayer: x, or norm(x) in a pre-norm stack; a first layer may have none.
  void pre_norm(const Norm& norm) const {
    if (!dims_.norm_first || !norm.weight.size()) return pack(x(0), dims_.d_model);
    workspace_.inputs.reserve(n_, dims_.d_model);
    for_each_token([&](int token) {
      thread_local std::vector<float> normed;
      normed.resize(dims_.d_model);
      norm(dims_, x(token), normed.data());
      workspace_.inputs.pack(token, normed.data(), dims_.d_model);
    });
  }

  // x = norm(x) after a sublayer of a post-norm stack.
  void post_norm(const Norm& norm) const {
    if (dims_.norm_first || dims_.sublayer_norm) return;
    for_each_token([&](int token) { norm(dims_, x(token), x(token)); });
  }

  // x += W inputs + b, or x += norm(W inputs + b).
  void add_linear(const Linear<Format>& linear, const Norm& norm) const {
    const size_t D = dims_.d_model;
    if (!dims_.sublayer_norm)
      return matmul(linear, workspace_.inputs, n_, threads_, {x(0), D, nullptr, true});
    float* y = workspace_.sublayer.data();
    matmul(linear, workspace_.inputs, n_, threads_, {y, D});
    for_each_token([&](int token) {
      float *from = y + token * D, *to = x(token);
      norm(dims_, from, from);
      for (size_t i = 0; i < D; ++i) to[i] += from[i];
    });
  }

  // Rotates each pair (i, i + d_head / 2) by its angle (RoFormer, 3.2).
  void rotate(float* head, const float* cosine, const float* sine) const {
    const int half = dims_.d_head / 2;
    for (int i = 0; i < half; ++i) {
      const float first = head[i], second = head[i + half];
      head[i] = first * cosine[i] - second * sine[i];
      head[i + half] = second * cosine[i + half] + first * sine[i + half];
    }
  }

  const ModelDims& dims_;
  const Stack<Format>& stack_;
  Workspace<Format>& workspace_;
  const int n_, threads_, A_, qkv_width_;
};

}  // namespace jumok
