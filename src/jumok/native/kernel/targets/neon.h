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

using Bfloat16Products = DecodedBfloat16;

struct Int8Products {
  static constexpr int GROUP = 4, STEPS = 1;
  static constexpr int32_t ZERO_POINT = 0;
  using Input = int8_t;
  using Sum = Integers;
  static int8_t encode(int8_t w) { return w; }
  static int8x16_t weights(const int8_t* w, int) { return vld1q_s8(w); }
  static int8x16_t inputs(const Input* x, int) {
    return vreinterpretq_s8_s32(vdupq_n_s32(load<int32_t>(x)));
  }
  static Sum multiply_add(Sum sum, int8x16_t x, int8x16_t w) {
    return (Integers)vdotq_s32((int32x4_t)sum, w, x);
  }
};

}  // namespace jumok
