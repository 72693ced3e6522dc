// Elementary functions of a float and of a row of floats.
//
// Simple loops that the compiler vectorizes; `omp simd` permits reordered sums and needs no OpenMP
// runtime.

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

// 1.5 * 2^23: floats of this size have no fractional bits, so adding it rounds to an integer in the
// lowest bits.
constexpr float ROUNDING_OFFSET = 12582912.0f;

inline int32_t round_to_int(float x) {
  return static_cast<int32_t>(bits_of(x + ROUNDING_OFFSET)) -
         static_cast<int32_t>(bits_of(ROUNDING_OFFSET));
}

// e^x with relative error 1e-7: 2^n e^r with |r| <= ln(2) / 2, and a Taylor polynomial for e^r.
inline float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const int32_t n = round_to_int(x * 1.44269504f);
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

inline float fast_tanh(float x) { return 1.0f - 2.0f / (fast_exp(2.0f * x) + 1.0f); }

// The error function with absolute error 4e-7: x times a polynomial in x^2, shifted and scaled to
// -1 ... 1, which was fitted to erf(x) / x for |x| < 3.7 (minimax, by reweighted least squares).
inline float fast_erf(float x) {
  constexpr float END = 3.7f;  // erf(3.7) = 1 - 1.7e-7
  const float magnitude = std::fabs(x), inside = magnitude < END ? magnitude : END;
  const float t = inside * inside * (2.0f / (END * END)) - 1.0f;
  float sum = -0.00150466815f;
  sum = sum * t + 0.00392740965f;
  sum = sum * t - 0.00364736025f;
  sum = sum * t + 0.00522323232f;
  sum = sum * t - 0.0141516747f;
  sum = sum * t + 0.0251461416f;
  sum = sum * t - 0.0362002701f;
  sum = sum * t + 0.0514753573f;
  sum = sum * t - 0.0704366341f;
  sum = sum * t + 0.0906248838f;
  sum = sum * t - 0.112645566f;
  sum = sum * t + 0.140789539f;
  sum = sum * t - 0.19046773f;
  sum = sum * t + 0.382137537f;
  const float y = magnitude < END ? inside * sum : 1.0f;
  return x < 0 ? -y : y;
}

// The feed-forward activations, in the order of ACTIVATIONS in packed_weights.py.
enum class Activation : int32_t { relu, gelu, gelu_tanh, silu };

inline float relu(float x) { return x < 0 ? 0 : x; }  // NaN stays NaN
inline float gelu(float x) { return 0.5f * x * (1.0f + fast_erf(x * 0.707106781f)); }
inline float gelu_tanh(float x) {
  return 0.5f * x * (1.0f + fast_tanh(0.797884561f * (x + 0.044715f * x * x * x)));
}
inline float silu(float x) { return x / (1.0f + fast_exp(-x)); }

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

// x = act(x), or act(x) * gate if gate is not null.
inline void activate(Activation activation, float* x, const float* gate, int n) {
  switch (activation) {
    case Activation::relu: return activate_all<relu>(x, gate, n);
    case Activation::gelu: return activate_all<gelu>(x, gate, n);
    case Activation::gelu_tanh: return activate_all<gelu_tanh>(x, gate, n);
    case Activation::silu: return activate_all<silu>(x, gate, n);
  }
}

inline float max_of(const float* x, int n) {
  float maximum = x[0];
#pragma omp simd reduction(max : maximum)
  for (int i = 0; i < n; ++i) maximum = x[i] > maximum ? x[i] : maximum;
  return maximum;
}

// Returns NaN if any element is NaN: without the sign bit, the bit patterns of floats sort like the
// floats, and NaN sorts last.
inline float max_abs(const float* x, int n) {
  int32_t maximum = 0;
#pragma omp simd reduction(max : maximum)
  for (int i = 0; i < n; ++i) {
    const int32_t magnitude = static_cast<int32_t>(bits_of(x[i]) & 0x7fffffff);
    maximum = magnitude > maximum ? magnitude : maximum;
  }
  return float_of(static_cast<uint32_t>(maximum));
}

// x = e^(x - maximum); returns the sum.
inline float exp_minus_max(float* x, int n, float maximum) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < n; ++i) {
    x[i] = fast_exp(x[i] - maximum);
    sum += x[i];
  }
  return sum;
}

// log(sum of e^x); subtracting it turns logits into log-probabilities.
inline float log_sum_exp(const float* x, int n) {
  const float maximum = max_of(x, n);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < n; ++i) sum += fast_exp(x[i] - maximum);
  return maximum + std::log(sum);
}

}  // namespace jumok
