// Every processor: vectors of 16 bytes, which compilers map to SSE2, NEON or scalar code.

#pragma once

namespace jumok {
constexpr int LANES = 4;
constexpr int TILE_ROWS = 4, TILE_SUMS = 8;  // of 16 registers
}  // namespace jumok

#include "../simd.h"

namespace jumok {

inline float horizontal_sum(Floats x) { return (x[0] + x[2]) + (x[1] + x[3]); }

inline Floats half_to_float(const Half* x) { return decode_halves(x); }

using Bfloat16Products = DecodedBfloat16;

struct Int8Products {
  static constexpr int GROUP = 1, STEPS = 1;
  static constexpr int32_t ZERO_POINT = 0;
  using Input = int32_t;
  using Sum = Integers;
  static Integers finish(Sum sum) { return sum; }
  static int8_t encode(int8_t w) { return w; }
  static Integers weights(const int8_t* w, int) {
    return __builtin_convertvector(load<Bytes>(w), Integers);
  }
  static Integers inputs(const Input* x, int) { return *x - Integers{}; }
  static Sum multiply_add(Sum sum, Integers x, Integers w) { return sum + x * w; }
};

struct NibbleProducts : Int8Products {
  static constexpr int GROUP = 2, STEPS = 2;  // step 0: the lower four bits, step 1: the upper ones
  static Integers weights(const int8_t* w, int step) {
    const Integers pairs = __builtin_convertvector(load<Bytes>(w), Integers);
    return (step == 0 ? pairs : pairs >> 4) & 15;
  }
  static Integers inputs(const Input* x, int step) { return x[step] - Integers{}; }
};

}  // namespace jumok
