// Ops: everything of a forward pass but attention, at the grain at which a device can fuse it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/logit_comparison.h"
#include "lib/core/enum_names.h"
#include "lib/tensor/tensor.h"

namespace attn {

enum class NormKind : unsigned char { layer_norm, rms_norm };
// gelu_erf: x Phi(x). gelu_tanh: Hendrycks and Gimpel's tanh form.
enum class Activation : unsigned char { none, gelu_erf, gelu_tanh, relu, silu };

struct NormWeights {
  NormKind kind = NormKind::layer_norm;
  float eps = 1e-5F;
  TensorView weight;  // [hidden]
  TensorView bias;    // [hidden], or empty
};

struct LinearWeights {
  TensorView weight;  // [out, in], rows may be strided
  TensorView bias;    // [out], or empty
};

struct EmbeddingWeights {
  TensorView tokens;     // [vocab, hidden]
  TensorView positions;  // [max_positions, hidden], or empty for rotary models
};

// cos and sin of the rotation angles, f32, of positions 0, 1, ...; pairs are (i, i + rotary_dims / 2), the
// first rotary_dims dimensions of a head turn and the rest stay.
struct RotaryTable {
  int rotary_dims = 0;  // even; 0: positions do not turn (GPT-2)
  TensorView cos;       // [positions, rotary_dims / 2]
  TensorView sin;
};

// out = activation(norm(x) W^T + b). With `gated`, W has 2 * out rows, gate first: out = activation(gate) *
// up.
struct ProjectTerm {
  const NormWeights* norm = nullptr;
  const LinearWeights* linear = nullptr;
  Activation activation = Activation::none;
  bool gated = false;
  TensorView out;  // [tokens, out], rows may be strided
};

// in W^T + b, to be added to the residual stream.
struct AddTerm {
  TensorView in;  // [tokens, in], rows may be strided
  const LinearWeights* linear = nullptr;
  // `in` was complete before the last operation that was given to the device: work on it may begin beside
  // that.
  bool early = false;
};

// Scratch for project(), owned by the caller so that the memory is counted.
struct ProjectScratch {
  TensorView normed;  // [tokens, hidden]
  TensorView wide;    // [tokens, 2 * ffn_hidden] for gated terms, or empty
};

// Greedy when temperature is 0. top_k 0 and top_p 1 mean no limit.
struct SamplingConfig {
  float temperature = 0;
  int top_k = 0;
  float top_p = 1;
  std::uint64_t seed = 0;
};

// How the products of one shape are computed, for the record.
struct ProductRecord {
  std::string shape;      // "[2454, 2560] x [7680, 2560]^T bf16 -> bf16, bias"
  std::string algorithm;  // in the library's terms
  int candidates = 0;     // that the library offered, its favourite first
  double chosen_us = 0;   // 0: not timed
  double first_us = 0;    // of the library's favourite
  std::string why_not_timed;
};

// All tensors live on the device. `past_len` points to one i32 on the device: tokens already in the cache,
// the same for every sequence of the batch; token t of this call stands at position *past_len + t. Element
// type is that of the tensors (f32 on the CPU); logits are always f32.
class Ops {
 public:
  virtual ~Ops() = default;

  // x[b, t, :] = tokens[ids[b, t]] (+ positions[*past_len + t]). ids [batch, q_len] i32, x [batch, q_len,
  // hidden].
  virtual void embed(const EmbeddingWeights& weights, const TensorView& ids, const std::int32_t* past_len,
                     const TensorView& x) = 0;

  // One term (sequential residual) or two (parallel residual), all reading x [tokens, hidden].
  virtual void project(const TensorView& x, std::span<const ProjectTerm> terms,
                       const ProjectScratch& scratch) = 0;

  // qkv [batch, q_len, q_heads + 2 kv_heads, head_dim]: turns queries in place, and writes turned keys and
  // the values to places *past_len ... of the caches [batch, capacity, kv_heads, head_dim] (any strides, dim
  // dense).
  virtual void rope_and_append(const TensorView& qkv, const RotaryTable& rotary, const std::int32_t* past_len,
                               const TensorView& k_cache, const TensorView& v_cache) = 0;

  // x += sum over the terms. x [tokens, hidden], dense.
  virtual void project_add(const TensorView& x, std::span<const AddTerm> terms) = 0;

  // out [rows, vocab] f32 = norm(x) W^T (+ b), x [rows, hidden], rows may be strided. normed: scratch [rows,
  // hidden].
  virtual void logits(const TensorView& x, const NormWeights& norm, const LinearWeights& head,
                      const TensorView& normed, const TensorView& out) = 0;

  // losses[r] (f64 on the device) = -ln softmax(logits[r])[targets[r]]; log-softmax in f32 or better. NaN
  // where any logit of the row is not finite. A target below 0 gives 0. logits [rows, vocab], targets [rows]
  // i32.
  virtual void token_losses(const TensorView& logits, const TensorView& targets, double* losses) = 0;

  // rows[r] (on the device) = what logits `other` are apart from `base`, of one row each and of its target.
  // base, other [rows, vocab] f32, rows may be strided; targets [rows] i32, below 0 or empty view: none. The
  // same bits in every call on one device.
  virtual void compare_logits(const TensorView& base, const TensorView& other, const TensorView& targets,
                              LogitComparison* rows) = 0;

  // next[b] from logits [batch, vocab]; the random stream of a row is (seed, b, *past_len). next [batch] i32.
  virtual void pick_token(const TensorView& logits, const SamplingConfig& sampling,
                          const std::int32_t* past_len, const TensorView& next) = 0;

  // *past_len += count.
  virtual void advance(std::int32_t* past_len, std::int32_t count) = 0;

  // The shapes of products so far whose algorithm was a matter of choice.
  virtual std::vector<ProductRecord> product_choices() const { return {}; }
};

}  // namespace attn
