// The scores of content and relative position in DeBERTa (He et al. 2021, equation 4).

#pragma once

#include "row_products.h"

namespace jumok {

// The relative positions of a layer for one head: keys and queries (N, K), either may be null, and
// the bucket of a distance, query minus key, at buckets[distance].
struct RelativeHead {
  const float *keys, *queries, *buckets;
};

// q_i K(i - j) + k_j Q(i - j), scaled, for one head of one text. The buffers are reused.
template <class Format>
class PositionScores {
 public:
  // q and k are S rows of K elements, `stride` apart, at these positions in the text.
  void prepare(const RelativeHead& head, const float* q, const float* k, size_t stride,
               const int32_t* positions, int S, int K, float scale) {
    positions_ = positions, S_ = S;
    const int span = S ? positions[S - 1] - positions[0] : 0;
    const int first = bucket(head, -span), n = bucket(head, span) - first + 1;
    grow(columns_, 2 * static_cast<size_t>(span) + 1);
    for (int d = -span; d <= span; ++d) columns_[d + span] = bucket(head, d) - first;
    span_ = span, stride_ = round_up(n, LANES);
    const size_t skipped = static_cast<size_t>(first) * K;
    has_keys_ = head.keys != nullptr, has_queries_ = head.queries != nullptr;
    if (has_keys_) multiply(q, stride, head.keys + skipped, n, K, scale, with_keys_);
    if (has_queries_) multiply(k, stride, head.queries + skipped, n, K, scale, with_queries_);
  }

  // Adds the scores of a query to those of its keys (S).
  void add(int query, float* scores) const {
    const int* column = columns_.data() + span_ + positions_[query];
    const float* of_query = with_keys_.data() + query * stride_;
    for (int s = 0; s < S_; ++s) {
      const int at = column[-positions_[s]];
      if (has_keys_) scores[s] += of_query[at];
      if (has_queries_) scores[s] += with_queries_[s * stride_ + at];
    }
  }

 private:
  static int bucket(const RelativeHead& head, int distance) {
    return static_cast<int>(head.buckets[distance]);
  }

  void multiply(const float* rows, size_t stride, const float* vectors, int n, int K, float scale,
                std::vector<float>& y) {
    grow(y, S_ * stride_);
    products_.pack(vectors, K, n, K);
    products_.multiply_all(rows, stride, S_, n, scale, y.data(), stride_);
  }

  RowProducts<Format> products_;
  const int32_t* positions_ = nullptr;
  int S_ = 0, span_ = 0;
  size_t stride_ = 0;
  bool has_keys_ = false, has_queries_ = false;
  std::vector<int> columns_;       // (2 span + 1), of the buckets that the text has
  std::vector<float> with_keys_;   // (S, stride)
  std::vector<float> with_queries_;
};

}  // namespace jumok
