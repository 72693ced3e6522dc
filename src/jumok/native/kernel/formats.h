// The three weight formats: float32, bfloat16, and int8.
//
// Weights are stored in vectors of 64 bytes: 16 outputs times a group of inputs that one
// instruction multiplies and adds (1 float, 2 bfloat16, 4 int8). A format defines how a row of
// inputs is quantized, how a group of inputs is multiplied with a weight vector, and how sums are
// converted to float.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "vector_math.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace jumok {

constexpr int LANES = 16;  // outputs per weight vector

// Compilers map these to one, two or four registers, depending on the processor.
using Floats = float __attribute__((vector_size(64)));
using Integers = int32_t __attribute__((vector_size(64)));
using Bits = uint32_t __attribute__((vector_size(64)));
using Halves = uint16_t __attribute__((vector_size(32)));

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

inline float horizontal_sum(Floats x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)x);
#else
  float sum = 0;
  for (int i = 0; i < LANES; ++i) sum += x[i];
  return sum;
#endif
}

#if defined(__AVX512F__)
constexpr int TILE_ROWS = 6, TILE_VECTORS = 4;  // 24 of 32 registers hold sums
#else
constexpr int TILE_ROWS = 4, TILE_VECTORS = 1;
#endif

// bfloat16: the upper half of a float, rounded to nearest even.
using Bfloat = uint16_t;

inline float to_float(Bfloat x) { return float_of(static_cast<uint32_t>(x) << 16); }
inline float to_float(float x) { return x; }

inline Floats to_float(const float* x) { return load<Floats>(x); }
inline Floats to_float(const Bfloat* x) {
  const Bits bits = __builtin_convertvector(load<Halves>(x), Bits) << 16;
  return load<Floats>(&bits);
}

inline Bfloat to_bfloat16(float x) {
  const uint32_t bits = bits_of(x);
  return static_cast<Bfloat>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Copies n floats to the type of the key-value cache.
inline void convert(const float* from, int n, float* to) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}
inline void convert(const float* from, int n, Bfloat* to) {
#pragma omp simd
  for (int i = 0; i < n; ++i) to[i] = to_bfloat16(from[i]);
}

struct Float32 {
  static constexpr int GROUP = 1;
  static constexpr bool SCALED = false;
  using Weight = float;
  using Input = float;
  using CacheType = float;  // the type of cached keys and values
  using Sum = Floats;
  using WeightVector = Floats;
  using Broadcast = Floats;

  static float quantize_row(const float* x, int n, Input* to) {
    convert(x, n, to);
    return 1;
  }
  static float weight(Weight w) { return w; }
  static Broadcast broadcast_inputs(const Input* group) { return broadcast(*group); }
  static WeightVector decode_weights(WeightVector w) { return w; }
  static Sum multiply_add(Sum sum, Broadcast x, WeightVector w) { return sum + x * w; }
  static Floats to_floats(Sum sum) { return sum; }
};

struct Bfloat16 {
  static constexpr int GROUP = 2;
  static constexpr bool SCALED = false;
  using Weight = Bfloat;
  using Input = Bfloat;
  using CacheType = Bfloat;
  using Sum = Floats;

  static float quantize_row(const float* x, int n, Input* to) {
    convert(x, n, to);
    return 1;
  }
  static float weight(Weight w) { return to_float(w); }
  static Floats to_floats(Sum sum) { return sum; }
  template <class WeightVector>
  static WeightVector decode_weights(WeightVector w) {
    return w;
  }

#if defined(__AVX512BF16__)
  using WeightVector = __m512i;
  using Broadcast = __m512i;
  static Broadcast broadcast_inputs(const Input* group) {
    return _mm512_set1_epi32(load<int32_t>(group));
  }
  // Inline assembly: with the intrinsic (_mm512_dpbf16_ps) GCC spills the accumulators to memory,
  // which halves the speed.
  static Sum multiply_add(Sum sum, Broadcast x, WeightVector w) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
#else
  using WeightVector = Bits;
  struct Broadcast {
    Floats first, second;
  };
  static Broadcast broadcast_inputs(const Input* group) {
    return {broadcast(to_float(group[0])), broadcast(to_float(group[1]))};
  }
  static Sum multiply_add(Sum sum, Broadcast x, WeightVector w) {
    const Bits first = w << 16, second = w & 0xffff0000u;
    return sum + x.first * load<Floats>(&first) + x.second * load<Floats>(&second);
  }
#endif
};

