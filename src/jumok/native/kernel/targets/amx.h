// AMX: eight tiles of 16 rows of 64 bytes, and products of int8 tiles. AVX-512 does all else.
//
// A tile of weights is 16 consecutive groups of one vector, as Linear packs them for AVX-512, and
// the int32 sums are exact: a row has the same bits with tiles and without, so products may use
// either.

#pragma once

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace jumok {

// Tiles 0 to 3 hold sums, 4 and 5 inputs, 6 and 7 weights.
constexpr int AMX_TILE_ROWS = 16, AMX_TILE_INPUTS = 64, AMX_OUTPUTS = 32;

// The tiles of the calling thread while this exists.
class AmxTiles {
 public:
  AmxTiles() {
    static constexpr Configuration all{};
    _tile_loadconfig(&all);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // loads of tiles follow stores of rows
  }
  ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  // Whether the system lets this process use tiles; Linux requires that a process asks.
  static bool are_permitted() {
    constexpr long ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18;
    static const bool permitted =
        syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
    return permitted;
  }

  // sums (16 * TILES, 32) = 16 * TILES rows of inputs, in steps of 64, times 32 outputs.
  template <int TILES>
  void multiply(const int8_t* x, size_t x_stride, const int8_t* w, size_t w_stride, int inputs,
                int32_t* sums) const {
    static_assert(TILES == 1 || TILES == 2);
    constexpr int SUMS_STRIDE = AMX_OUTPUTS * sizeof(int32_t);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int i = 0; i < inputs; i += AMX_TILE_INPUTS) {
      _tile_loadd(6, w, w_stride);
      _tile_loadd(7, w + 64, w_stride);
      _tile_loadd(4, x + i, x_stride);
      _tile_dpbsud(0, 4, 6);
      _tile_dpbsud(1, 4, 7);
      if constexpr (TILES == 2) {
        _tile_loadd(5, x + AMX_TILE_ROWS * x_stride + i, x_stride);
        _tile_dpbsud(2, 5, 6);
        _tile_dpbsud(3, 5, 7);
      }
      w += AMX_TILE_ROWS * w_stride;
    }
    _tile_stored(0, sums, SUMS_STRIDE);
    _tile_stored(1, sums + 16, SUMS_STRIDE);
    if constexpr (TILES == 2) {
      _tile_stored(2, sums + AMX_TILE_ROWS * AMX_OUTPUTS, SUMS_STRIDE);
      _tile_stored(3, sums + AMX_TILE_ROWS * AMX_OUTPUTS + 16, SUMS_STRIDE);
    }
  }

 private:
  struct alignas(64) Configuration {  // the operand of LDTILECFG
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static_assert(sizeof(Configuration) == 64);
};

}  // namespace jumok
