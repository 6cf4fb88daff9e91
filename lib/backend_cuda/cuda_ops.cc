// Ops on a GPU: tensors taken apart into the plain arguments of the kernels; products by cuBLAS.
#include "lib/backend_cuda/cuda_ops.h"

#include <utility>

#include "kernels/cuda/activation.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/logit_comparison.h"
#include "kernels/cuda/loss.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/sampling.h"
#include "lib/backend_cuda/cuda_check.h"
#include "lib/backend_cuda/skinny_products.h"
#include "lib/core/error.h"
#include "lib/tensor/dtype_names.h"
#include "lib/tensor/rows.h"

namespace attn {

namespace {

void expect(bool right, const char* what, const TensorView& a, const TensorView& b) {
  if (!right) {
    fail(ErrorKind::internal, "{}: {} {} does not fit {} {}", what, kDTypeNames.name(a.dtype), a.shape.text(),
         kDTypeNames.name(b.dtype), b.shape.text());
  }
}

void expect_floats(const TensorView& view, const char* what) {
  if (view.dtype != DType::f32)
    fail(ErrorKind::internal, "{} must be f32, not {}", what, kDTypeNames.name(view.dtype));
}

class CudaOps : public Ops {
 public:
  CudaOps(CudaDevice& device, std::shared_ptr<Cublas> cublas)
      : device_(device),
        cublas_(std::move(cublas)),
        skinny_(device),
        bias_sum_(device.allocate(kBiasSumBytes, MemoryUse::workspace)) {}

  void embed(const EmbeddingWeights& weights, const TensorView& ids, const std::int32_t* past_len,
             const TensorView& x) override {
    expect(x.extent(2) == weights.tokens.extent(1) && x.dtype == weights.tokens.dtype, "embed", x,
           weights.tokens);
    cuda::Embedding args{};
    args.tokens = weights.tokens.data;
    args.token_step = weights.tokens.stride(0);
    if (!weights.positions.empty()) {
      expect(x.dtype == weights.positions.dtype, "embed", x, weights.positions);
      args.positions = weights.positions.data;
      args.position_step = weights.positions.stride(0);
    }
    args.ids = ids.as<const std::int32_t>();
    args.ids_step = ids.stride(0);
    args.batch = x.extent(0);
    args.q_len = x.extent(1);
    args.hidden = x.extent(2);
    args.past_len = past_len;
    args.out = x.data;
    args.out_batch = x.stride(0);
    args.out_token = x.stride(1);
    args.dtype = x.dtype;
    ATTN_CUDA(cuda::embed(args, device_.stream()));
  }

  void project(const TensorView& x, std::span<const ProjectTerm> terms,
               const ProjectScratch& scratch) override {
    if (skinny_.project(x, terms)) return;
    const std::int64_t rows = rows_of(x).count;
    const NormWeights* normed_with = nullptr;
    for (const ProjectTerm& term : terms) {
      if (term.norm != normed_with) normalise(*term.norm, x, scratch.normed);
      normed_with = term.norm;
      if (term.gated) {
        project_gated(scratch, rows, term);
        continue;
      }
      multiply_activated(scratch.normed, rows, *term.linear, term.out, term.activation);
    }
  }

  void rope_and_append(const TensorView& qkv, const RotaryTable& rotary, const std::int32_t* past_len,
                       const TensorView& k_cache, const TensorView& v_cache) override {
    const auto kv_heads = static_cast<int>(k_cache.extent(2));
    expect(k_cache.dtype == qkv.dtype && v_cache.dtype == qkv.dtype, "cache", k_cache, qkv);
    expect(qkv.extent(1) <= k_cache.extent(1), "cache", k_cache, qkv);
    cuda::RopeAppend args{};
    args.qkv = qkv.data;
    args.qkv_batch = qkv.stride(0);
    args.qkv_token = qkv.stride(1);
    args.qkv_head = qkv.stride(2);
    args.batch = static_cast<int>(qkv.extent(0));
    args.q_len = static_cast<int>(qkv.extent(1));
    args.q_heads = static_cast<int>(qkv.extent(2)) - 2 * kv_heads;
    args.kv_heads = kv_heads;
    args.head_dim = static_cast<int>(qkv.extent(3));
    args.rotary_dims = rotary.rotary_dims;
    args.past_len = past_len;
    if (rotary.rotary_dims > 0) {
      expect_floats(rotary.cos, "the rotary table");
      args.cos = rotary.cos.as<const float>();
      args.sin = rotary.sin.as<const float>();
      args.table_step = rotary.cos.stride(0);
    }
    args.k_cache = k_cache.data;
    args.k_batch = k_cache.stride(0);
    args.k_token = k_cache.stride(1);
    args.k_head = k_cache.stride(2);
    args.v_cache = v_cache.data;
    args.v_batch = v_cache.stride(0);
    args.v_token = v_cache.stride(1);
    args.v_head = v_cache.stride(2);
    args.dtype = qkv.dtype;
    ATTN_CUDA(cuda::rope_append(args, device_.stream()));
  }

