// What changes the scores of a row before a token is chosen, and the choice of a sample.
//
// The equations and their order are those of src/jumok/decoding/processors.py and sampling.py,
// which are the reference: scores are float32, the weights of a sample float64.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace jumok {

constexpr float NEVER = -std::numeric_limits<float>::infinity();  // the score of a banned token

// Philox4x64-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): four random
// words that depend on the key and the counter alone. Those of numpy.random.Philox, whose first
// words have the counter 1.
inline std::array<uint64_t, 4> philox(std::array<uint64_t, 2> key, std::array<uint64_t, 4> x) {
  for (int round = 0; round < 10; ++round) {
    const unsigned __int128 a = static_cast<unsigned __int128>(0xD2E7470EE14C6C93) * x[0];
    const unsigned __int128 b = static_cast<unsigned __int128>(0xCA5A826395121157) * x[2];
    x = {static_cast<uint64_t>(b >> 64) ^ x[1] ^ key[0], static_cast<uint64_t>(b),
         static_cast<uint64_t>(a >> 64) ^ x[3] ^ key[1], static_cast<uint64_t>(a)};
    key[0] += 0x9E3779B97F4A7C15, key[1] += 0xBB67AE8584CAA73B;
  }
  return x;
}

// The number from 0 to 1 - 2^-52 of a step of a hypothesis, under the key of its text.
inline double uniform(std::array<uint64_t, 2> key, uint64_t hypothesis, uint64_t step) {
  const uint64_t word = philox(key, {step / 4 + 1, 0, 0, hypothesis})[step % 4];
  return static_cast<double>(word >> 12) * 0x1p-52;
}

struct ScoreChanges {
  float repetition_penalty, temperature, top_p, min_p, typical_p;  // 1, 1, 1, 0, 1: none
  int32_t no_repeat_ngram, top_k;                                  // 0: none

  bool any() const {
    return repetition_penalty != 1 || temperature != 1 || top_p < 1 || min_p > 0 ||
           typical_p < 1 || no_repeat_ngram || top_k;
  }
};

// Keskar et al. 2019: lowers each token that occurs.
inline void penalize(std::vector<int64_t> tokens, float penalty, float* scores) {
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (const int64_t token : tokens)
    scores[token] = scores[token] < 0 ? scores[token] * penalty : scores[token] / penalty;
}

// Bans the tokens that would repeat an n-gram.
inline void ban_repeated(const std::vector<int64_t>& tokens, size_t n, float* scores) {
  for (auto start = tokens.begin(); start + n <= tokens.end(); ++start)
    if (std::equal(start, start + (n - 1), tokens.end() - (n - 1))) scores[start[n - 1]] = NEVER;
}

// Keeps the k highest scores, and those equal to the lowest of them.
inline void keep_top_k(size_t k, std::vector<float>& scores) {
  if (k >= scores.size()) return;
  std::vector<float> ordered = scores;
  std::nth_element(ordered.begin(), ordered.begin() + (k - 1), ordered.end(), std::greater<>());
  for (float& each : scores)
    if (each < ordered[k - 1]) each = NEVER;
}

inline std::vector<float> softmax(const std::vector<float>& scores) {
  const float largest = *std::max_element(scores.begin(), scores.end());
  std::vector<float> y(scores.size());
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += y[i] = std::exp(scores[i] - largest);
  for (float& each : y) each = static_cast<float>(each / sum);
  return y;
}

// Keeps the tokens of the smallest keys, of equal ones those of the smallest ids, until they have
// the probability p.
inline void keep_probability(float p, const std::vector<float>& probability,
                             const std::vector<float>& key, std::vector<float>& scores) {
  std::vector<int> heap;  // ordered as far as tokens are kept
  for (size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > NEVER) heap.push_back(static_cast<int>(i));
  const auto later = [&](int a, int b) { return key[a] != key[b] ? key[a] > key[b] : a > b; };
  std::make_heap(heap.begin(), heap.end(), later);
  std::vector<float> kept(scores.size(), NEVER);
  for (double sum = 0; !heap.empty() && static_cast<float>(sum) < p; heap.pop_back()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    kept[heap.back()] = scores[heap.back()];
    sum += probability[heap.back()];
  }
  scores.swap(kept);
}

// The smallest set of most probable tokens with probability p (Holtzman et al. 2020).
inline void keep_top_p(float p, std::vector<float>& scores) {
  std::vector<float> key = scores;
  for (float& each : key) each = -each;
  keep_probability(p, softmax(scores), key, scores);
}

// Tokens at least p times as probable as the most probable one (Nguyen et al. 2024).
inline void keep_min_p(float p, std::vector<float>& scores) {
  const std::vector<float> probability = softmax(scores);
  const float minimum = p * *std::max_element(probability.begin(), probability.end());
  for (size_t i = 0; i < scores.size(); ++i)
    if (probability[i] < minimum) scores[i] = NEVER;
}

// The smallest set of smallest |-log p(y) - entropy| with probability p (Meister et al. 2023).
inline void keep_typical(float p, std::vector<float>& scores) {
  const std::vector<float> probability = softmax(scores);
  std::vector<float> key(scores.size());
  double entropy = 0;
  for (const float each : probability)
    if (each > 0) entropy -= each * std::log(each);
  for (size_t i = 0; i < key.size(); ++i)
    key[i] = static_cast<float>(std::fabs(-std::log(probability[i]) - entropy));
  keep_probability(p, probability, key, scores);
}

// The changes that the tokens so far cause; only differences of scores count.
inline void lower(const ScoreChanges& changes, const std::vector<int64_t>& tokens,
                  std::vector<float>& scores) {
  if (changes.repetition_penalty != 1)
    penalize(tokens, changes.repetition_penalty, scores.data());
  if (changes.no_repeat_ngram) ban_repeated(tokens, changes.no_repeat_ngram, scores.data());
}

// The changes that follow.
inline void truncate(const ScoreChanges& changes, std::vector<float>& scores) {
  if (changes.temperature != 1)
    for (float& each : scores) each /= changes.temperature;
  if (*std::max_element(scores.begin(), scores.end()) == NEVER) return;  // every token is banned
  if (changes.top_k) keep_top_k(changes.top_k, scores);
  if (changes.top_p < 1) keep_top_p(changes.top_p, scores);
  if (changes.min_p > 0) keep_min_p(changes.min_p, scores);
  if (changes.typical_p < 1) keep_typical(changes.typical_p, scores);
}

// Inverse transform sampling: the first token whose cumulative weight exceeds the part u of all.
inline int64_t draw(const std::vector<float>& scores, double u) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> weights(scores.begin(), scores.end());
  double total = 0;
  for (double& each : weights) total += each = std::exp(each - largest);
  double rest = u * total;
  size_t last = 0;  // with a weight: rounding may leave a rest after it
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) last = i;
    if ((rest -= weights[i]) < 0) break;
  }
  return static_cast<int64_t>(last);
}

}  // namespace jumok
