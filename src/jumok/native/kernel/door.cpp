// The door to Python: plain functions over opaque pointers, called with ctypes.

#include <string>

#include "encoder.h"
#include "request.h"

namespace jumok {
namespace {

// A model in one of the three formats, and requests to it, as one who does not know which sees it.
struct AnyRequest {
  virtual ~AnyRequest() = default;
  virtual int read(const int64_t*, const uint8_t*, int, int, int) = 0;
  virtual void begin(const int64_t*, int) = 0;
  virtual int step(const int64_t*, int, bool, float*, int) = 0;
  virtual int best(const int64_t*, int, int, float*, int64_t*, int) = 0;
  virtual int select(const int64_t*, int) = 0;
  virtual void rewind(int) = 0;
};

struct AnyModel {
  virtual ~AnyModel() = default;
  virtual bool linear(const std::string&, int, int, bool) = 0;
  virtual bool rows(const std::string&, int, int, const void*, const float*, const float*) = 0;
  virtual bool vector(const std::string&, size_t, const float*) = 0;
  virtual size_t bytes() const = 0;
  virtual AnyRequest* request() const = 0;
  virtual void encode(float*, const int32_t*, int, const int32_t*, int) const = 0;
};

template <class Format>
struct RequestOf final : AnyRequest {
  Request<Format> request;

  explicit RequestOf(const Transformer<Format>& model) : request(model) {}
  int read(const int64_t* ids, const uint8_t* real, int N, int S, int threads) override {
    return request.read(ids, real, N, S, threads);
  }
  void begin(const int64_t* padding, int N) override { request.begin(padding, N); }
  int step(const int64_t* ids, int T, bool every, float* logits, int threads) override {
    return request.step(ids, T, every, logits, threads);
  }
  int best(const int64_t* ids, int T, int k, float* log_p, int64_t* tokens, int threads) override {
    return request.best(ids, T, k, log_p, tokens, threads);
  }
  int select(const int64_t* order, int n) override { return request.select(order, n); }
  void rewind(int tokens) override { request.rewind(tokens); }
};

template <class Format>
struct ModelOf final : AnyModel {
  Transformer<Format> model;

  explicit ModelOf(const Measures& measures) : model(measures) {}
  bool linear(const std::string& name, int outputs, int inputs, bool biased) override {
    const auto found = model.linears.find(name);
    if (found == model.linears.end()) return false;
    found->second->make(outputs, inputs, biased);
    return true;
  }
  bool rows(const std::string& name, int first, int n, const void* weight, const float* scale,
            const float* bias) override {
    const auto found = model.linears.find(name);
    if (found == model.linears.end()) return false;
    found->second->pack(first, n, static_cast<const typename Format::Weight*>(weight), scale, bias);
    return true;
  }
  bool vector(const std::string& name, size_t size, const float* numbers) override {
    const auto found = model.vectors.find(name);
    if (found == model.vectors.end()) return false;
    *found->second = Array<float>(size);
    std::memcpy(found->second->data(), numbers, size * sizeof(float));
    return true;
  }
  size_t bytes() const override { return model.bytes(); }
  AnyRequest* request() const override { return new RequestOf<Format>(model); }
  void encode(float* x, const int32_t* first, int N, const int32_t* places,
              int threads) const override {
    thread_local Workshop<Format> rooms;
    read_texts(model, rooms, x, first, N, places, threads);
  }
};

// No exception passes through the door: what needs much memory answers that there is none.
template <class Work>
int guarded(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return OUT_OF_MEMORY;
  }
}

}  // namespace
}  // namespace jumok

extern "C" {

using jumok::AnyModel;
using jumok::AnyRequest;

// precision: 0 float32, 1 bfloat16, 2 int8.
AnyModel* jumok_model(const jumok::Measures* measures, int precision) {
  if (precision == 0) return new jumok::ModelOf<jumok::Float32>(*measures);
  if (precision == 1) return new jumok::ModelOf<jumok::Bfloat16>(*measures);
  return new jumok::ModelOf<jumok::Int8>(*measures);
}
void jumok_free_model(AnyModel* model) { delete model; }
int jumok_linear(AnyModel* model, const char* name, int outputs, int inputs, int biased) {
  return jumok::guarded([&] {
    const bool known = model->linear(name, outputs, inputs, biased != 0);
    return known ? jumok::DONE : jumok::NO_SUCH_NAME;
  });
}
int jumok_rows(AnyModel* model, const char* name, int first, int n, const void* weight,
               const float* scale, const float* bias) {
  const bool known = model->rows(name, first, n, weight, scale, bias);
  return known ? jumok::DONE : jumok::NO_SUCH_NAME;
}
int jumok_vector(AnyModel* model, const char* name, int64_t size, const float* numbers) {
  return jumok::guarded([&] {
    const bool known = model->vector(name, static_cast<size_t>(size), numbers);
    return known ? jumok::DONE : jumok::NO_SUCH_NAME;
  });
}
int64_t jumok_bytes(const AnyModel* model) { return static_cast<int64_t>(model->bytes()); }

int jumok_encode(const AnyModel* model, float* x, const int32_t* first, int N, const int32_t* places,
                 int threads) {
  return jumok::guarded([&] {
    model->encode(x, first, N, places, threads);
    return jumok::DONE;
  });
}

AnyRequest* jumok_request(const AnyModel* model) { return model->request(); }
void jumok_free_request(AnyRequest* request) { delete request; }
int jumok_read(AnyRequest* request, const int64_t* ids, const uint8_t* real, int N, int S,
               int threads) {
  return jumok::guarded([&] { return request->read(ids, real, N, S, threads); });
}
int jumok_begin(AnyRequest* request, const int64_t* padding, int N) {
  return jumok::guarded([&] {
    request->begin(padding, N);
    return jumok::DONE;
  });
}
int jumok_step(AnyRequest* request, const int64_t* ids, int T, int every, float* logits,
               int threads) {
  return jumok::guarded([&] { return request->step(ids, T, every != 0, logits, threads); });
}
int jumok_best(AnyRequest* request, const int64_t* ids, int T, int k, float* log_p, int64_t* tokens,
               int threads) {
  return jumok::guarded([&] { return request->best(ids, T, k, log_p, tokens, threads); });
}
int jumok_select(AnyRequest* request, const int64_t* order, int n) {
  return jumok::guarded([&] { return request->select(order, n); });
}
void jumok_rewind(AnyRequest* request, int tokens) { request->rewind(tokens); }

}  // extern "C"
