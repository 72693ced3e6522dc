// The C API: functions over opaque pointers, called from Python with ctypes.

#include <memory>
#include <string>

#include "request.h"
#include "search.h"
#include "text_encoder.h"

namespace jumok {
namespace {

struct AnyRequest;

// One request's step among several. Must match StepCall in src/jumok/native/library.py.
struct StepCall {
  AnyRequest* request;
  const int64_t* ids;  // (B, T)
  int32_t T;
};

// Type-erased model and request: the weight format is chosen at run time.
struct AnyRequest : RowDecoder {
  virtual int encode_sources(const int32_t*, const int32_t*, int, int) = 0;
  virtual int step_together(const StepCall*, int, float*, int) = 0;
  virtual int top_k(const int64_t*, int, int, float*, int64_t*, int) = 0;
  virtual void rewind(int) = 0;
  virtual void record_attention(bool, const int32_t*, int) = 0;
  virtual const AttentionRecorder& recorder() const = 0;
  virtual void record_encoder(float*) = 0;

  std::unique_ptr<Search> search;
};

struct AnyModel {
  virtual ~AnyModel() = default;
  virtual bool allocate_linear(const std::string&, int, int, bool) = 0;
  virtual bool set_rows(const std::string&, int, int, const void*, const float*, const float*) = 0;
  virtual bool set_vector(const std::string&, size_t, const float*) = 0;
  virtual void set_decoder_layer(int, int, int) = 0;
  virtual size_t bytes() const = 0;
  virtual AnyRequest* request() const = 0;
  virtual void encode(float*, const int32_t*, int, const int32_t*, int) const = 0;
  virtual void set_tokens(const EmbeddingTable&) = 0;
  virtual int encode_ids(const EncoderInput&, const int32_t*, int, float*, int, float*) const = 0;
  virtual const Linear<Float32>* head(const std::string&) const = 0;
};

constexpr const char* HEAD = "head.";  // the beginning of the names of linear maps of heads

template <class Format>
struct RequestOf final : AnyRequest {
  Request<Format> request;

  explicit RequestOf(const Transformer<Format>& model) : request(model) {}
  int encode_sources(const int32_t* ids, const int32_t* offsets, int N, int threads) override {
    return request.encode_sources(ids, offsets, N, threads);
  }
  int vocabulary() const override { return request.vocabulary(); }
  void reset(const int64_t* padding, int N) override { request.reset(padding, N); }
  int step(const int64_t* ids, int T, bool all_positions, float* logits, int threads) override {
    return request.step(ids, T, all_positions, logits, threads);
  }
  int step_together(const StepCall* calls, int n, float* logits, int threads) override {
    std::vector<typename Request<Format>::Step> steps;
    size_t first_row = 0;
    for (int i = 0; i < n; ++i) {
      Request<Format>& one = static_cast<RequestOf*>(calls[i].request)->request;
      steps.push_back({&one, calls[i].ids, calls[i].T, first_row});
      first_row += one.n_rows();
    }
    return request.step_together(steps, false, logits, threads);
  }
  int top_k(const int64_t* ids, int T, int k, float* log_p, int64_t* tokens, int threads) override {
    return request.top_k(ids, T, k, log_p, tokens, threads);
  }
  int reorder(const int64_t* order, int n) override { return request.reorder(order, n); }
  void rewind(int tokens) override { request.rewind(tokens); }
  void record_attention(bool cross, const int32_t* heads, int n) override {
    request.record_attention(cross, heads, n);
  }
  const AttentionRecorder& recorder() const override { return request.recorder(); }
  void record_encoder(float* weights) override { request.record_encoder(weights); }
};

template <class Format>
struct ModelOf final : AnyModel {
  Transformer<Format> model;

