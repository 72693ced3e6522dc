// The C API of what only a training computes, called from Python with ctypes. A library of its
// own, which compiles in seconds.

#include JUMOK_TARGET

#include "training/adamw.h"
#include "training/cross_entropy.h"
#include "training/rotation.h"
#include "training/short_attention.h"

using namespace jumok;

#pragma GCC visibility push(default)  // all else is hidden

extern "C" {

// The OpenMP runtime of PyTorch; without a call every loop runs in the calling thread.
void jumok_use_openmp(void* parallel, void* thread_number, void* team_size) {
  openmp = {reinterpret_cast<decltype(OpenMp::parallel)>(parallel),
            reinterpret_cast<int (*)()>(thread_number), reinterpret_cast<int (*)()>(team_size)};
}

void jumok_adamw(const AdamWTensor* tensors, int n, const AdamWSettings* settings, int threads) {
  adamw(tensors, n, *settings, threads);
}

double jumok_square_sum(const float* const* tensors, const int64_t* sizes, int n, int threads) {
  return square_sum(tensors, sizes, n, threads);
}

int jumok_cross_entropy(int is_bfloat16, const void* logits, const int64_t* targets, int64_t N,
                        int V, float smoothing, void* gradient, float* losses, int threads) {
  return is_bfloat16
             ? cross_entropy(static_cast<const Bfloat*>(logits), targets, N, V, smoothing,
                             static_cast<Bfloat*>(gradient), losses, threads)
             : cross_entropy(static_cast<const float*>(logits), targets, N, V, smoothing,
                             static_cast<float*>(gradient), losses, threads);
}

void jumok_short_attention(int is_backward, const AttentionCall* call, int threads) {
  attend_all(*call, is_backward, threads);
}

void jumok_rotate(float* x, const float* cosine, const float* sine, int64_t rows, int64_t angles,
                  int64_t stride, int width, int K, float sign, int threads) {
  rotate(x, cosine, sine, rows, angles, stride, width, K, sign, threads);
}

}  // extern "C"

#pragma GCC visibility pop
