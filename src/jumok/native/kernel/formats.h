// The three formats of weights: float32, bfloat16, and 8-bit integers.
//
// Weights stand in lines of 64 bytes: 16 outputs times a group of inputs that one instruction
// multiplies and sums (1 float, 2 bfloat16, 4 bytes). A format says how a row of numbers is put
// into its own form, how a group meets a line, and how sums become floats again.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "mathematics.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace jumok {

constexpr int LANES = 16;  // outputs of one line

// Compilers make the best of these on any processor: one register, two, or four.
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

inline Floats all(float x) { return x - Floats{}; }

inline float total(Floats x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)x);
#else
  float sum = 0;
  for (int i = 0; i < LANES; ++i) sum += x[i];
  return sum;
#endif
}

#if defined(__AVX512F__)
constexpr int ROWS_AT_ONCE = 6, LINES_AT_ONCE = 4;  // 24 of 32 registers hold sums
#else
constexpr int ROWS_AT_ONCE = 4, LINES_AT_ONCE = 1;
#endif

// bfloat16: the upper half of a float, rounded to nearest even.
using Bfloat = uint16_t;

inline float wide(Bfloat x) { return float_of(static_cast<uint32_t>(x) << 16); }
inline float wide(float x) { return x; }

inline Floats wide(const float* x) { return load<Floats>(x); }
inline Floats wide(const Bfloat* x) {
  const Bits bits = __builtin_convertvector(load<Halves>(x), Bits) << 16;
  return load<Floats>(&bits);
}

inline Bfloat narrow(float x) {
  const uint32_t bits = bits_of(x);
  return static_cast<Bfloat>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// n numbers, in the form in which they are remembered.
inline void keep(const float* from, int n, float* to) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}
inline void keep(const float* from, int n, Bfloat* to) {
#pragma omp simd
  for (int i = 0; i < n; ++i) to[i] = narrow(from[i]);
}

struct Float32 {
  static constexpr int GROUP = 1;
  static constexpr bool SCALED = false;
  using Weight = float;
  using Input = float;
  using Kept = float;  // keys and values are remembered in this
  using Sum = Floats;
  using Line = Floats;
  using Spread = Floats;

  static float prepare(const float* x, int n, Input* to) {
    keep(x, n, to);
    return 1;
  }
  static float weight(Weight w) { return w; }
  static Spread spread(const Input* group) { return all(*group); }
  static Line ready(Line w) { return w; }
  static Sum multiply(Sum sum, Spread x, Line w) { return sum + x * w; }
  static Floats floats(Sum sum) { return sum; }
};

struct Bfloat16 {
  static constexpr int GROUP = 2;
  static constexpr bool SCALED = false;
  using Weight = Bfloat;
  using Input = Bfloat;
  using Kept = Bfloat;
  using Sum = Floats;

  static float prepare(const float* x, int n, Input* to) {
    keep(x, n, to);
    return 1;
  }
  static float weight(Weight w) { return wide(w); }
  static Floats floats(Sum sum) { return sum; }
  template <class Line>
  static Line ready(Line w) {
    return w;
  }

#if defined(__AVX512BF16__)
  using Line = __m512i;
  using Spread = __m512i;
  static Spread spread(const Input* group) { return _mm512_set1_epi32(load<int32_t>(group)); }
  // Named by its instruction: around the compiler's own word for it (_mm512_dpbf16_ps) GCC moves
  // the sums to and from memory, and half of the speed is lost.
  static Sum multiply(Sum sum, Spread x, Line w) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
#else
  using Line = Bits;
  struct Spread {
    Floats first, second;
  };
  static Spread spread(const Input* group) { return {all(wide(group[0])), all(wide(group[1]))}; }
  static Sum multiply(Sum sum, Spread x, Line w) {
    const Bits first = w << 16, second = w & 0xffff0000u;
    return sum + x.first * load<Floats>(&first) + x.second * load<Floats>(&second);
  }
#endif
};

// Weights are w = scale * q with q in -127 ... 127 and a scale for each output; a row of inputs is
// put so too, with a scale for each row. Products of the q are summed exactly in 32 bits.
struct Int8 {
  static constexpr int GROUP = 4;
  static constexpr bool SCALED = true;
  using Weight = int8_t;
  using Input = int8_t;
  using Kept = Bfloat;

  static float prepare(const float* x, int n, Input* to) {
    const float most = largest_size(x, n);
    const float scale = most == 0 ? 1 : most / 127;  // NaN stays, and goes on to every output
    const float inverse = 1 / scale;
#pragma omp simd
    for (int i = 0; i < n; ++i) to[i] = static_cast<Input>(rounded(x[i] * inverse));
    return scale;
  }
  static float weight(Weight w) { return w; }

#if defined(__AVX512VNNI__)
  // The instruction multiplies unsigned with signed bytes. So weights come as q + 128, which turns
  // over their first bit, and 128 times the sum of the row's inputs is taken away at the end.
  static constexpr int32_t EXCESS = 128;
  using Sum = __m512i;
  struct Line {
    __m512i lines;
  };
  using Spread = __m512i;
  static Spread spread(const Input* group) { return _mm512_set1_epi32(load<int32_t>(group)); }
  static __m512i ready(Line w) { return _mm512_xor_si512(w.lines, _mm512_set1_epi8(-128)); }
  static Sum multiply(Sum sum, Spread x, __m512i w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));  // as above
    return sum;
  }
  static Integers integers(Sum sum) { return (Integers)sum; }
#elif defined(__AVX2__)
  // Pairs of products fit 16 bits: 2 * 127 * 127 < 2^15. The instruction wants one side unsigned,
  // so the weight gives its sign to the input.
  static constexpr int32_t EXCESS = 0;
  struct Line {
    __m256i low, high;  // 8 outputs each
  };
  using Sum = Line;
  using Spread = __m256i;
  static Spread spread(const Input* group) { return _mm256_set1_epi32(load<int32_t>(group)); }
  static Line ready(Line w) { return w; }
  static __m256i half(__m256i sum, Spread x, __m256i w) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static Sum multiply(Sum sum, Spread x, Line w) {
    return {half(sum.low, x, w.low), half(sum.high, x, w.high)};
  }
  static Integers integers(Sum sum) { return load<Integers>(&sum); }
#else
  static constexpr int32_t EXCESS = 0;
  struct Line {
    int8_t weights[LANES * GROUP];
  };
  struct Spread {
    int32_t inputs[GROUP];
  };
  using Sum = Integers;
  static Spread spread(const Input* x) { return {{x[0], x[1], x[2], x[3]}}; }
  static Line ready(Line w) { return w; }
  static Sum multiply(Sum sum, Spread x, Line w) {
    for (int lane = 0; lane < LANES; ++lane)
      for (int i = 0; i < GROUP; ++i) sum[lane] += x.inputs[i] * w.weights[lane * GROUP + i];
    return sum;
  }
  static Integers integers(Sum sum) { return sum; }
#endif
};

}  // namespace jumok
