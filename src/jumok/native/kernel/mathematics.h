// The few functions of one number, and of one row of numbers, that a Transformer is made of.
//
// Written as plain loops that a compiler turns into vector code; `omp simd` allows it to sum in
// another order and needs no OpenMP runtime.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace jumok {

inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// 1.5 * 2^23: a float this large has no room for fractions, so adding it rounds to an integer,
// which then stands in the lowest bits.
constexpr float ROUNDER = 12582912.0f;

inline int32_t rounded(float x) {
  return static_cast<int32_t>(bits_of(x + ROUNDER)) - static_cast<int32_t>(bits_of(ROUNDER));
}

// e^x to 1e-7 of itself: 2^n e^r with |r| <= ln(2) / 2, and the Taylor polynomial for e^r.
inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const int32_t n = rounded(x * 1.44269504f);
  const float whole = static_cast<float>(n);
  const float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;  // ln(2) in two parts
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  return sum * float_of(static_cast<uint32_t>(n + 127) << 23);
}

inline float hyperbolic_tangent(float x) { return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f); }

// The error function to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
inline float error_function(float x) {
  const float size = std::fabs(x);
  const float t = 1.0f / (1.0f + 0.3275911f * size);
  float sum = 1.061405429f;
  sum = sum * t - 1.453152027f;
  sum = sum * t + 1.421413741f;
  sum = sum * t - 0.284496736f;
  sum = sum * t + 0.254829592f;
  const float y = 1.0f - sum * t * exponential(-size * size);
  return x < 0 ? -y : y;
}

// The activations of the feed-forward part, numbered as the Python side numbers them.
enum class Activation : int32_t { relu, gelu, gelu_tanh, silu };

inline float relu(float x) { return x > 0 ? x : 0; }
inline float gelu(float x) { return 0.5f * x * (1.0f + error_function(x * 0.707106781f)); }
inline float gelu_tanh(float x) {
  return 0.5f * x * (1.0f + hyperbolic_tangent(0.797884561f * (x + 0.044715f * x * x * x)));
}
inline float silu(float x) { return x / (1.0f + exponential(-x)); }

template <float (*FUNCTION)(float)>
void activate_all(float* x, const float* gate, int n) {
  if (gate == nullptr) {
#pragma omp simd
    for (int i = 0; i < n; ++i) x[i] = FUNCTION(x[i]);
  } else {
#pragma omp simd
    for (int i = 0; i < n; ++i) x[i] = FUNCTION(x[i]) * gate[i];
  }
}

// x = act(x), or act(x) * gate where there is a gate.
inline void activate(Activation activation, float* x, const float* gate, int n) {
  switch (activation) {
    case Activation::relu: return activate_all<relu>(x, gate, n);
    case Activation::gelu: return activate_all<gelu>(x, gate, n);
    case Activation::gelu_tanh: return activate_all<gelu_tanh>(x, gate, n);
    case Activation::silu: return activate_all<silu>(x, gate, n);
  }
}

inline float largest(const float* x, int n) {
  float best = x[0];
#pragma omp simd reduction(max : best)
  for (int i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

// NaN if one of them is: without their signs the bits of floats are in the order of the floats,
// and NaN stands above all.
inline float largest_size(const float* x, int n) {
  int32_t best = 0;
#pragma omp simd reduction(max : best)
  for (int i = 0; i < n; ++i) {
    const int32_t size = static_cast<int32_t>(bits_of(x[i]) & 0x7fffffff);
    best = size > best ? size : best;
  }
  return float_of(static_cast<uint32_t>(best));
}

// x = e^(x - most); returns their sum.
inline float exponentials(float* x, int n, float most) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < n; ++i) {
    x[i] = exponential(x[i] - most);
    sum += x[i];
  }
  return sum;
}

// log(sum of e^x), which turns logits into log-probabilities.
inline float log_sum_exp(const float* x, int n) {
  const float most = largest(x, n);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < n; ++i) sum += exponential(x[i] - most);
  return most + std::log(sum);
}

}  // namespace jumok
