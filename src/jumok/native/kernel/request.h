// One request: sources that were read, rows being written, and what is remembered of both.

#pragma once

#include <cstdint>
#include <limits>

#include "pass.h"

namespace jumok {

// What is answered to words that cannot be followed; 0 is "done".
enum Answer : int { DONE, OUT_OF_VOCABULARY, OUT_OF_MEMORY, NO_SUCH_ROW, NO_SUCH_NAME };

template <class Format>
class Request {
  using Kept = typename Format::Kept;

 public:
  explicit Request(const Transformer<Format>& model)
      : model_(model), m_(model.measures), A_(m_.n_heads * m_.d_head),
        written_(m_.decoder_layers, 2 * A_) {}

  // Reads the sources: ids and real (N, S), real null without padding. Padding is no work: the
  // real tokens of all sources stand end to end.
  int read(const int64_t* ids, const uint8_t* real, int N, int S, int threads) {
    std::vector<int64_t> tokens;
    std::vector<int> owner;
    first_ = {0};
    for (int row = 0; row < N; ++row) {
      for (int i = row * S; i < (row + 1) * S; ++i)
        if (real == nullptr || real[i]) {
          tokens.push_back(ids[i]);
          owner.push_back(row);
        }
      first_.push_back(static_cast<int>(tokens.size()));
    }
    if (!known(tokens, model_.table(true))) return OUT_OF_VOCABULARY;
    encode(tokens, owner, threads);
    begin(nullptr, N);
    sources_.resize(N);
    for (int row = 0; row < N; ++row) sources_[row] = row;
    return DONE;
  }

  // Rows without a source; padding (N), null when there is none.
  void begin(const int64_t* padding, int N) {
    rows_.assign(N, {});
    padding_.assign(N, 0);
    if (padding != nullptr) padding_.assign(padding, padding + N);
  }

  int n_rows() const { return static_cast<int>(rows_.size()); }
  int length() const { return length_; }

  // Newest tokens ids (B, T) -> logits (B, T, V), or (B, V) of what follows the last.
  int step(const int64_t* ids, int T, bool every, float* logits, int threads) {
    const int B = n_rows();
    std::vector<int64_t> tokens;
    std::vector<Seat> seats;
    for (int row = 0; row < B; ++row)
      for (int t = 0; t < T; ++t)
        if (length_ + t >= padding_[row]) {
          seats.push_back({row, length_ + t - static_cast<int>(padding_[row]), t});
          tokens.push_back(ids[static_cast<size_t>(row) * T + t]);
        }
    if (!known(tokens, model_.table(false))) return OUT_OF_VOCABULARY;
    for (const Seat& seat : seats) rows_[seat.row].push_back(written_.fresh(rows_));
    length_ += T;
    if (!seats.empty()) decode(tokens, seats, threads);
    give_logits(seats, T, every, logits, threads);
    return DONE;
  }

  // The same for the k likeliest tokens alone: log-probabilities and ids (B, k), best first.
  int best(const int64_t* ids, int T, int k, float* log_p, int64_t* tokens, int threads) {
    const int B = n_rows(), V = m_.vocabulary;
    logits_.room(static_cast<size_t>(B) * V);
    if (const int wrong = step(ids, T, false, logits_.data(), threads)) return wrong;
    Threads::of_process().share(B, threads, [&](int row) {
      const float* x = logits_.data() + static_cast<size_t>(row) * V;
      likeliest(x, V, k, log_p + static_cast<size_t>(row) * k, tokens + static_cast<size_t>(row) * k);
    });
    return DONE;
  }

  // Row i goes on with what was row order[i].
  int select(const int64_t* order, int n) {
    for (int i = 0; i < n; ++i)
      if (order[i] < 0 || order[i] >= n_rows()) return NO_SUCH_ROW;
    std::vector<Row> rows(n);
    std::vector<int64_t> padding(n);
    std::vector<int> sources(sources_.empty() ? 0 : n);
    for (int i = 0; i < n; ++i) {
      rows[i] = rows_[order[i]];
      padding[i] = padding_[order[i]];
      if (!sources.empty()) sources[i] = sources_[order[i]];
    }
    rows_.swap(rows);
    padding_.swap(padding);
    sources_.swap(sources);
    return DONE;
  }

