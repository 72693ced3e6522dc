// Checks one target of the kernel against plain loops; prints "ok" or what differs.

#include <cstdio>
#include <limits>
#include <vector>

#include "encoder.h"

using namespace jumok;

namespace {

constexpr int OUTPUTS = 150, ROWS = 85;  // multiples of no vector or tile
int INPUTS;                              // first 83, likewise, then 192, which tiles of AMX need
constexpr float NOT_FINITE[] = {std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()};
int failures = 0;

void check(bool condition, const char* format, const char* what) {
  if (!condition && ++failures) std::printf("%s: %s\n", format, what);
}

float random_float() {
  static uint32_t state = 1;
  state = state * 1664525 + 1013904223;
  return static_cast<float>(state >> 8) / (1 << 23) - 1;  // -1 ... 1
}

std::vector<float> random_floats(int n) {
  std::vector<float> x(n);
  for (float& each : x) each = random_float();
  return x;
}

template <class Format>
std::vector<float> multiply(const Linear<Format>& linear, const std::vector<float>& x, int first,
                            int rows, int threads) {
  PackedInputs<Format> inputs;
  inputs.reserve(rows, INPUTS);
  for (int row = 0; row < rows; ++row) inputs.pack(row, x.data() + (first + row) * INPUTS, INPUTS);
  std::vector<float> y(static_cast<size_t>(rows) * OUTPUTS);
  matmul(linear, inputs, rows, threads, {y.data(), OUTPUTS});
  return y;
}

// Products with the exact weights are within `tolerance`; no row depends on the others or on the
// number of threads; infinity and NaN stay in their row and are never finite.
template <class Format>
void check_products(const char* name, const Linear<Format>& linear, const std::vector<float>& exact,
                    const std::vector<float>& bias, float tolerance) {
  const std::vector<float> x = random_floats(ROWS * INPUTS);
  const std::vector<float> y = multiply(linear, x, 0, ROWS, 1);
  for (int r = 0; r < ROWS; ++r)
    for (int o = 0; o < OUTPUTS; ++o) {
      double sum = bias[o];
      for (int i = 0; i < INPUTS; ++i) sum += double{exact[o * INPUTS + i]} * x[r * INPUTS + i];
      check(std::fabs(sum - y[r * OUTPUTS + o]) < tolerance, name, "a product");
    }
  check(multiply(linear, x, 0, ROWS, 3) == y, name, "a product of several threads");
  for (int rows = 1; rows < 8; ++rows)
    for (int first = 0; first + rows <= ROWS; first += rows) {
      const std::vector<float> part = multiply(linear, x, first, rows, 1);
      check(std::equal(part.begin(), part.end(), y.begin() + first * OUTPUTS), name,
            "a row in another batch");
    }
  for (const float bad : NOT_FINITE) {
    std::vector<float> changed = x;
    changed[3 * INPUTS + 5] = bad;
    const std::vector<float> z = multiply(linear, changed, 0, ROWS, 1);
    for (int i = 0; i < ROWS * OUTPUTS; ++i)
      check(i / OUTPUTS == 3 ? !std::isfinite(z[i]) : z[i] == y[i], name, "a row with infinity");
  }
  std::vector<float> tiny(x), huge(x);  // the scale of int8 must not overflow or vanish
  for (float& each : tiny) each *= 1e-40f;
  for (float& each : huge) each *= 3e38f;
  for (const float each : multiply(linear, tiny, 0, ROWS, 1))
    check(std::isfinite(each), name, "a product of tiny inputs");
  const std::vector<float> overflown = multiply(linear, huge, 0, ROWS, 1);
  for (size_t i = 0; i < y.size(); ++i)
    check(!std::isfinite(overflown[i]) || std::fabs(overflown[i] / 3e38f - (y[i] - bias[i % OUTPUTS])) < 2 * tolerance,
          name, "a product of huge inputs");
}

// Packed weights of one format and its products.
template <class Format>
void check_linear(const char* name, float tolerance) {
  using Weight = typename Format::Weight;
  std::vector<Weight> packed(OUTPUTS * INPUTS);
  std::vector<float> exact(packed.size()), scales(OUTPUTS, 1.0f), bias = random_floats(OUTPUTS);
  for (size_t i = 0; i < packed.size(); ++i) {
    const float w = random_float();
    if constexpr (Format::SCALED) {
      packed[i] = static_cast<Weight>(round_to_int(w * 127));
      scales[i / INPUTS] = 1.0f / 127;
      exact[i] = packed[i] * scales[i / INPUTS];
    } else {
      convert(&w, 1, &packed[i]);
      exact[i] = to_float(packed[i]);
    }
  }
  packed[0] = static_cast<Weight>(Format::SCALED ? -127 : packed[0]);
  exact[0] = Format::SCALED ? -1 : exact[0];
  Linear<Format> linear;
  linear.allocate(OUTPUTS, INPUTS, true);
  linear.pack(0, OUTPUTS, packed.data(), scales.data(), bias.data());
  std::vector<float> row(INPUTS);
  linear.unpack_row(1, 1, row.data());
  for (int i = 0; i < INPUTS; ++i) check(row[i] == exact[INPUTS + i], name, "an unpacked weight");
  check_products(name, linear, exact, bias, tolerance);
}

// The same of weights in blocks of 32 inputs, made here as a file has them: `bits` 8 or 4.
template <class Format>
void check_blocks(const char* name, int bits, float tolerance) {
  using Map = Linear<Format>;
  const int blocks = blocks_of(INPUTS), offset = bits == 4 ? 8 : 0;
  constexpr Half SCALES[] = {0x2800, 0xa801, 0x0001, 0x03ff, 0x8000, 0x2c55};  // subnormal, negative
  constexpr float VALUES[] = {1.0f / 32, -1025.0f / 32768, 1.0f / (1 << 24), 1023.0f / (1 << 24), 0,
                              1109.0f / 16384};
  std::vector<uint8_t> rows(static_cast<size_t>(OUTPUTS) * blocks * Map::ROW_BLOCK);
  std::vector<float> exact(OUTPUTS * INPUTS), bias = random_floats(OUTPUTS);
  for (int o = 0; o < OUTPUTS; ++o)
    for (int block = 0; block < blocks; ++block) {
      uint8_t* to = rows.data() + (static_cast<size_t>(o) * blocks + block) * Map::ROW_BLOCK;
      const int which = (o + block) % 6;
      std::memcpy(to, SCALES + which, 2);
      check(half_to_float(SCALES[which]) == VALUES[which], name, "a scale");
      for (int i = 0; i < BLOCK_INPUTS && block * BLOCK_INPUTS + i < INPUTS; ++i) {
        const int limit = bits == 8 ? 127 : 8;
        int q = round_to_int(random_float() * static_cast<float>(limit));
        if (bits == 4 && q == 8) q = 7;
        exact[o * INPUTS + block * BLOCK_INPUTS + i] = static_cast<float>(q) * VALUES[which];
        if (bits == 8)
          to[2 + i] = static_cast<uint8_t>(q);
        else
          to[2 + i % 16] |= static_cast<uint8_t>((q + offset) << (i < 16 ? 0 : 4));
      }
    }
  Map linear;
  linear.allocate(OUTPUTS, INPUTS, true);
  const size_t row_bytes = static_cast<size_t>(blocks) * Map::ROW_BLOCK;
  linear.pack(0, 70, rows.data(), nullptr, bias.data());
  linear.pack(70, OUTPUTS - 70, rows.data() + 70 * row_bytes, nullptr, bias.data() + 70);
  check(linear.weights.bytes() == row_bytes * linear.panels * PANEL_OUTPUTS, name, "the bytes");
  std::vector<float> row(INPUTS);
  for (int o = 0; o < OUTPUTS; ++o) {
    linear.unpack_row(o, 1, row.data());
    for (int i = 0; i < INPUTS; ++i)
      check(row[i] == exact[o * INPUTS + i], name, "an unpacked weight");
  }
  check_products(name, linear, exact, bias, tolerance);
}

// Attention of one head of D elements to S keys, by the loop for one query and by that for many,
// which also reads windows of W keys on each side.
template <class Format>
void check_attention(int S, int D) {
  const double tolerance = sizeof(typename Format::Input) == 4 ? 1e-5 : 2e-2;  // bfloat16 inputs
  const std::vector<float> q = random_floats(S * D), k = random_floats(S * D),
                           v = random_floats(S * D);
  std::vector<float> one(S * D), many(S * D), keys_and_values(k);
  keys_and_values.insert(keys_and_values.end(), v.begin(), v.end());
  const size_t stride = D;
  HeadAttention<Format> attend;
  const int W = std::min(S, 3);
  std::vector<float> local(S * D);
  attend({q.data(), k.data(), v.data(), stride, S, D, S, 0.3f, many.data(), stride}, [](int, float*) {});
  attend({q.data(), k.data(), v.data(), stride, S, D, W, 0.3f, local.data(), stride}, [](int, float*) {});
  for (int t = 0; t < S; ++t) {
    attend_one(
        q.data() + t * D, D, S, [&](int s) { return keys_and_values.data() + s * D; }, S * D, 0.3f,
        nullptr, one.data() + t * D);
    std::vector<double> weights(S);
    double sum = 0, sum_near = 0;
    const auto is_near = [&](int s) { return std::abs(s - t) < W; };
    for (int s = 0; s < S; ++s) {
      double score = 0;
      for (int i = 0; i < D; ++i) score += double{q[t * D + i]} * k[s * D + i];
      sum += weights[s] = std::exp(0.3 * score);
      sum_near += is_near(s) ? weights[s] : 0;
    }
    for (int i = 0; i < D; ++i) {
      double y = 0, y_near = 0;
      for (int s = 0; s < S; ++s) {
        y += weights[s] / sum * v[s * D + i];
        y_near += is_near(s) ? weights[s] / sum_near * v[s * D + i] : 0;
      }
      check(std::fabs(y - one[t * D + i]) < 1e-5, "attention", "of one query");
      check(std::fabs(y - many[t * D + i]) < tolerance, "attention", "of many queries");
      check(std::fabs(y_near - local[t * D + i]) < tolerance, "attention", "within a window");
    }
  }
}

// Infinity and NaN never become finite in a function of a row.
void check_elementary_functions() {
  for (const float bad : NOT_FINITE) {
    for (int32_t activation = 0; activation < 4; ++activation) {
      std::vector<float> x = random_floats(19);
      x[7] = bad;
      activate(static_cast<Activation>(activation), x.data(), nullptr, 19);
      check(!std::isfinite(x[7]), "activation", "of infinity");
    }
    std::vector<float> x = random_floats(19);
    x[7] = bad;
    check(!std::isfinite(log_sum_exp(x.data(), 19)), "log_sum_exp", "of infinity");
    check(!std::isfinite(exp_minus_max(x.data(), 19, max_of(x.data(), 19))), "softmax",
          "of infinity");
    Bfloat rounded;
    convert(&bad, 1, &rounded);
    check(!std::isfinite(to_float(rounded)), "bfloat16", "of infinity");
  }
  check(std::isnan(to_float(to_bfloat16(float_of(0x7fffffffu)))), "bfloat16", "of another NaN");
  ModelDims dims{};
  dims.d_model = 19;
  for (dims.rms = 0; dims.rms < 2; ++dims.rms)
    for (const float bad : {NOT_FINITE[0], NOT_FINITE[1], 3e38f}) {
      Norm norm;
      norm.weight = Array<float>(19);
      for (int i = 0; i < 19; ++i) norm.weight[i] = 1;
      std::vector<float> x = random_floats(19), y(19);
      x[7] = bad;
      norm(dims, x.data(), y.data());
      for (const float each : y) check(!std::isfinite(each), "norm", "of infinity");
    }
}

}  // namespace

int main() {
  for (const int inputs : {83, 192}) {
    INPUTS = inputs;
    check_linear<Float32>("float32", 2e-5f);
    check_linear<Bfloat16>("bfloat16", 0.2f);  // inputs have 8 bits
    check_linear<Int8>("int8", 0.2f);          // and here 7 bits of the largest
    check_blocks<Q8_0>("q8_0", 8, 0.5f);       // with weights of up to 8
    check_blocks<Q4_0>("q4_0", 4, 0.05f);      // and of up to 0.5
  }
  for (const auto& [S, D] : {std::pair{13, 40}, {70, 67}, {1, 1}}) {
    check_attention<Float32>(S, D);
    check_attention<AttentionFormat<Int8>>(S, D);
  }
  check_elementary_functions();
  if (failures == 0) std::puts("ok");
  return failures != 0;
}
