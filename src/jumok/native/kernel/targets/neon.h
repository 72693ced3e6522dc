// ARMv8.2 with the dot product instructions: 32 registers of 16 bytes.

#pragma once

#include <arm_neon.h>

namespace jumok {
constexpr int LANES = 4;
constexpr int TILE_ROWS = 6, TILE_SUMS = 24;  // 6 x 16 outputs
}  // namespace jumok

#include "../simd.h"

namespace jumok {

inline float horizontal_sum(Floats x) { return vaddvq_f32((float32x4_t)x); }

inline Floats half_to_float(const Half* x) { return (Floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x))); }

using Bfloat16Products = DecodedBfloat16;

struct Int8Products {
  static constexpr int GROUP = 4, STEPS = 1;
  static constexpr int32_t ZERO_POINT = 0;
  using Input = int8_t;
  using Sum = Integers;
  static Integers finish(Sum sum) { return sum; }
  static int8_t encode(int8_t w) { return w; }
  static int8x16_t weights(const int8_t* w, int) { return vld1q_s8(w); }
  static int8x16_t inputs(const Input* x, int) {
    return vreinterpretq_s8_s32(vdupq_n_s32(load<int32_t>(x)));
  }
  static Sum multiply_add(Sum sum, int8x16_t x, int8x16_t w) {
    return (Integers)vdotq_s32((int32x4_t)sum, w, x);
  }
};

struct NibbleProducts : Int8Products {
  static constexpr int GROUP = 8, STEPS = 2;  // step 0: the lower four bits, step 1: the upper ones
  static int8x16_t weights(const int8_t* w, int step) {
    const uint8x16_t pairs = vld1q_u8(reinterpret_cast<const uint8_t*>(w));
    return vreinterpretq_s8_u8(step == 0 ? vandq_u8(pairs, vdupq_n_u8(15)) : vshrq_n_u8(pairs, 4));
  }
  static int8x16_t inputs(const Input* x, int step) { return Int8Products::inputs(x + 4 * step, 0); }
};

}  // namespace jumok