  void rewind(int tokens) {
    length_ -= tokens;
    for (int row = 0; row < n_rows(); ++row) {
      const int64_t left = std::max<int64_t>(0, length_ - padding_[row]);
      if (static_cast<size_t>(left) < rows_[row].size()) rows_[row].resize(left);
    }
  }

 private:
  // A token of this pass: its row, its position there, and which of the row's newest it is.
  struct Seat {
    int row, position, newest;
  };

  bool known(const std::vector<int64_t>& tokens, const Linear<Format>& table) const {
    for (const int64_t token : tokens)
      if (token < 0 || token >= table.outputs) return false;
    return true;
  }

  void encode(const std::vector<int64_t>& tokens, const std::vector<int>& owner, int threads) {
    const int n = static_cast<int>(tokens.size());
    const Tower<Format>& tower = model_.encoder;
    Pass<Format> pass(model_, tower, rooms_, n, threads);
    const auto position = [&](int i) { return i - first_[owner[i]]; };
    pass.embed(model_.table(true), [&](int i) { return tokens[i]; }, position);
    for (const Layer<Format>& layer : tower.layers) {
      pass.project(layer, position);
      pass.attention(layer.output, layer.around_attention, [&](int i, int head, float* y) {
        const int start = first_[owner[i]], count = first_[owner[i] + 1] - start;
        attend(pass.inside(i) + head * m_.d_head, m_.d_head, count,
               [&](int s) { return pass.inside(start + s) + A_ + head * m_.d_head; }, A_,
               m_.attention_scale, bias(tower, head, i - start), y);
      });
      pass.feed_forward(layer);
    }
    pass.close();
    // Keys and values of cross-attention, of every layer, once and for all.
    memory_ = Array<Kept>(static_cast<size_t>(n) * m_.decoder_layers * 2 * A_);
    pass.put(pass.x(0), m_.d_model);
    for (int l = 0; l < m_.decoder_layers; ++l) {
      pass.into(pass.inside(0), 3 * A_, model_.decoder.layers[l].cross_key_value);
      pass.each([&](int i) {
        const int source = owner[i], here = (i - first_[source]) * m_.d_head;
        for (int head = 0; head < m_.n_heads; ++head) {
          const float* from = pass.inside(i) + head * m_.d_head;
          Kept* key = memory(source, l, head) + here;
          keep(from, m_.d_head, key);
          keep(from + A_, m_.d_head, key + to_value(source));
        }
      });
    }
  }

  void decode(const std::vector<int64_t>& tokens, const std::vector<Seat>& seats, int threads) {
    const Tower<Format>& tower = model_.decoder;
    Pass<Format> pass(model_, tower, rooms_, static_cast<int>(seats.size()), threads);
    const auto position = [&](int i) { return seats[i].position; };
    pass.embed(model_.table(false), [&](int i) { return tokens[i]; }, position);
    for (int l = 0; l < m_.decoder_layers; ++l) {
      const Layer<Format>& layer = tower.layers[l];
      pass.project(layer, position);
      pass.each([&](int i) {  // the key and the value of each head, side by side
        const float* from = pass.inside(i) + A_;
        Kept* to = written_.at(rows_[seats[i].row][seats[i].position], l);
        for (int head = 0; head < m_.n_heads; ++head, from += m_.d_head, to += 2 * m_.d_head) {
          keep(from, m_.d_head, to);
          keep(from + A_, m_.d_head, to + m_.d_head);
        }
      });
      pass.attention(layer.output, layer.around_attention, [&](int i, int head, float* y) {
        const Row& row = rows_[seats[i].row];
        attend(pass.inside(i) + head * m_.d_head, m_.d_head, seats[i].position + 1,
               [&](int s) { return written_.at(row[s], l) + head * 2 * m_.d_head; }, m_.d_head,
               m_.attention_scale, bias(tower, head, seats[i].position), y);
      });
      if (m_.cross) {
        pass.ask(layer);
        pass.attention(layer.cross_output, layer.around_cross, [&](int i, int head, float* y) {
          const int source = sources_[seats[i].row];
          const Kept* first = memory(source, l, head);
          attend(pass.inside(i) + head * m_.d_head, m_.d_head, first_[source + 1] - first_[source],
                 [&](int s) { return first + s * m_.d_head; }, to_value(source), m_.attention_scale,
                 nullptr, y);
        });
      }
      pass.feed_forward(layer);
    }
    pass.close();
  }