// Weights are w = scale * q with q in -127 ... 127 and one scale per output; inputs are quantized
// the same way with one scale per row. Products of q are accumulated exactly in int32.
struct Int8 {
  static constexpr int GROUP = 4;
  static constexpr bool SCALED = true;
  using Weight = int8_t;
  using Input = int8_t;
  using CacheType = Bfloat;

  static float quantize_row(const float* x, int n, Input* to) {
    const float maximum = max_abs(x, n);
    const float scale = maximum == 0 ? 1 : maximum / 127;  // NaN propagates to every output
    const float inverse = 1 / scale;
#pragma omp simd
    for (int i = 0; i < n; ++i) to[i] = static_cast<Input>(round_to_int(x[i] * inverse));
    return scale;
  }
  static float weight(Weight w) { return w; }

#if defined(__AVX512VNNI__)
  // The instruction multiplies unsigned with signed bytes. Weights are therefore decoded as q + 128
  // (zero point 128: the sign bit is flipped), and 128 times the sum of the inputs is subtracted at
  // the end.
  static constexpr int32_t ZERO_POINT = 128;
  using Sum = __m512i;
  struct WeightVector {
    __m512i bytes;
  };
  using Broadcast = __m512i;
  static Broadcast broadcast_inputs(const Input* group) {
    return _mm512_set1_epi32(load<int32_t>(group));
  }
  static __m512i decode_weights(WeightVector w) {
    return _mm512_xor_si512(w.bytes, _mm512_set1_epi8(-128));
  }
  static Sum multiply_add(Sum sum, Broadcast x, __m512i w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));  // inline for the same reason as above
    return sum;
  }
  static Integers to_ints(Sum sum) { return (Integers)sum; }
#elif defined(__AVX2__)
  // The sum of two products fits in 16 bits: 2 * 127 * 127 < 2^15. The instruction requires one
  // unsigned operand, so the sign of the weight is moved to the input.
  static constexpr int32_t ZERO_POINT = 0;
  struct WeightVector {
    __m256i low, high;  // 8 outputs each
  };
  using Sum = WeightVector;
  using Broadcast = __m256i;
  static Broadcast broadcast_inputs(const Input* group) {
    return _mm256_set1_epi32(load<int32_t>(group));
  }
  static WeightVector decode_weights(WeightVector w) { return w; }
  static __m256i multiply_add_half(__m256i sum, Broadcast x, __m256i w) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static Sum multiply_add(Sum sum, Broadcast x, WeightVector w) {
    return {multiply_add_half(sum.low, x, w.low), multiply_add_half(sum.high, x, w.high)};
  }
  static Integers to_ints(Sum sum) { return load<Integers>(&sum); }
#else
  static constexpr int32_t ZERO_POINT = 0;
  struct WeightVector {
    int8_t weights[LANES * GROUP];
  };
  struct Broadcast {
    int32_t inputs[GROUP];
  };
  using Sum = Integers;
  static Broadcast broadcast_inputs(const Input* x) { return {{x[0], x[1], x[2], x[3]}}; }
  static WeightVector decode_weights(WeightVector w) { return w; }
  static Sum multiply_add(Sum sum, Broadcast x, WeightVector w) {
    for (int lane = 0; lane < LANES; ++lane)
      for (int i = 0; i < GROUP; ++i) sum[lane] += x.inputs[i] * w.weights[lane * GROUP + i];
    return sum;
  }
  static Integers to_ints(Sum sum) { return sum; }
#endif
};

}  // namespace jumok
