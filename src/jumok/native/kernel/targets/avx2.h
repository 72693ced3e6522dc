// AVX2 with FMA: 16 registers of 32 bytes; also AVX-VNNI, which multiplies int8 in one instruction.

#pragma once

#include <immintrin.h>

namespace jumok {
constexpr int LANES = 8;
constexpr int TILE_ROWS = 6, TILE_SUMS = 12;  // 6 x 16 outputs; a weight and an input remain
}  // namespace jumok

#include "../simd.h"

namespace jumok {

inline float horizontal_sum(Floats x) {
  const __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

inline Floats half_to_float(const Half* x) { return (Floats)_mm256_cvtph_ps(load<__m128i>(x)); }

using Bfloat16Products = DecodedBfloat16;

#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
// The instruction multiplies unsigned with signed bytes: weights are stored as q + 128, and 128
// times the sum of the inputs is subtracted at the end.
struct Int8Products {
  static constexpr int GROUP = 4, STEPS = 1;
  static constexpr int32_t ZERO_POINT = 128;
  using Input = int8_t;
  using Sum = Integers;
  static Integers finish(Sum sum) { return sum; }
  static int8_t encode(int8_t w) { return static_cast<int8_t>(w ^ -128); }
  static __m256i weights(const int8_t* w, int) { return load<__m256i>(w); }
  static __m256i inputs(const Input* x, int) { return _mm256_set1_epi32(load<int32_t>(x)); }
  static Sum multiply_add(Sum sum, __m256i x, __m256i w) {
#if defined(__AVXVNNI__)
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(x));
#else
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
#endif
    return sum;
  }
};

struct NibbleProducts : Int8Products {
  static constexpr int GROUP = 8, STEPS = 2;  // step 0: the lower four bits, step 1: the upper ones
  static __m256i weights(const int8_t* w, int step) {
    const __m256i pairs = load<__m256i>(w);
    return _mm256_and_si256(step == 0 ? pairs : _mm256_srli_epi16(pairs, 4), _mm256_set1_epi8(15));
  }
  static __m256i inputs(const Input* x, int step) { return Int8Products::inputs(x + 4 * step, 0); }
};
#else
// Weights are widened to int16 and multiplied in pairs, exactly. Multiplying bytes (maddubs) needs
// as many instructions, as the sign of one operand has to be moved to the other: 15 % slower.
struct Int8Products {
  static constexpr int GROUP = 2, STEPS = 1;
  static constexpr int32_t ZERO_POINT = 0;
  using Input = int16_t;
  using Sum = Integers;
  static Integers finish(Sum sum) { return sum; }
  static int8_t encode(int8_t w) { return w; }
  static __m256i weights(const int8_t* w, int) {
    return _mm256_cvtepi8_epi16(load<__m128i>(w));
  }
  static __m256i inputs(const Input* x, int) { return _mm256_set1_epi32(load<int32_t>(x)); }
  static Sum multiply_add(Sum sum, __m256i x, __m256i w) {
    return sum + (Integers)_mm256_madd_epi16(x, w);
  }
};

// Bytes are multiplied and added in pairs to int16; the eight pairs of a block have a sum of at most
// 8 * 2 * 15 * 127 = 30,480, so that one widening is enough for a block.
struct NibbleProducts {
  static constexpr int GROUP = 8, STEPS = 2;  // step 0: the lower four bits, step 1: the upper ones
  using Input = int8_t;
  using Sum = __m256i;
  static Integers finish(Sum sum) { return (Integers)_mm256_madd_epi16(sum, _mm256_set1_epi16(1)); }
  static __m256i weights(const int8_t* w, int step) {
    const __m256i pairs = load<__m256i>(w);
    return _mm256_and_si256(step == 0 ? pairs : _mm256_srli_epi16(pairs, 4), _mm256_set1_epi8(15));
  }
  static __m256i inputs(const Input* x, int step) {
    return _mm256_set1_epi32(load<int32_t>(x + 4 * step));
  }
  static Sum multiply_add(Sum sum, __m256i x, __m256i w) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x));
  }
};
#endif

}  // namespace jumok