  // The keys of a source, for one head of a layer's cross-attention, one after the other.
  Kept* memory(int source, int layer, int head) const {
    const size_t tokens_before = static_cast<size_t>(layer) * first_.back() + first_[source];
    return memory_.data() + tokens_before * 2 * A_ + 2 * static_cast<size_t>(head) * to_value(source);
  }

  // From a key of cross-attention to its value: the values follow when all keys are done.
  int to_value(int source) const { return (first_[source + 1] - first_[source]) * m_.d_head; }

  // The bias of a query at `position` over the keys of its row, first key first.
  const float* bias(const Tower<Format>& tower, int head, int position) const {
    if (!tower.relative.size()) return nullptr;
    const size_t width = 2 * static_cast<size_t>(m_.max_length) - 1;
    return tower.relative.data() + head * width + (m_.max_length - 1 - position);
  }

  void give_logits(const std::vector<Seat>& seats, int T, bool every, float* logits, int threads) {
    const size_t V = m_.vocabulary;
    const size_t rows = static_cast<size_t>(n_rows()) * (every ? T : 1);
    std::vector<int> wanted;  // seats
    std::vector<size_t> line;  // where each one's logits stand
    for (size_t i = 0; i < seats.size(); ++i) {
      const Seat& seat = seats[i];
      if (!every && seat.newest != T - 1) continue;
      wanted.push_back(static_cast<int>(i));
      line.push_back(every ? static_cast<size_t>(seat.row) * T + seat.newest : seat.row);
    }
    if (wanted.size() < rows) std::memset(logits, 0, rows * V * sizeof(float));  // padding has none
    const int n = static_cast<int>(wanted.size()), D = m_.d_model;
    rooms_.rows.make_room(n, D);
    Threads::of_process().share(n, threads, [&](int i) {
      rooms_.rows.put(i, rooms_.x.data() + static_cast<size_t>(wanted[i]) * D, D);
    });
    multiply(model_.output, rooms_.rows, n, threads, {logits, V, line.data()});
  }

  // The k largest of x, largest first; of equal ones the first.
  static void likeliest(const float* x, int n, int k, float* log_p, int64_t* tokens) {
    constexpr int STRIDE = 64;
    int found = 0;
    for (int start = 0; start < n; start += STRIDE) {
      const int end = std::min(n, start + STRIDE);
      // Most stretches hold nothing of interest: a look at their largest is enough.
      if (found == k && !(largest(x + start, end - start) > log_p[k - 1])) continue;
      for (int i = start; i < end; ++i) {
        if (found == k && !(x[i] > log_p[k - 1])) continue;
        int at = found < k ? found++ : k - 1;
        for (; at > 0 && x[i] > log_p[at - 1]; --at) {
          log_p[at] = log_p[at - 1];
          tokens[at] = tokens[at - 1];
        }
        log_p[at] = x[i];
        tokens[at] = i;
      }
    }
    const float all = log_sum_exp(x, n);
    for (int i = 0; i < k; ++i) log_p[i] -= all;
  }

  const Transformer<Format>& model_;
  const Measures& m_;
  const int A_;
  Workshop<Format> rooms_;
  Array<float> logits_;
  Places<Kept> written_;
  std::vector<Row> rows_;         // the places of each row
  std::vector<int64_t> padding_;  // how many fillers stand before each row
  std::vector<int> sources_;      // which source each row looks back at
  std::vector<int> first_;        // the first token of each source, and where the last one ends
  Array<Kept> memory_;            // layers x sources x (heads, 2, tokens of the source, d_head)
  int length_ = 0;
};

}  // namespace jumok
