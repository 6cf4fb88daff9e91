// Ops on the CPU: tensors taken apart into the plain arguments of the kernels.
#include "lib/backend_cpu/cpu_ops.h"

#include <vector>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/loss.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/sampling.h"
#include "lib/backend/logit_comparison.h"
#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/tensor/dtype_names.h"
#include "lib/tensor/rows.h"

namespace attn {

namespace {

const float* floats(const TensorView& view) {
  if (!view.empty() && view.dtype != DType::f32) {
    fail(ErrorKind::unsupported, "the CPU device computes in f32, not {}; use --dtype f32 or --device cuda",
         kDTypeNames.name(view.dtype));
  }
  return view.as<const float>();
}

float* floats_to_write(const TensorView& view) { return const_cast<float*>(floats(view)); }

cpu::ActivationFunction function_of(Activation activation) {
  switch (activation) {
    case Activation::none: return nullptr;
    case Activation::gelu_erf: return cpu::gelu_erf;
    case Activation::gelu_tanh: return cpu::gelu_tanh;
    case Activation::relu: return cpu::relu;
    case Activation::silu: return cpu::silu;
  }
  fail(ErrorKind::internal, "activation {} has no kernel", static_cast<int>(activation));
}

void expect(bool right, const char* what, const TensorView& a, const TensorView& b) {
  if (!right) fail(ErrorKind::internal, "{}: {} does not fit {}", what, a.shape.text(), b.shape.text());
}

void normalise(const NormWeights& norm, const TensorView& x, const TensorView& out) {
  const Rows in_rows = rows_of(x);
  const Rows out_rows = rows_of(out);
  expect(out_rows.size == in_rows.size && out_rows.count >= in_rows.count, "norm", out, x);
  const cpu::Norm args{floats(x),    in_rows.step,         in_rows.count,
                       in_rows.size, floats(norm.weight),  floats(norm.bias),
                       norm.eps,     floats_to_write(out), out_rows.step};
  if (norm.kind == NormKind::layer_norm) {
    cpu::layer_norm(args);
  } else {
    cpu::rms_norm(args);
  }
}

// `rows` of `in` times the weight. `in` may have more rows (scratch).
cpu::Linear product_of(const TensorView& in, std::int64_t rows, const LinearWeights& linear,
                       const TensorView& out) {
  const Rows in_rows = rows_of(in);
  const Rows out_rows = rows_of(out);
  expect(linear.weight.extent(1) == in_rows.size, "product", linear.weight, in);
  expect(out_rows.count == rows, "product", out, in);
  return {floats(in),
          in_rows.step,
          rows,
          in_rows.size,
          out_rows.size,
          floats(linear.weight),
          linear.weight.stride(0),
          floats(linear.bias),
          floats_to_write(out),
          out_rows.step,
          nullptr};
}

class CpuOps : public Ops {
 public:
  void embed(const EmbeddingWeights& weights, const TensorView& ids, const std::int32_t* past_len,
             const TensorView& x) override {
    expect(x.extent(2) == weights.tokens.extent(1), "embed", x, weights.tokens);
    cpu::embed({floats(weights.tokens), weights.tokens.stride(0), floats(weights.positions),
                weights.positions.empty() ? 0 : weights.positions.stride(0), ids.as<const std::int32_t>(),
                ids.stride(0), x.extent(0), x.extent(1), x.extent(2), *past_len, floats_to_write(x),
                x.stride(0), x.stride(1)});
  }

  void project(const TensorView& x, std::span<const ProjectTerm> terms,
               const ProjectScratch& scratch) override {
    const std::int64_t rows = rows_of(x).count;
    const NormWeights* normed_with = nullptr;
    for (const ProjectTerm& term : terms) {
      if (term.norm != normed_with) normalise(*term.norm, x, scratch.normed);
      normed_with = term.norm;
      cpu::Linear product = product_of(scratch.normed, rows, *term.linear, term.out);
      product.activation = function_of(term.activation);
      const std::int64_t weight_rows = product.out_size * (term.gated ? 2 : 1);
      expect(term.linear->weight.extent(0) == weight_rows, "product", term.linear->weight, term.out);
      if (term.gated) {
        if (rows > cpu::kFewRows)
          expect(scratch.wide.shape.elements() >= rows * weight_rows, "wide", scratch.wide, term.out);
        cpu::linear_gated(product, floats_to_write(scratch.wide));
      } else {
        cpu::linear(product);
      }
    }
  }