  explicit ModelOf(const ModelDims& dims) : model(dims) {}
  bool allocate_linear(const std::string& name, int outputs, int inputs, bool biased) override {
    if (name.rfind(HEAD, 0) == 0) {
      model.heads[name].allocate(outputs, inputs, biased);
      return true;
    }
    const auto found = model.linears.find(name);
    if (found == model.linears.end()) return false;
    found->second->allocate(outputs, inputs, biased);
    return true;
  }
  bool set_rows(const std::string& name, int first, int n, const void* weight, const float* scale,
                const float* bias) override {
    if (const auto head = model.heads.find(name); head != model.heads.end()) {
      head->second.pack(first, n, static_cast<const float*>(weight), nullptr, bias);
      return true;
    }
    const auto found = model.linears.find(name);
    if (found == model.linears.end()) return false;
    found->second->pack(first, n, static_cast<const typename Format::Weight*>(weight), scale, bias);
    return true;
  }
  bool set_vector(const std::string& name, size_t size, const float* values) override {
    const auto found = model.vectors.find(name);
    if (found == model.vectors.end()) return false;
    *found->second = Array<float>(size);
    std::memcpy(found->second->data(), values, size * sizeof(float));
    return true;
  }
  void set_decoder_layer(int index, int window, int rotary) override {
    Layer<Format>& layer = model.decoder.layers[index];
    layer.window = window;
    layer.rotary = static_cast<Rotary>(rotary);
  }
  size_t bytes() const override { return model.bytes(); }
  AnyRequest* request() const override { return new RequestOf<Format>(model); }
  void encode(float* x, const int32_t* offsets, int N, const int32_t* positions,
              int threads) const override {
    if constexpr (!IS_BLOCKS<Format>) {  // an encoder has no such precision
      encode_embedded(model, x, offsets, N, positions, threads);
    }
  }
  void set_tokens(const EmbeddingTable& table) override { model.tokens = table; }
  int encode_ids(const EncoderInput& input, const int32_t* offsets, int N, float* hidden,
                 int threads, float* record) const override {
    if constexpr (!IS_BLOCKS<Format>)
      return jumok::encode_ids(model, input, offsets, N, hidden, threads, record);
    return NO_SUCH_NAME;
  }
  const Linear<Float32>* head(const std::string& name) const override {
    const auto found = model.heads.find(name);
    return found == model.heads.end() ? nullptr : &found->second;
  }
};

// No exception crosses the C API: functions that allocate return OUT_OF_MEMORY instead.
template <class Work>
int catch_bad_alloc(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return OUT_OF_MEMORY;
  }
}

}  // namespace
}  // namespace jumok

#pragma GCC visibility push(default)  // all else is hidden

