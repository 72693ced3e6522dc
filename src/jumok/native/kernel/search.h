// Greedy search, sampling and beam search: the loop of generation, from prompts to hypotheses.
//
// The equations are those of src/jumok/decoding/beam.py and generate.py, which are the reference:
// values and ranks are float32 as there, so that the same log-probabilities give the same hypotheses.
//
// N texts, P prompt tokens, K beams, V vocabulary, B rows (the alive hypotheses of all texts).

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sampling.h"
#include "top_k.h"
#include "transformer.h"

namespace jumok {

// Rows that are decoded together, whatever computes them.
struct RowDecoder {
  virtual ~RowDecoder() = default;
  // Starts `rows` empty rows; padding (rows) is the left padding of each, or null.
  virtual void reset(const int64_t* padding, int rows) = 0;
  // New tokens ids (B, T) -> logits (B, T, V), or (B, V) for the last position; a Status.
  virtual int step(const int64_t* ids, int T, bool all_positions, float* logits, int threads) = 0;
  // Row i continues the former row order[i]; a Status.
  virtual int reorder(const int64_t* order, int n) = 0;
  virtual int vocabulary() const = 0;
};

// Must match SearchCall in src/jumok/native/library.py.
struct SearchCall {
  int32_t n_texts, prompt_length;
  const int64_t* prompts;  // (N, P), padded on the left
  const int64_t* padding;  // (N), or null
  const int32_t* limits;   // (N) generated tokens at most, the end token included
  int32_t n_ends;
  const int64_t* ends;  // tokens that end a text
  int32_t beam, n_best;
  int32_t early_stopping;  // 0: no better hypothesis is alive, 1: at once, 2: none is possible
  int32_t gnmt;            // the length norm of Wu et al. 2016 instead of a power of the length
  int32_t min_length;      // generated tokens before an end token
  int32_t window;  // positions of a language model whose older half is dropped when they are full
  double length_penalty;
  const uint64_t* keys;  // (N, 2) of the random numbers of the texts; null: no sampling
  // Whether the newest of n tokens ends a text besides `ends`; null: none does.
  int32_t (*stops)(int32_t text, const int64_t* tokens, int32_t n);
  ScoreChanges changes;
};
static_assert(sizeof(void*) == 8 || sizeof(SearchCall) == 104, "web/src/model/search.ts writes it");

struct Found {
  float value = 0;  // the sum of scores of an alive one, the rank of a finished one
  bool ended = false;
  int number = 0;  // of a sample
  std::vector<int64_t> tokens;  // generated, the end token included
  std::vector<float> log_p;     // of the model
};

class Search {
 public:
  Search(RowDecoder& decoder, const SearchCall& call)
      : decoder_(decoder),
        call_(call),
        V_(decoder.vocabulary()),
        ends_(call.ends, call.ends + call.n_ends),
        texts_(call.n_texts) {
    const int N = call.n_texts, P = call.prompt_length;
    for (int n = 0; n < N; ++n) {
      const int skipped = call.padding == nullptr ? 0 : static_cast<int>(call.padding[n]);
      texts_[n].prompt.assign(call.prompts + n * P + skipped, call.prompts + (n + 1) * P);
      texts_[n].limit = call.limits[n];
      if (call.keys != nullptr) texts_[n].key = {call.keys[2 * n], call.keys[2 * n + 1]};
      texts_[n].alive.resize(1);
      unfinished_.push_back(n);
    }
    ids_.assign(call.prompts, call.prompts + static_cast<size_t>(N) * P);
    if (call.padding != nullptr) padding_.assign(call.padding, call.padding + N);
  }

  int n_unfinished() const { return static_cast<int>(unfinished_.size()); }

  // Up to `steps` steps; a Status.
  int run(int steps, int threads) {
    for (; steps > 0 && !unfinished_.empty(); --steps)
      if (const int status = step(threads)) return status;
    return OK;
  }

  // What the decoder reads in the next step.
  struct Input {
    const int64_t* ids;  // (rows, T)
    int rows, T;
  };