  // Terms that lie side by side are one product, and biases are added in its last step: each pass over x
  // rounds it.
  void project_add(const TensorView& x, std::span<const AddTerm> terms) override {
    const std::int64_t rows = rows_of(x).count;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      expect(rows_of(terms[i].in).count == rows, "product", terms[i].in, x);
      if (i + 1 < terms.size() && side_by_side(terms[i], terms[i + 1])) {
        TensorView in = terms[i].in;
        TensorView weight = terms[i].linear->weight;
        in.shape[in.shape.rank() - 1] += terms[i + 1].in.extent(in.shape.rank() - 1);
        weight.shape[1] += terms[i + 1].linear->weight.extent(1);
        const std::int64_t late = terms[i + 1].early ? terms[i].linear->weight.extent(1) : weight.extent(1);
        multiply_add(in, rows, weight, terms[i].linear->bias, terms[i + 1].linear->bias, x, late);
        ++i;
      } else {
        const TensorView& weight = terms[i].linear->weight;
        multiply_add(terms[i].in, rows, weight, terms[i].linear->bias, {}, x, weight.extent(1));
      }
    }
  }

  void logits(const TensorView& x, const NormWeights& norm, const LinearWeights& head,
              const TensorView& normed, const TensorView& out) override {
    expect_floats(out, "logits");
    if (skinny_.logits(x, norm, head, out)) return;
    normalise(norm, x, normed);
    cublas_->multiply(product_of(normed, rows_of(x).count, head.weight, out));
    if (head.bias.empty()) return;
    expect(head.bias.dtype == out.dtype, "logits", head.bias, out);
    add_bias(out, head.bias, {}, Activation::none);
  }

  void token_losses(const TensorView& logits, const TensorView& targets, double* losses) override {
    expect_floats(logits, "logits");
    ATTN_CUDA(cuda::token_losses({logits.as<const float>(), logits.stride(0), logits.extent(0),
                                  logits.extent(1), targets.as<const std::int32_t>(), losses},
                                 device_.stream()));
  }

  void compare_logits(const TensorView& base, const TensorView& other, const TensorView& targets,
                      LogitComparison* rows) override {
    expect_floats(base, "logits");
    expect(other.shape == base.shape && other.dtype == base.dtype, "comparison", other, base);
    expect(targets.empty() || targets.extent(0) == base.extent(0), "comparison", targets, base);
    cuda::CompareLogits args{};
    args.base = base.as<const float>();
    args.base_step = base.stride(0);
    args.other = other.as<const float>();
    args.other_step = other.stride(0);
    args.rows = base.extent(0);
    args.vocab = base.extent(1);
    if (!targets.empty()) {
      args.targets = targets.as<const std::int32_t>();
      args.targets_step = targets.stride(0);
    }
    args.out = rows;
    ATTN_CUDA(cuda::compare_logits(args, device_.stream()));
  }

  void pick_token(const TensorView& logits, const SamplingConfig& sampling, const std::int32_t* past_len,
                  const TensorView& next) override {
    expect_floats(logits, "logits");
    ATTN_CUDA(cuda::pick_token(
        {logits.as<const float>(), logits.stride(0), logits.extent(0), logits.extent(1), sampling.temperature,
         sampling.top_k, sampling.top_p, sampling.seed, past_len, next.as<std::int32_t>(), next.stride(0)},
        device_.stream()));
  }

  void advance(std::int32_t* past_len, std::int32_t count) override {
    ATTN_CUDA(cuda::advance(past_len, count, device_.stream()));
  }

  std::vector<ProductRecord> product_choices() const override { return cublas_->choices(); }

 private:
  void normalise(const NormWeights& norm, const TensorView& x, const TensorView& out) {
    const Rows in_rows = rows_of(x);
    const Rows out_rows = rows_of(out);
    expect(out_rows.size == in_rows.size && out_rows.count >= in_rows.count && out.dtype == x.dtype, "norm",
           out, x);
    expect(norm.weight.dtype == x.dtype, "norm", norm.weight, x);
    cuda::Norm args{};
    args.in = x.data;
    args.in_step = in_rows.step;
    args.rows = in_rows.count;
    args.size = in_rows.size;
    args.weight = norm.weight.data;
    args.bias = norm.bias.data;
    args.eps = norm.eps;
    args.centred = norm.kind == NormKind::layer_norm;
    args.out = out.data;
    args.out_step = out_rows.step;
    args.dtype = x.dtype;
    ATTN_CUDA(cuda::norm(args, device_.stream()));
  }

  // out = `rows` rows of in (which may have more: scratch) times weight^T.
  static Product product_of(const TensorView& in, std::int64_t rows, const TensorView& weight,
                            const TensorView& out) {
    const Rows in_rows = rows_of(in);
    const Rows out_rows = rows_of(out);
    expect(weight.extent(1) == in_rows.size && weight.dtype == in.dtype, "product", weight, in);
    expect(weight.extent(0) == out_rows.size && out_rows.count == rows, "product", weight, out);
    Product product{};
    product.rows = rows;
    product.columns = out_rows.size;
    product.inner = in_rows.size;
    product.in = in.data;
    product.in_step = in_rows.step;
    product.other = weight.data;
    product.other_step = weight.stride(0);
    product.out = out.data;
    product.out_step = out_rows.step;
    product.dtype = in.dtype;
    product.out_dtype = out.dtype;
    return product;
  }