extern "C" {

using jumok::AnyModel;
using jumok::AnyRequest;
using jumok::StepCall;

// precision: 0 float32, 1 bfloat16, 2 int8, 3 q8_0, 4 q4_0; null for another one.
AnyModel* jumok_create_model(const jumok::ModelDims* dims, int precision) {
  if (precision == 0) return new jumok::ModelOf<jumok::Float32>(*dims);
  if (precision == 2) return new jumok::ModelOf<jumok::Int8>(*dims);
#if !defined(__wasm__)  // pages hold the other two only: half the size
  if (precision == 1) return new jumok::ModelOf<jumok::Bfloat16>(*dims);
  if (precision == 3) return new jumok::ModelOf<jumok::Q8_0>(*dims);
  if (precision == 4) return new jumok::ModelOf<jumok::Q4_0>(*dims);
#endif
  return nullptr;
}
void jumok_free_model(AnyModel* model) { delete model; }
int jumok_allocate_linear(AnyModel* model, const char* name, int outputs, int inputs, int biased) {
  return jumok::catch_bad_alloc([&] {
    const bool exists = model->allocate_linear(name, outputs, inputs, biased != 0);
    return exists ? jumok::OK : jumok::NO_SUCH_NAME;
  });
}
int jumok_set_rows(AnyModel* model, const char* name, int first, int n, const void* weight,
                   const float* scale, const float* bias) {
  const bool exists = model->set_rows(name, first, n, weight, scale, bias);
  return exists ? jumok::OK : jumok::NO_SUCH_NAME;
}
// Sizes are 32 bits: JavaScript passes no int64 to WebAssembly.
int jumok_set_vector(AnyModel* model, const char* name, uint32_t size, const float* values) {
  return jumok::catch_bad_alloc([&] {
    const bool exists = model->set_vector(name, size, values);
    return exists ? jumok::OK : jumok::NO_SUCH_NAME;
  });
}
// window: keys that a query attends to, or 0; rotary: 0 none, 1 shared, 2 local.
void jumok_set_decoder_layer(AnyModel* model, int layer, int window, int rotary) {
  model->set_decoder_layer(layer, window, rotary);
}
size_t jumok_weight_bytes(const AnyModel* model) { return model->bytes(); }

int jumok_encode(const AnyModel* model, float* x, const int32_t* offsets, int N,
                 const int32_t* positions, int threads) {
  return jumok::catch_bad_alloc([&] {
    model->encode(x, offsets, N, positions, threads);
    return jumok::OK;
  });
}

// The token vectors (rows, width) of an encoder, which stay in the memory of the caller: it must
// outlive the model. type: 0 float32, 1 bfloat16, 2 float16, 3 int8 with scales (rows).
void jumok_set_tokens(AnyModel* model, int type, int rows, int width, const void* values,
                      const float* scales) {
  model->set_tokens({static_cast<jumok::TableType>(type), rows, width, values, scales});
}
// Texts of ids, concatenated, with their segments or null -> hidden states (n, D).
int jumok_encode_ids(const AnyModel* model, const int32_t* ids, const int32_t* segments,
                     const int32_t* offsets, int N, float* hidden, int threads) {
  return jumok::catch_bad_alloc(
      [&] { return model->encode_ids({ids, segments}, offsets, N, hidden, threads, nullptr); });
}
// One text of n ids -> the attention weights of all heads of the encoder (layers, heads, n, n).
int jumok_attend_ids(const AnyModel* model, const int32_t* ids, const int32_t* segments, int n,
                     float* weights, float* hidden, int threads) {
  const int32_t offsets[] = {0, n};
  return jumok::catch_bad_alloc(
      [&] { return model->encode_ids({ids, segments}, offsets, 1, hidden, threads, weights); });
}
// Hidden states (n, D) -> one vector per text (N, D). pooling: 0 first, 1 mean, 2 max, 3 last.
void jumok_pool(const float* hidden, int D, const int32_t* offsets, int N, int pooling, float* y) {
  jumok::pool(hidden, D, offsets, N, static_cast<jumok::Pooling>(pooling), y);
}
// Hidden states (n, D) of pairs with their segments -> what is compared (N, 4 D + 3).
int jumok_compare_pairs(const float* hidden, int D, const int32_t* segments,
                        const int32_t* offsets, int N, float* y) {
  return jumok::catch_bad_alloc([&] {
    jumok::compare_pairs(hidden, D, segments, offsets, N, y);
    return jumok::OK;
  });
}
// Divides each row of x (rows, D) by its length.
void jumok_normalize(float* x, int rows, int D) { jumok::normalize(x, rows, D); }
// y (rows, outputs) = activation(W x + b) for a linear map "head.NAME".
// activation: 0 none, 1 relu, 2 gelu, 3 gelu_tanh, 4 silu, 5 tanh.
int jumok_apply_head(const AnyModel* model, const char* name, const float* x, int rows,
                     int activation, float* y, int threads) {
  return jumok::catch_bad_alloc([&] {
    const jumok::Linear<jumok::Float32>* linear = model->head(name);
    if (linear == nullptr) return jumok::NO_SUCH_NAME;
    jumok::apply_head(*linear, x, rows, static_cast<jumok::HeadActivation>(activation), y, threads);
    return jumok::OK;
  });
}

AnyRequest* jumok_create_request(const AnyModel* model) { return model->request(); }
void jumok_free_request(AnyRequest* request) { delete request; }
// N sources of an encoder-decoder: their ids, concatenated, at offsets (N + 1).
int jumok_encode_sources(AnyRequest* request, const int32_t* ids, const int32_t* offsets, int N,
                         int threads) {
  return jumok::catch_bad_alloc([&] { return request->encode_sources(ids, offsets, N, threads); });
}
int jumok_reset(AnyRequest* request, const int64_t* padding, int N) {
  return jumok::catch_bad_alloc([&] {
    request->reset(padding, N);
    return jumok::OK;
  });
}
int jumok_step(AnyRequest* request, const int64_t* ids, int T, int all_positions, float* logits,
               int threads) {
  return jumok::catch_bad_alloc(
      [&] { return request->step(ids, T, all_positions != 0, logits, threads); });
}
// The steps of n requests of one model as one pass -> logits of their last positions.
int jumok_step_together(const StepCall* calls, int n, float* logits, int threads) {
  return jumok::catch_bad_alloc(
      [&] { return calls[0].request->step_together(calls, n, logits, threads); });
}
int jumok_topk(AnyRequest* request, const int64_t* ids, int T, int k, float* log_p, int64_t* tokens,
               int threads) {
  return jumok::catch_bad_alloc([&] { return request->top_k(ids, T, k, log_p, tokens, threads); });
}
int jumok_reorder(AnyRequest* request, const int64_t* order, int n) {
  return jumok::catch_bad_alloc([&] { return request->reorder(order, n); });
}
void jumok_rewind(AnyRequest* request, int tokens) { request->rewind(tokens); }

// Starts a search from prompts; those of an encoder-decoder follow jumok_encode_sources.
int jumok_start_search(AnyRequest* request, const jumok::SearchCall* call) {
  return jumok::catch_bad_alloc([&] {
    request->search = std::make_unique<jumok::Search>(*request, *call);
    return jumok::OK;
  });
}
// Up to `steps` steps of the search.
int jumok_search(AnyRequest* request, int steps, int threads) {
  return jumok::catch_bad_alloc([&] { return request->search->run(steps, threads); });
}
// One step of the unfinished searches of several requests of one model as one pass. statuses (n):
// of each search, whose rows and results are those of a pass of its own.
int jumok_search_together(AnyRequest* const* requests, int n, int* statuses, int threads) {
  return jumok::catch_bad_alloc([&] {
    std::vector<jumok::StepCall> calls;
    std::vector<size_t> first_rows = {0};
    for (int i = 0; i < n; ++i) {
      const jumok::Search::Input input = requests[i]->search->begin();
      calls.push_back({requests[i], input.ids, input.T});
      first_rows.push_back(first_rows.back() + input.rows);
    }
    float* logits = requests[0]->search->logits_for(first_rows.back());
    if (const int status = requests[0]->step_together(calls.data(), n, logits, threads))
      return status;
    const size_t V = requests[0]->vocabulary();
    for (int i = 0; i < n; ++i)
      statuses[i] = requests[i]->search->advance(logits + first_rows[i] * V, threads);
    return static_cast<int>(jumok::OK);
  });
}
// Logits (V) after n tokens, changed as in a greedy search or before a sample.
int jumok_change_scores(const jumok::ScoreChanges* changes, const int64_t* tokens, int n,
                        float* scores, int V) {
  return jumok::catch_bad_alloc([&] {
    std::vector<float> changed(scores, scores + V);
    jumok::lower(*changes, std::vector<int64_t>(tokens, tokens + n), changed);
    jumok::truncate(*changes, changed);
    std::copy(changed.begin(), changed.end(), scores);
    return jumok::OK;
  });
}
int jumok_unfinished(const AnyRequest* request) { return request->search->n_unfinished(); }
int jumok_n_found(const AnyRequest* request, int text) {
  return static_cast<int>(request->search->results(text).size());
}
// The number of tokens of a hypothesis of a text, the end token included.
int jumok_found_length(const AnyRequest* request, int text, int number) {
  return static_cast<int>(request->search->results(text)[number].tokens.size());
}
// Its tokens and their log-probabilities; its rank. Returns whether an end token ended it.
int jumok_read_found(const AnyRequest* request, int text, int number, int64_t* tokens, float* log_p,
                     double* rank) {
  const jumok::Found& found = request->search->results(text)[number];
  std::copy(found.tokens.begin(), found.tokens.end(), tokens);
  std::copy(found.log_p.begin(), found.log_p.end(), log_p);
  *rank = request->search->rank(found);
  return found.ended;
}

// Record the weights of n heads, each layer * n_heads + head, of cross- or self-attention.
int jumok_record_attention(AnyRequest* request, int cross, const int32_t* heads, int n) {
  return jumok::catch_bad_alloc([&] {
    request->record_attention(cross != 0, heads, n);
    return jumok::OK;
  });
}
// Record the weights of the encoder (layers, heads, n, n) for the next, single source of n tokens.
void jumok_record_encoder(AnyRequest* request, float* weights) { request->record_encoder(weights); }
// The number of keys in the recorded weights of the newest step.
int jumok_attention_width(const AnyRequest* request) {
  return static_cast<int>(request->recorder().width());
}
// The recorded weights (rows, heads, width), 0 beyond the keys of a row.
void jumok_read_attention(const AnyRequest* request, float* weights) {
  const std::vector<float>& from = request->recorder().weights();
  std::memcpy(weights, from.data(), from.size() * sizeof(float));
}
// Their mean over the heads (rows, width).
void jumok_read_mean_attention(const AnyRequest* request, float* mean) {
  request->recorder().mean(mean);
}

}  // extern "C"

#pragma GCC visibility pop