  // Begins a step, for which the decoder has `rows` rows.
  Input begin() {
    const int B = n_rows();
    if (cached_ == 0) decoder_.reset(padding_.empty() ? nullptr : padding_.data(), B);
    const int T = static_cast<int>(ids_.size()) / B;
    if (call_.window && cached_ + T > call_.window) drop_older_half();
    return {ids_.data(), B, static_cast<int>(ids_.size()) / B};
  }

  // Space for the logits (rows, V) of a step, also of one that other searches share.
  float* logits_for(size_t rows) {
    logits_.reserve(rows * V_);
    return logits_.data();
  }

  // Ends a step with its logits (B, V), which change; a Status.
  int advance(float* logits, int threads) {
    cached_ += static_cast<int>(ids_.size()) / n_rows();
    // The samples of a text share its prompt.
    const int copies = t_ == 0 && call_.keys != nullptr ? call_.n_best : 1;
    std::vector<Row> rows;
    for (const int n : unfinished_) {
      std::vector<Found>& alive = texts_[n].alive;
      if (copies > 1) alive.resize(copies);
      for (int i = 0; i < copies && copies > 1; ++i) alive[i].number = i;
      for (const Found& one : alive) rows.push_back({texts_[n], one});
    }
    std::vector<Best> best(rows.size());
    ThreadPool::instance().parallel_for(static_cast<int>(rows.size()), threads, [&](int row) {
      best[row] = best_of(logits + static_cast<size_t>(row / copies) * V_, rows[row]);
    });
    for (const Best& one : best)
      if (!one.finite) return NOT_FINITE;
    ++t_;
    return call_.beam > 1 ? advance_beams(best) : advance_rows(best, copies);
  }

  // The hypotheses of a text, the best first, or its samples; of greedy search, and of a single
  // sample, what it has so far. Text -1: those of the newest step of a single text, before any
  // that ended were ranked.
  const std::vector<Found>& results(int text) const {
    if (text < 0) return newest_;
    const Text& one = texts_[text];
    return call_.beam == 1 && one.finished.empty() ? one.alive : one.finished;
  }

  // The score of a hypothesis divided by its length norm.
  double rank(const Found& found) const {
    if (call_.beam > 1) return found.value;
    const double score = std::accumulate(found.log_p.begin(), found.log_p.end(), 0.0);
    return score / length_norm(std::max<double>(1, static_cast<double>(found.tokens.size())));
  }

 private:
  struct Text {
    std::vector<int64_t> prompt;  // without padding
    int limit = 0;
    std::array<uint64_t, 2> key = {};
    std::vector<Found> alive, finished;
  };

  struct Row {
    const Text& text;
    const Found& found;
  };

  // The best tokens of a row, or its sample: their scores, their log-probabilities and their ids,
  // C of each.
  struct Best {
    std::vector<float> score, log_p;
    std::vector<int64_t> token;
    bool finite = true;
  };

  // A continuation: the alive hypothesis `parent` of its text, and one of the best tokens of it.
  struct Candidate {
    float value;
    int parent, place;
    int64_t token;
  };

  int step(int threads) {
    const Input input = begin();
    float* logits = logits_for(input.rows);
    if (const int status = decoder_.step(input.ids, input.T, false, logits, threads)) return status;
    return advance(logits, threads);
  }

  int n_rows() const {
    size_t rows = 0;
    for (const int n : unfinished_) rows += texts_[n].alive.size();
    return static_cast<int>(rows);
  }

  // Starts a new window with the newer half of the tokens: positions restart at 0.
  void drop_older_half() {
    const size_t half = std::max(call_.window / 2, 1);
    ids_.clear();
    for (const int n : unfinished_)
      for (const Found& one : texts_[n].alive) {
        std::vector<int64_t> all = texts_[n].prompt;
        all.insert(all.end(), one.tokens.begin(), one.tokens.end());
        ids_.insert(ids_.end(), all.end() - std::min(half, all.size()), all.end());
      }
    decoder_.reset(nullptr, n_rows());
    cached_ = 0;
  }

