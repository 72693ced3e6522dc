// The weight formats float32, bfloat16, and int8; block_linear.h has those in blocks.
//
// Weights are stored in vectors of LANES outputs times GROUP inputs, which the target multiplies
// with the same inputs of a row in STEPS steps. A format defines how a row of inputs is packed and
// how sums are converted to float; the target defines the products (targets/*.h).

#pragma once

#include JUMOK_TARGET  // chosen by the compiler's flags, see ../build.py

namespace jumok {

struct Float32 {
  static constexpr int GROUP = 1, STEPS = 1;
  static constexpr bool SCALED = false;
  using Weight = float;
  using Input = float;
  using CacheType = float;  // the type of cached keys and values
  using Sum = Floats;

  static float pack_row(const float* x, int n, Input* to) {
    convert(x, n, to);
    return 1;
  }
  static Weight encode(Weight w) { return w; }
  static float decode(Weight w) { return w; }
  static Floats weights(const Weight* w, int) { return load<Floats>(w); }
  static Floats inputs(const Input* x, int) { return broadcast(*x); }
  static Sum multiply_add(Sum sum, Floats x, Floats w) { return sum + x * w; }
};

struct Bfloat16 : Bfloat16Products {
  static constexpr bool SCALED = false;
  using Weight = Bfloat;
  using CacheType = Bfloat;
  using Sum = Floats;

  static float pack_row(const float* x, int n, Input* to) {
    round_row(x, n, to);
    return 1;
  }
  static Weight encode(Weight w) { return w; }
  static float decode(Weight w) { return to_float(w); }
};

// Weights are w = scale * q with q in -127 ... 127 and one scale per output; inputs are quantized
// the same way with one scale per row. Products of q are accumulated exactly in int32.
struct Int8 : Int8Products {
  static constexpr bool SCALED = true;
  using Weight = int8_t;
  using CacheType = Bfloat;

  static float pack_row(const float* x, int n, Input* to) { return quantize_row(x, n, to); }
  static float decode(Weight w) { return encode(w); }  // flipping a bit is its own inverse
};

}  // namespace jumok
