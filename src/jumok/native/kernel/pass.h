// One pass of n tokens through a tower: what the equations of section 3 say, part by part.

#pragma once

#include "transformer.h"

namespace jumok {

// The rooms a pass works in; kept from one pass to the next.
template <class Format>
struct Workshop {
  Array<float> x, inside, attended, wide, gate;
  Rows<Format> rows;
};

template <class Format>
class Pass {
 public:
  Pass(const Transformer<Format>& model, const Tower<Format>& tower, Workshop<Format>& rooms, int n,
       int threads)
      : m_(model.measures), tower_(tower), rooms_(rooms), n_(n), threads_(threads),
        A_(m_.n_heads * m_.d_head) {
    const size_t rows = n;
    rooms.x.room(rows * m_.d_model);
    rooms.inside.room(rows * 3 * A_);
    rooms.attended.room(rows * A_);
    rooms.wide.room(rows * m_.d_ff);
    if (m_.gated) rooms.gate.room(rows * m_.d_ff);
  }

  float* x(int token) const { return rooms_.x.data() + static_cast<size_t>(token) * m_.d_model; }

  // The token's query, key and value of self-attention: (3, A).
  float* inside(int token) const {
    return rooms_.inside.data() + static_cast<size_t>(token) * 3 * A_;
  }

  // work(token) for each token.
  template <class Work>
  void each(const Work& work) const {
    Threads::of_process().share(n_, threads_, work);
  }

  // x = token * scale + position: section 3.4 and 3.5.
  template <class Id, class Position>
  void embed(const Linear<Format>& table, const Id& id, const Position& position) const {
    each([&](int token) {
      float* to = x(token);
      table.row(static_cast<int>(id(token)), m_.embedding_scale, to);
      if (tower_.positions.size()) {
        const float* added =
            tower_.positions.data() + static_cast<size_t>(position(token)) * m_.d_model;
        for (int i = 0; i < m_.d_model; ++i) to[i] += added[i];
      }
      if (m_.embedding_norm) tower_.embedding_norm(m_, to, to);
    });
  }

  // Queries, keys and values of self-attention, turned where positions are rotary.
  template <class Position>
  void project(const Layer<Format>& layer, const Position& position) const {
    enter(layer.around_attention);
    into(inside(0), 3 * A_, layer.query_key_value);
    if (!tower_.cosine.size()) return;
    each([&](int token) {
      const size_t place = static_cast<size_t>(position(token)) * m_.d_head;
      for (int head = 0; head < 2 * m_.n_heads; ++head)  // queries and keys
        turn(inside(token) + head * m_.d_head, tower_.cosine.data() + place,
             tower_.sine.data() + place);
    });
  }

  // x += W attention(q ...): `see` finds for each token and head what it may see.
  template <class See>
  void attention(const Linear<Format>& output, const Norm& norm, const See& see) const {
    Threads::of_process().share(n_ * m_.n_heads, threads_, [&](int item) {
      const int token = item / m_.n_heads, head = item % m_.n_heads;
      see(token, head, rooms_.attended.data() + static_cast<size_t>(token) * A_ + head * m_.d_head);
    });
    collect(output, norm);
  }

  // x += W of what all heads found.
  void collect(const Linear<Format>& output, const Norm& norm) const {
    put(rooms_.attended.data(), A_);
    add(output);
    leave(norm);
  }

  // The queries of cross-attention, (n, A), where those of self-attention stood.
  void ask(const Layer<Format>& layer) const {
    enter(layer.around_cross);
    into(inside(0), 3 * A_, layer.cross_query);
  }

  // x += FFN(x): equation (2).
  void feed_forward(const Layer<Format>& layer) const {
    const int F = m_.d_ff;
    enter(layer.around_feed_forward);
    into(rooms_.wide.data(), F, layer.up);
    if (m_.gated) into(rooms_.gate.data(), F, layer.gate);
    rooms_.rows.make_room(n_, F);
    each([&](int token) {
      const size_t at = static_cast<size_t>(token) * F;
      activate(static_cast<Activation>(m_.activation), rooms_.wide.data() + at,
               m_.gated ? rooms_.gate.data() + at : nullptr, F);
      rooms_.rows.put(token, rooms_.wide.data() + at, F);
    });
    add(layer.down);
    leave(layer.around_feed_forward);
  }

  // The norm that closes a pre-norm stack.
  void close() const {
    if (!m_.norm_first) return;
    each([&](int token) { tower_.norm(m_, x(token), x(token)); });
  }

  // y (n, stride) = W rows.
  void into(float* y, int stride, const Linear<Format>& linear) const {
    multiply(linear, rooms_.rows, n_, threads_, {y, static_cast<size_t>(stride)});
  }

  // Rows (n, width) in the form in which they meet weights.
  void put(const float* from, int width) const {
    rooms_.rows.make_room(n_, width);
    each([&](int token) { rooms_.rows.put(token, from + static_cast<size_t>(token) * width, width); });
  }

 private:
  // What a part reads: x, or norm(x) in a pre-norm stack.
  void enter(const Norm& norm) const {
    if (!m_.norm_first) return put(x(0), m_.d_model);
    rooms_.rows.make_room(n_, m_.d_model);
    each([&](int token) {
      thread_local std::vector<float> normed;
      normed.resize(m_.d_model);
      norm(m_, x(token), normed.data());
      rooms_.rows.put(token, normed.data(), m_.d_model);
    });
  }

  // x = norm(x) after a part of a post-norm stack.
  void leave(const Norm& norm) const {
    if (m_.norm_first) return;
    each([&](int token) { norm(m_, x(token), x(token)); });
  }

  // x += W rows.
  void add(const Linear<Format>& linear) const {
    multiply(linear, rooms_.rows, n_, threads_,
             {x(0), static_cast<size_t>(m_.d_model), nullptr, true});
  }

  // Each pair (i, i + d_head / 2) by its angle (RoFormer, 3.2).
  void turn(float* head, const float* cosine, const float* sine) const {
    const int half = m_.d_head / 2;
    for (int i = 0; i < half; ++i) {
      const float first = head[i], second = head[i + half];
      head[i] = first * cosine[i] - second * sine[i];
      head[i + half] = second * cosine[i + half] + first * sine[i + half];
    }
  }

  const Measures& m_;
  const Tower<Format>& tower_;
  Workshop<Format>& rooms_;
  const int n_, threads_, A_;
};

}  // namespace jumok