  // The best tokens of a row, or its sample; an end token that comes too early is banned.
  Best best_of(float* logits, const Row& row) const {
    Best best;
    const float log_sum = log_sum_exp(logits, V_);
    best.finite = std::isfinite(log_sum);
    if (!best.finite) return best;
    const int C = call_.keys != nullptr || call_.beam == 1 ? 1 : std::min(2 * call_.beam, V_);
    best.score.resize(C), best.token.resize(C);
    if (call_.keys == nullptr && !call_.changes.any()) {
      ban_ends(logits);
      select_top_k(logits, V_, C, log_sum, best.score.data(), best.token.data());
      best.log_p = best.score;
      return best;
    }
    std::vector<float> scores(logits, logits + V_);
    std::vector<int64_t> tokens = row.text.prompt;
    tokens.insert(tokens.end(), row.found.tokens.begin(), row.found.tokens.end());
    // Beams add up log-probabilities.
    if (call_.beam > 1)
      for (float& each : scores) each -= log_sum;
    lower(call_.changes, tokens, scores);
    ban_ends(scores.data());
    truncate(call_.changes, scores);
    if (call_.keys == nullptr) {
      select_top_k(scores.data(), V_, C, 0, best.score.data(), best.token.data());
    } else {
      best.token[0] = draw(scores, uniform(row.text.key, row.found.number, t_));
      best.score[0] = scores[best.token[0]];
    }
    for (const int64_t token : best.token) best.log_p.push_back(logits[token] - log_sum);
    return best;
  }

  void ban_ends(float* scores) const {
    if (t_ < call_.min_length)
      for (const int64_t end : ends_) scores[end] = NEVER;
  }

  // Greedy search and sampling: every row gets a token. The first step has `copies` rows of each
  // row of the decoder.
  int advance_rows(const std::vector<Best>& best, int copies) {
    std::vector<int> going_on;
    std::vector<int64_t> order, ids;
    newest_.clear();
    size_t row = 0;
    for (const int n : unfinished_) {
      Text& text = texts_[n];
      std::vector<Found> alive;
      for (Found& one : text.alive) {
        const size_t at = row++;
        const bool allowed = best[at].score[0] > NEVER;  // else every token is banned
        if (allowed) {
          one.ended = ends(n, one, best[at].token[0]);
          one.tokens.push_back(best[at].token[0]);
          one.log_p.push_back(best[at].log_p[0]);
        }
        if (allowed && call_.n_texts == 1) newest_.push_back(one);
        if (!allowed || one.ended || t_ >= text.limit) {
          text.finished.push_back(std::move(one));
          continue;
        }
        order.push_back(static_cast<int64_t>(at / copies));
        ids.push_back(one.tokens.back());
        alive.push_back(std::move(one));
      }
      text.alive.swap(alive);
      if (!text.alive.empty()) going_on.push_back(n);
      std::sort(text.finished.begin(), text.finished.end(),
                [](const Found& a, const Found& b) { return a.number < b.number; });
    }
    return go_on(going_on, order, ids);
  }

  int advance_beams(const std::vector<Best>& best) {
    std::vector<int> going_on;
    std::vector<int64_t> order, ids;
    newest_.clear();
    size_t first_row = 0;
    for (const int n : unfinished_) {
      Text& text = texts_[n];
      const size_t rows = text.alive.size();
      const std::vector<int> parents = extend(n, best.data() + first_row);
      if (call_.n_texts == 1)
        newest_.insert(newest_.end(), text.alive.begin(), text.alive.end());
      if (is_done(text)) {
        text.finished.resize(std::min<size_t>(text.finished.size(), call_.n_best));
        text.alive.clear();
      } else {
        going_on.push_back(n);
        for (const int parent : parents) order.push_back(static_cast<int64_t>(first_row) + parent);
        for (const Found& one : text.alive) ids.push_back(one.tokens.back());
      }
      first_row += rows;
    }
    return go_on(going_on, order, ids);
  }

  int go_on(std::vector<int>& texts, const std::vector<int64_t>& order,
            std::vector<int64_t>& ids) {
    unfinished_.swap(texts);
    ids_.swap(ids);
    if (unfinished_.empty()) return OK;
    return decoder_.reorder(order.data(), static_cast<int>(order.size()));
  }

