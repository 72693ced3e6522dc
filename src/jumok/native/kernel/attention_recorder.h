// The attention weights of chosen heads for the newest token of each row, kept for the caller.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace jumok {

class AttentionRecorder {
 public:
  // The heads to record: layer * n_heads + head of each, of `all` heads of cross- or
  // self-attention.
  void choose(bool cross, const int32_t* heads, int n, int all) {
    cross_ = cross, n_ = n;
    place_.assign(all, -1);
    for (int i = 0; i < n; ++i) place_[heads[i]] = i;
    weights_.clear();
    width_ = 0;
  }

  bool active(bool cross) const { return n_ > 0 && cross == cross_; }
  bool cross() const { return cross_; }

  // Zeros (rows, heads, width) for the next step.
  void begin(size_t rows, size_t width) {
    width_ = width;
    weights_.assign(rows * n_ * width, 0);
  }

  // The destination of the weights of one head for a row; null if the head was not chosen.
  float* at(int head, size_t row) {
    return place_[head] < 0 ? nullptr : weights_.data() + (row * n_ + place_[head]) * width_;
  }

  // The mean over the heads (rows, width).
  void mean(float* to) const {
    const float* from = weights_.data();
    for (const float* end = from + weights_.size(); from < end; to += width_) {
      std::fill(to, to + width_, 0.0f);
      for (int head = 0; head < n_; ++head, from += width_)
        for (size_t i = 0; i < width_; ++i) to[i] += from[i];
      for (size_t i = 0; i < width_; ++i) to[i] /= static_cast<float>(n_);
    }
  }

  size_t width() const { return width_; }
  const std::vector<float>& weights() const { return weights_; }

 private:
  bool cross_ = false;
  int n_ = 0;
  size_t width_ = 0;
  std::vector<int> place_;  // of each head of the model; -1: not recorded
  std::vector<float> weights_;
};

}  // namespace jumok
