// Vectors of the target's width: LANES floats, integers or bits, through the compiler's vector
// extensions. A target includes this file after it has defined LANES.

#pragma once

#include <cstdint>
#include <cstring>

#include "vector_math.h"

namespace jumok {

using Floats = float __attribute__((vector_size(4 * LANES)));
using Integers = int32_t __attribute__((vector_size(4 * LANES)));
using Bits = uint32_t __attribute__((vector_size(4 * LANES)));
using Halves = uint16_t __attribute__((vector_size(2 * LANES)));
using Bytes = int8_t __attribute__((vector_size(LANES)));

template <class Vector>
inline Vector load(const void* from) {
  Vector x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

template <class Vector>
inline void store(void* to, Vector x) {
  std::memcpy(to, &x, sizeof x);
}

inline Floats broadcast(float x) { return x - Floats{}; }

// bfloat16: the upper half of a float, rounded to nearest even; NaN stays NaN.
using Bfloat = uint16_t;

inline float to_float(Bfloat x) { return float_of(static_cast<uint32_t>(x) << 16); }
inline float to_float(float x) { return x; }

inline Floats to_float(const float* x) { return load<Floats>(x); }
inline Floats to_float(const Bfloat* x) {
  return (Floats)(__builtin_convertvector(load<Halves>(x), Bits) << 16);
}

inline Bfloat to_bfloat16(float x) {
  const uint32_t bits = bits_of(x), rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return static_cast<Bfloat>((x == x ? rounded : 0x7fc00000u) >> 16);
}

// float16, as in the scales of blocks. Infinity and NaN, which the caller excludes, become finite.
using Half = uint16_t;

inline float half_to_float(Half x) {
  const float magnitude = float_of(static_cast<uint32_t>(x & 0x7fff) << 13) * 0x1p112f;
  return float_of(bits_of(magnitude) | static_cast<uint32_t>(x & 0x8000) << 16);
}
inline Floats decode_halves(const Half* x) {
  const Bits bits = __builtin_convertvector(load<Halves>(x), Bits);
  const Floats magnitude = (Floats)((bits & 0x7fff) << 13) * 0x1p112f;
  return (Floats)((Bits)magnitude | (bits & 0x8000) << 16);
}

// Copies n floats to the type of the key-value cache, or rounds them to bfloat16 in place.
inline void convert(const float* from, int n, float* to) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}
inline void convert(const float* from, int n, Bfloat* to) {
#pragma omp simd
  for (int i = 0; i < n; ++i) to[i] = to_bfloat16(from[i]);
}

// int8 with inputs as int16 or int8: x = scale * q with q in -127 ... 127.
template <class Input>
float quantize_row(const float* x, int n, Input* to) {
  constexpr float NEGLIGIBLE = 1e-30f;  // 1 / scale must be finite
  const float maximum = max_abs(x, n);
  const float scale = maximum < NEGLIGIBLE ? 1 : maximum / 127;  // infinity and NaN propagate
  const float inverse = 1 / scale;
#pragma omp simd
  for (int i = 0; i < n; ++i) to[i] = static_cast<Input>(round_to_int(x[i] * inverse));
  return scale;
}

// Products of bfloat16 weights where no instruction multiplies them: the weights are decoded to
// float32, and the inputs are floats that were rounded to bfloat16.
struct DecodedBfloat16 {
  static constexpr int GROUP = 2, STEPS = 2;  // step 0: the lower halves, step 1: the upper ones
  using Input = float;
  static void round_row(const float* x, int n, Input* to) {
#pragma omp simd
    for (int i = 0; i < n; ++i) to[i] = to_float(to_bfloat16(x[i]));
  }
  static Floats weights(const Bfloat* w, int step) {
    const Bits pairs = load<Bits>(w);
    return (Floats)(step == 0 ? pairs << 16 : pairs & 0xffff0000u);
  }
  static Floats inputs(const Input* x, int step) { return broadcast(x[step]); }
  static Floats multiply_add(Floats sum, Floats x, Floats w) { return sum + x * w; }
};

}  // namespace jumok