  // One step of a text: the best of the candidates that end are finished, the best of the others
  // are alive. Returns the parent of each alive hypothesis.
  std::vector<int> extend(int number, const Best* rows) {
    Text& text = texts_[number];
    const int K = call_.beam;
    std::vector<Candidate> candidates;
    for (size_t w = 0; w < text.alive.size(); ++w)
      for (size_t c = 0; c < rows[w].token.size(); ++c)
        if (rows[w].score[c] > NEVER)
          candidates.push_back({rows[w].score[c] + text.alive[w].value, static_cast<int>(w),
                                static_cast<int>(c), rows[w].token[c]});
    const auto better = [](const Candidate& a, const Candidate& b) {
      if (a.value != b.value) return a.value > b.value;
      return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
    };
    const size_t n = std::min<size_t>(2 * static_cast<size_t>(K), candidates.size());
    std::partial_sort(candidates.begin(), candidates.begin() + n, candidates.end(), better);
    candidates.resize(n);
    // Where every token is banned and nothing is finished, the hypotheses end as they are.
    if (candidates.empty() && text.finished.empty())
      for (const Found& one : text.alive) finish(text, one, one.value / norm(t_ - 1));
    std::vector<Found> alive;
    std::vector<int> parents;
    for (size_t i = 0; i < n; ++i) {
      const Candidate& one = candidates[i];
      const bool ended = ends(number, text.alive[one.parent], one.token);
      const bool stops = ended || t_ >= text.limit;
      if (stops ? i >= static_cast<size_t>(K) : alive.size() >= static_cast<size_t>(K)) continue;
      Found found = text.alive[one.parent];
      found.value = one.value;
      found.ended = ended;
      found.tokens.push_back(one.token);
      found.log_p.push_back(rows[one.parent].log_p[one.place]);
      if (stops) {
        if (call_.n_texts == 1) newest_.push_back(found);
        finish(text, found, one.value / norm(t_));
      } else {
        alive.push_back(std::move(found));
        parents.push_back(one.parent);
      }
    }
    text.alive.swap(alive);
    return parents;
  }

  // Keeps the K finished hypotheses of highest rank; of equal ones the one finished earlier.
  void finish(Text& text, const Found& found, float rank) const {
    std::vector<Found>& all = text.finished;
    const auto at = std::upper_bound(all.begin(), all.end(), rank,
                                     [](float a, const Found& b) { return a > b.value; });
    const auto place = all.insert(at, found);
    place->value = rank;
    if (all.size() > static_cast<size_t>(call_.beam)) all.pop_back();
  }

  bool is_done(const Text& text) const {
    if (text.alive.empty()) return true;
    if (text.finished.size() < static_cast<size_t>(call_.beam)) return false;
    const float worst = text.finished.back().value, best = text.alive[0].value;
    if (call_.early_stopping == 1) return true;
    if (call_.early_stopping == 0) return best / norm(t_) <= worst;
    const int length = call_.length_penalty > 0 ? text.limit : t_;
    return best / norm(length) <= worst;
  }

  // Whether a token ends a text after those of a hypothesis.
  bool ends(int text, const Found& found, int64_t token) const {
    if (std::find(ends_.begin(), ends_.end(), token) != ends_.end()) return true;
    if (call_.stops == nullptr) return false;
    std::vector<int64_t> tokens = found.tokens;
    tokens.push_back(token);
    return call_.stops(text, tokens.data(), static_cast<int>(tokens.size())) != 0;
  }

  float norm(int t) const { return static_cast<float>(length_norm(std::max(t, 1))); }
  double length_norm(double t) const {
    return std::pow(call_.gnmt ? (5 + t) / 6 : t, call_.length_penalty);
  }

  RowDecoder& decoder_;
  const SearchCall call_;  // its arrays are not used after the constructor
  const int V_;
  const std::vector<int64_t> ends_;
  std::vector<Text> texts_;
  std::vector<Found> newest_;     // of a single text
  std::vector<int> unfinished_;   // texts, in order
  std::vector<int64_t> ids_;      // (B, T) what the decoder reads next
  std::vector<int64_t> padding_;  // of the prompts
  Array<float> logits_;
  int t_ = 0;       // generated tokens
  int cached_ = 0;  // tokens that the decoder has read since its last reset
};

}  // namespace jumok
