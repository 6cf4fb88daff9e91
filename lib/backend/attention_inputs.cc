// Checks of attention's tensors.
#include "lib/backend/attention_inputs.h"

#include "lib/core/error.h"
#include "lib/tensor/dtype_names.h"

namespace attn {

namespace {

AttentionStrides strides_of(const TensorView& view) {
  return {view.stride(0), view.stride(1), view.stride(2)};
}

void check_view(const TensorView& view, DType dtype, const Shape& shape, const char* what) {
  if (view.empty() || view.dtype != dtype || !(view.shape == shape) || view.stride(3) != 1) {
    fail(ErrorKind::internal, "attention: {} must be {} {} with dense rows, not {} {}", what,
         kDTypeNames.name(dtype), shape.text(), kDTypeNames.name(view.dtype), view.shape.text());
  }
}

}  // namespace

AttentionParams attention_sizes(const AttentionProblem& problem) {
  AttentionParams params{};
  params.batch = problem.batch;
  params.q_len = problem.q_len;
  params.kv_len = problem.kv_len;
  params.q_heads = problem.q_heads;
  params.kv_heads = problem.kv_heads;
  params.head_dim = problem.head_dim;
  params.scale = problem.scale;
  params.causal = problem.causal;
  params.dtype = problem.dtype;
  return params;
}

AttentionParams attention_params(const AttentionProblem& problem, const AttentionTensors& tensors) {
  const Shape queries{problem.batch, problem.q_len, problem.q_heads, problem.head_dim};
  const Shape keys{problem.batch, problem.kv_len, problem.kv_heads, problem.head_dim};
  check_view(tensors.q, problem.dtype, queries, "q");
  check_view(tensors.k, problem.dtype, keys, "k");
  check_view(tensors.v, problem.dtype, keys, "v");
  check_view(tensors.out, problem.dtype, queries, "out");
  AttentionParams params = attention_sizes(problem);
  params.q = tensors.q.data;
  params.k = tensors.k.data;
  params.v = tensors.v.data;
  params.out = tensors.out.data;
  if (!tensors.lse.empty()) {
    if (tensors.lse.dtype != DType::f32 || !tensors.lse.dense() ||
        tensors.lse.shape.elements() != std::int64_t{problem.batch} * problem.q_heads * problem.q_len)
      fail(ErrorKind::internal, "attention: lse must be dense f32 [batch, q_heads, q_len], not {}",
           tensors.lse.shape.text());
    params.lse = tensors.lse.as<float>();
  }
  params.past_len = tensors.past_len;
  params.q_stride = strides_of(tensors.q);
  params.k_stride = strides_of(tensors.k);
  params.v_stride = strides_of(tensors.v);
  params.out_stride = strides_of(tensors.out);
  return params;
}

}  // namespace attn
