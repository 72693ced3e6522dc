// AVX-512 (F, BW, DQ, VL): 32 registers of 64 bytes; also its VNNI for int8 and its BF16, and AMX.
//
// Instructions that accumulate are inline assembly: with the intrinsics GCC spills the sums to
// memory, which halves the speed.

#pragma once

#include <immintrin.h>

namespace jumok {
constexpr int LANES = 16;
constexpr int TILE_ROWS = 6, TILE_SUMS = 24;  // 6 x 64 outputs
}  // namespace jumok

#include "../simd.h"

#if defined(__AMX_INT8__)
#include "amx.h"
#endif

namespace jumok {

inline float horizontal_sum(Floats x) { return _mm512_reduce_add_ps(x); }

inline Floats half_to_float(const Half* x) { return (Floats)_mm512_cvtph_ps(load<__m256i>(x)); }

#if defined(__AVX512BF16__)
struct Bfloat16Products {
  static constexpr int GROUP = 2, STEPS = 1;
  using Input = Bfloat;
  static void round_row(const float* x, int n, Input* to) { convert(x, n, to); }
  static __m512i weights(const Bfloat* w, int) { return load<__m512i>(w); }
  static __m512i inputs(const Input* x, int) { return _mm512_set1_epi32(load<int32_t>(x)); }
  static Floats multiply_add(Floats sum, __m512i x, __m512i w) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
};
#else
using Bfloat16Products = DecodedBfloat16;
#endif

#if defined(__AVX512VNNI__)
// The instruction multiplies unsigned with signed bytes: weights are stored as q + 128, and 128
// times the sum of the inputs is subtracted at the end.
struct Int8Products {
  static constexpr int GROUP = 4, STEPS = 1;
  static constexpr int32_t ZERO_POINT = 128;
  using Input = int8_t;
  using Sum = Integers;
  static Integers finish(Sum sum) { return sum; }
  static int8_t encode(int8_t w) { return static_cast<int8_t>(w ^ -128); }
  static __m512i weights(const int8_t* w, int) { return load<__m512i>(w); }
  static __m512i inputs(const Input* x, int) { return _mm512_set1_epi32(load<int32_t>(x)); }
  static Sum multiply_add(Sum sum, __m512i x, __m512i w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
  }
};

struct NibbleProducts : Int8Products {
  static constexpr int GROUP = 8, STEPS = 2;  // step 0: the lower four bits, step 1: the upper ones
  static __m512i weights(const int8_t* w, int step) {
    const __m512i pairs = load<__m512i>(w);
    return _mm512_and_si512(step == 0 ? pairs : _mm512_srli_epi16(pairs, 4), _mm512_set1_epi8(15));
  }
  static __m512i inputs(const Input* x, int step) { return Int8Products::inputs(x + 4 * step, 0); }
};
#else
// Weights are widened to int16 and multiplied in pairs, exactly.
struct Int8Products {
  static constexpr int GROUP = 2, STEPS = 1;
  static constexpr int32_t ZERO_POINT = 0;
  using Input = int16_t;
  using Sum = Integers;
  static Integers finish(Sum sum) { return sum; }
  static int8_t encode(int8_t w) { return w; }
  static __m512i weights(const int8_t* w, int) {
    return _mm512_cvtepi8_epi16(load<__m256i>(w));
  }
  static __m512i inputs(const Input* x, int) { return _mm512_set1_epi32(load<int32_t>(x)); }
  static Sum multiply_add(Sum sum, __m512i x, __m512i w) {
    return sum + (Integers)_mm512_madd_epi16(x, w);
  }
};

// As in avx2.h: the eight int16 pairs of a block do not overflow.
struct NibbleProducts {
  static constexpr int GROUP = 8, STEPS = 2;
  using Input = int8_t;
  using Sum = __m512i;
  static Integers finish(Sum sum) { return (Integers)_mm512_madd_epi16(sum, _mm512_set1_epi16(1)); }
  static __m512i weights(const int8_t* w, int step) {
    const __m512i pairs = load<__m512i>(w);
    return _mm512_and_si512(step == 0 ? pairs : _mm512_srli_epi16(pairs, 4), _mm512_set1_epi8(15));
  }
  static __m512i inputs(const Input* x, int step) {
    return _mm512_set1_epi32(load<int32_t>(x + 4 * step));
  }
  static Sum multiply_add(Sum sum, __m512i x, __m512i w) {
    return _mm512_add_epi16(sum, _mm512_maddubs_epi16(w, x));
  }
};
#endif

}  // namespace jumok
