// Every processor: vectors of 16 bytes, which compilers map to SSE2, NEON, the SIMD128 of WebAssembly
// or scalar code.

#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

namespace jumok {
constexpr int LANES = 4;
#if defined(__wasm_simd128__)  // its engines have 16 registers on x86-64: 12 sums, 2 weights, an input
constexpr int TILE_ROWS = 6, TILE_SUMS = 12;
#else
constexpr int TILE_ROWS = 4, TILE_SUMS = 8;  // of 16 registers
#endif
}  // namespace jumok

#include "../simd.h"

namespace jumok {

inline float horizontal_sum(Floats x) { return (x[0] + x[2]) + (x[1] + x[3]); }

inline Floats half_to_float(const Half* x) { return decode_halves(x); }

using Bfloat16Products = DecodedBfloat16;

using Shorts = int16_t __attribute__((vector_size(4 * LANES)));
using PairBytes = int8_t __attribute__((vector_size(2 * LANES)));

inline Integers broadcast_pair(const int16_t* x) { return load<int32_t>(x) - Integers{}; }

inline Shorts widen(const int8_t* w) {
  return __builtin_convertvector(load<PairBytes>(w), Shorts);
}

// x[2i] * w[2i] + x[2i + 1] * w[2i + 1] for each lane i, exactly.
inline Integers multiply_pairs(Integers x, Shorts w) {
#if defined(__SSE2__)
  return (Integers)_mm_madd_epi16((__m128i)x, (__m128i)w);
#elif defined(__aarch64__)
  const int16x8_t a = (int16x8_t)x, b = (int16x8_t)w;
  return (Integers)vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
#elif defined(__wasm_simd128__)
  return (Integers)wasm_i32x4_dot_i16x8((v128_t)x, (v128_t)w);
#else
  const Integers pairs = (Integers)w;
  return (x << 16 >> 16) * (pairs << 16 >> 16) + (x >> 16) * (pairs >> 16);
#endif
}

// Weights are widened to int16 and multiplied in pairs: a product of int32 takes SSE2 six
// instructions.
struct Int8Products {
  static constexpr int GROUP = 2, STEPS = 1;
  static constexpr int32_t ZERO_POINT = 0;
  using Input = int16_t;
  using Sum = Integers;
  static Integers finish(Sum sum) { return sum; }
  static int8_t encode(int8_t w) { return w; }
  static Shorts weights(const int8_t* w, int) { return widen(w); }
  static Integers inputs(const Input* x, int) { return broadcast_pair(x); }
  static Sum multiply_add(Sum sum, Integers x, Shorts w) { return sum + multiply_pairs(x, w); }
};

struct NibbleProducts : Int8Products {
  static constexpr int GROUP = 4, STEPS = 2;  // step 0: the lower four bits, step 1: the upper ones
  static Shorts weights(const int8_t* w, int step) {
    const Shorts pairs = widen(w);
    return (step == 0 ? pairs : pairs >> 4) & 15;
  }
  static Integers inputs(const Input* x, int step) { return broadcast_pair(x + 2 * step); }
};

}  // namespace jumok
