// Checks and counts of attention problems.
#include "lib/backend/attention_problem.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/tensor/dtype_names.h"

namespace attn {

std::string AttentionProblem::text() const {
  return fmt::format("batch {} q_len {} kv_len {} heads {}/{} head_dim {} {}{}", batch, q_len, kv_len,
                     q_heads, kv_heads, head_dim, kDTypeNames.name(dtype), causal ? " causal" : "");
}

void validate(const AttentionProblem& problem) {
  const auto positive = [](int value, const char* what) {
    if (value < 1) fail(ErrorKind::usage, "attention: {} must be at least 1, not {}", what, value);
  };
  positive(problem.batch, "batch");
  positive(problem.q_len, "q_len");
  positive(problem.kv_len, "kv_len");
  positive(problem.q_heads, "q_heads");
  positive(problem.kv_heads, "kv_heads");
  positive(problem.head_dim, "head_dim");
  if (problem.q_heads % problem.kv_heads != 0) {
    fail(ErrorKind::usage, "attention: kv_heads ({}) must divide q_heads ({})", problem.kv_heads,
         problem.q_heads);
  }
}

std::int64_t visible_pairs(const AttentionProblem& problem) {
  const std::int64_t q = problem.q_len;
  const std::int64_t kv = problem.kv_len;
  if (!problem.causal) return q * kv;
  // Query i sees max(0, i + 1 + kv - q) keys; the first q - kv queries see none.
  const std::int64_t first = std::max<std::int64_t>(0, q - kv);
  const std::int64_t seeing = q - first;
  return seeing * (first + 1 + kv - q) + seeing * (seeing - 1) / 2;
}

namespace {
double product_flops(const AttentionProblem& problem, std::int64_t pairs) {
  return 4.0 * problem.head_dim * static_cast<double>(pairs) * problem.batch * problem.q_heads;
}
}  // namespace

double model_flops(const AttentionProblem& problem) { return product_flops(problem, visible_pairs(problem)); }

double full_matrix_flops(const AttentionProblem& problem) {
  return product_flops(problem, static_cast<std::int64_t>(problem.q_len) * problem.kv_len);
}

double least_bytes(const AttentionProblem& problem) {
  const double rows = 2.0 * problem.q_len * problem.q_heads + 2.0 * problem.kv_len * problem.kv_heads;
  return rows * problem.batch * problem.head_dim * static_cast<double>(size_of(problem.dtype));
}

}  // namespace attn
