// Inputs of a conformance case on the host, placed between poison, and the result by the definition in
// double.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/tensor/tensor.h"
#include "tests/conformance/attention_cases.h"

namespace attn::conformance {

// Where the elements of a [batch, token, head, dim] tensor lie in a buffer of `elements`, guards included.
struct Placement {
  Shape shape;
  std::int64_t batch_step = 0, token_step = 0, head_step = 0;
  std::int64_t first = 0, elements = 0;

  std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return first + b * batch_step + t * token_step + h * head_step + d;
  }
  TensorView view(void* memory, DType dtype) const;
};

// q, k, v in `dtype`; all three share one buffer in Layout::fused. Elements outside every tensor are NaN.
struct Inputs {
  Placement q, k, v;
  bool shared = false;                        // one buffer: q_bits holds all
  std::vector<float> q_data, k_data, v_data;  // already rounded to dtype; k_data, v_data empty when shared
};

Inputs make_inputs(const Case& test, DType dtype);

struct Expected {
  std::vector<double> out;  // [batch, q_len, q_heads, head_dim]
  std::vector<double> lse;  // [batch, q_heads, q_len]
  // What rounding may do, a row [batch, q_len, q_heads]: see rounding_tolerance() in attention_data.cc.
  std::vector<double> out_tolerance, lse_tolerance;
};

// `scores` is the type in which a backend keeps the scores between its kernels: 16 bits round each once.
Expected expected_of(const Case& test, const Inputs& inputs, DType dtype, DType scores = DType::f32);

// Of one rounding to the type, relative.
double unit_roundoff(DType dtype);

// Dense out with guards.
Placement out_placement(const AttentionProblem& problem);

}  // namespace attn::conformance