  void rope_and_append(const TensorView& qkv, const RotaryTable& rotary, const std::int32_t* past_len,
                       const TensorView& k_cache, const TensorView& v_cache) override {
    const auto kv_heads = static_cast<int>(k_cache.extent(2));
    cpu::RopeAppend args{};
    args.qkv = floats_to_write(qkv);
    args.qkv_batch = qkv.stride(0);
    args.qkv_token = qkv.stride(1);
    args.qkv_head = qkv.stride(2);
    args.batch = static_cast<int>(qkv.extent(0));
    args.q_len = static_cast<int>(qkv.extent(1));
    args.q_heads = static_cast<int>(qkv.extent(2)) - 2 * kv_heads;
    args.kv_heads = kv_heads;
    args.head_dim = static_cast<int>(qkv.extent(3));
    args.rotary_dims = rotary.rotary_dims;
    args.position = *past_len;
    const std::int64_t end = args.position + args.q_len;
    expect(end <= k_cache.extent(1) && end <= v_cache.extent(1), "cache", k_cache, qkv);
    if (rotary.rotary_dims > 0) {
      expect(end <= rotary.cos.extent(0), "rotary table", rotary.cos, qkv);
      args.cos = floats(rotary.cos);
      args.sin = floats(rotary.sin);
      args.table_step = rotary.cos.stride(0);
    }
    args.k_cache = floats_to_write(k_cache);
    args.k_batch = k_cache.stride(0);
    args.k_token = k_cache.stride(1);
    args.k_head = k_cache.stride(2);
    args.v_cache = floats_to_write(v_cache);
    args.v_batch = v_cache.stride(0);
    args.v_token = v_cache.stride(1);
    args.v_head = v_cache.stride(2);
    cpu::rope_append(args);
  }

  void project_add(const TensorView& x, std::span<const AddTerm> terms) override {
    const std::int64_t rows = rows_of(x).count;
    for (const AddTerm& term : terms) {
      expect(rows_of(term.in).count == rows, "product", term.in, x);
      expect(term.linear->weight.extent(0) == rows_of(x).size, "product", term.linear->weight, x);
      cpu::linear_add(product_of(term.in, rows, *term.linear, x));
    }
  }

  void logits(const TensorView& x, const NormWeights& norm, const LinearWeights& head,
              const TensorView& normed, const TensorView& out) override {
    normalise(norm, x, normed);
    expect(head.weight.extent(0) == rows_of(out).size, "logits", head.weight, out);
    cpu::linear(product_of(normed, rows_of(x).count, head, out));
  }

  void token_losses(const TensorView& logits, const TensorView& targets, double* losses) override {
    cpu::token_losses({floats(logits), logits.stride(0), logits.extent(0), logits.extent(1),
                       targets.as<const std::int32_t>(), losses});
  }

  void compare_logits(const TensorView& base, const TensorView& other, const TensorView& targets,
                      LogitComparison* rows) override {
    expect(other.shape == base.shape, "comparison", other, base);
    expect(targets.empty() || targets.extent(0) == base.extent(0), "comparison", targets, base);
    const float* p = floats(base);
    const float* q = floats(other);
    const auto* target = targets.empty() ? nullptr : targets.as<const std::int32_t>();
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < base.extent(0); ++row) {
      rows[row] = compare_logit_rows(p + row * base.stride(0), q + row * other.stride(0), base.extent(1),
                                     target == nullptr ? -1 : target[row * targets.stride(0)]);
    }
  }

  void pick_token(const TensorView& logits, const SamplingConfig& sampling, const std::int32_t* past_len,
                  const TensorView& next) override {
    const float* row = floats(logits);
    auto* chosen = next.as<std::int32_t>();
    for (std::int64_t b = 0; b < logits.extent(0); ++b, row += logits.stride(0)) {
      if (sampling.temperature == 0) {
        chosen[b * next.stride(0)] = cpu::pick_largest(row, logits.extent(1));
        continue;
      }
      const float uniform = random_uniform(sampling.seed, static_cast<std::uint64_t>(b),
                                           static_cast<std::uint64_t>(static_cast<std::uint32_t>(*past_len)));
      chosen[b * next.stride(0)] =
          cpu::pick_drawn(row, logits.extent(1),
                          {sampling.temperature, sampling.top_k, sampling.top_p, uniform}, candidates_);
    }
  }

  void advance(std::int32_t* past_len, std::int32_t count) override { *past_len += count; }

 private:
  std::vector<std::int32_t> candidates_;
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops() { return std::make_unique<CpuOps>(); }

}  // namespace attn