  // out = activation(in W^T + b). The library's GELU is the tanh form, and not precise enough for f32.
  void multiply_activated(const TensorView& in, std::int64_t rows, const LinearWeights& linear,
                          const TensorView& out, Activation activation) {
    Product product = product_of(in, rows, linear.weight, out);
    const bool gelu = activation == Activation::gelu_tanh && out.dtype != DType::f32;
    if (!linear.bias.empty() && (activation == Activation::none || gelu)) {
      expect_bias(linear.bias, out);
      product.bias = linear.bias.data;
      product.gelu_tanh = gelu;
      if (cublas_->multiply_biased(product)) return;
      product.bias = nullptr;
      product.gelu_tanh = false;
    }
    cublas_->multiply(product);
    add_bias(out, linear.bias, {}, activation);
  }

  // x += in W^T + b + second; columns of `in` from late_columns on are older than the last operation.
  void multiply_add(const TensorView& in, std::int64_t rows, const TensorView& weight, const TensorView& bias,
                    const TensorView& second, const TensorView& x, std::int64_t late_columns) {
    if (skinny_.add(x, in, weight, bias, second, late_columns)) return;
    Product product = product_of(in, rows, weight, x);
    product.beta = 1;
    if (const TensorView sum = sum_of(bias, second, x); !sum.empty()) {
      product.bias = sum.data;
      if (cublas_->multiply_biased(product)) return;
      product.bias = nullptr;
    }
    add_bias(x, bias, second, Activation::none);
    cublas_->multiply(product);
  }

  // The sum of two biases, either of which may be empty, valid until the next call; empty where there is none
  // or no room for it.
  TensorView sum_of(const TensorView& bias, const TensorView& second, const TensorView& x) {
    for (const TensorView* one : {&bias, &second}) expect_bias(*one, x);
    if (second.empty()) return bias;
    if (bias.empty()) return second;
    if (bias.bytes() > bias_sum_.bytes()) return {};
    ATTN_CUDA(cuda::add_vectors({bias.data, second.data, bias_sum_.data(), bias.shape.elements(), bias.dtype},
                                device_.stream()));
    return {bias_sum_.data(), bias.dtype, bias.shape};
  }

  static void expect_bias(const TensorView& bias, const TensorView& x) {
    expect(bias.empty() || (bias.dtype == x.dtype && bias.extent(0) == rows_of(x).size), "bias", bias, x);
  }

  void add_bias(const TensorView& x, const TensorView& bias, const TensorView& second,
                Activation activation) {
    if (bias.empty() && second.empty() && activation == Activation::none) return;
    for (const TensorView* one : {&bias, &second}) expect_bias(*one, x);
    const Rows rows = rows_of(x);
    ATTN_CUDA(cuda::bias_activation(
        {x.data, rows.step, rows.count, rows.size, bias.data, second.data, function_of(activation), x.dtype},
        device_.stream()));
  }

  void project_gated(const ProjectScratch& scratch, std::int64_t rows, const ProjectTerm& term) {
    const std::int64_t width = term.linear->weight.extent(0);
    expect(scratch.wide.shape.elements() >= rows * width, "wide", scratch.wide, term.out);
    const TensorView wide(scratch.wide.data, scratch.wide.dtype, {rows, width});
    cublas_->multiply(product_of(scratch.normed, rows, term.linear->weight, wide));
    const Rows out = rows_of(term.out);
    expect(out.count == rows && 2 * out.size == width, "product", term.linear->weight, term.out);
    ATTN_CUDA(cuda::gated_activation({wide.data, width, term.linear->bias.data, function_of(term.activation),
                                      term.out.data, out.step, out.count, out.size, term.out.dtype},
                                     device_.stream()));
  }

  // Inputs that are neighbours in each row, times weights that are neighbours in each row.
  static bool side_by_side(const AddTerm& left, const AddTerm& right) {
    const Rows a = rows_of(left.in);
    const Rows b = rows_of(right.in);
    const TensorView& w = left.linear->weight;
    const TensorView& v = right.linear->weight;
    const auto bytes = static_cast<std::int64_t>(size_of(left.in.dtype));
    const bool rows_beside = a.count == 1 || (a.step == b.step && a.size + b.size <= a.step);
    return left.in.dtype == right.in.dtype && a.count == b.count && rows_beside &&
           w.stride(0) == v.stride(0) && w.extent(1) + v.extent(1) <= w.stride(0) &&
           left.in.as<char>() + a.size * bytes == right.in.data &&
           w.as<char>() + w.extent(1) * bytes == v.data;
  }

  static constexpr std::size_t kBiasSumBytes = 64 << 10;

  CudaDevice& device_;
  std::shared_ptr<Cublas> cublas_;
  SkinnyProducts skinny_;
  Buffer bias_sum_;
};

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(CudaDevice& device, std::shared_ptr<Cublas> cublas) {
  return std::make_unique<CudaOps>(device, std::move(cublas));
}

}  // namespace attn
