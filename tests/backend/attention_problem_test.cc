// Checks and counts of attention problems against counting one pair at a time.
#include "lib/backend/attention_problem.h"

#include "lib/core/error.h"
#include "tests/catch.h"

using namespace attn;

namespace {

AttentionProblem sized(int q_len, int kv_len, bool causal) {
  AttentionProblem p;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.causal = causal;
  return p;
}

}  // namespace

TEST_CASE("visible pairs are those that counting finds") {
  for (int q_len = 1; q_len <= 12; ++q_len) {
    for (int kv_len = 1; kv_len <= 12; ++kv_len) {
      int seen = 0;
      for (int i = 0; i < q_len; ++i) {
        for (int j = 0; j < kv_len; ++j) seen += j <= i + kv_len - q_len;
      }
      CAPTURE(q_len);
      CAPTURE(kv_len);
      CHECK(visible_pairs(sized(q_len, kv_len, true)) == seen);
      CHECK(visible_pairs(sized(q_len, kv_len, false)) == q_len * kv_len);
    }
  }
}

TEST_CASE("visible pairs do not overflow at long contexts") {
  CHECK(visible_pairs(sized(200000, 200000, true)) == 200000LL * 200001 / 2);
}

TEST_CASE("work and traffic follow from the pairs and the heads") {
  AttentionProblem p = sized(3, 5, true);  // 3 + 4 + 5 pairs
  p.batch = 2;
  p.q_heads = 6;
  p.kv_heads = 2;
  p.head_dim = 10;
  CHECK(model_flops(p) == 4.0 * 10 * 12 * 2 * 6);
  CHECK(full_matrix_flops(p) == 4.0 * 10 * 15 * 2 * 6);
  CHECK(least_bytes(p) == 4.0 * 2 * 10 * (2 * 3 * 6 + 2 * 5 * 2));
  p.dtype = DType::bf16;
  CHECK(least_bytes(p) == 2.0 * 2 * 10 * (2 * 3 * 6 + 2 * 5 * 2));
}

TEST_CASE("a problem out of range is refused by the name of the field") {
  CHECK_NOTHROW(validate(AttentionProblem{}));
  const auto message = [](auto change) {
    AttentionProblem p;
    change(p);
    try {
      validate(p);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::usage);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(message([](auto& p) { p.batch = 0; }).find("batch") != std::string::npos);
  CHECK(message([](auto& p) { p.q_len = 0; }).find("q_len") != std::string::npos);
  CHECK(message([](auto& p) { p.kv_len = -1; }).find("kv_len") != std::string::npos);
  CHECK(message([](auto& p) { p.head_dim = 0; }).find("head_dim") != std::string::npos);
  CHECK(message([](auto& p) {
          p.q_heads = 8;
          p.kv_heads = 3;
        }).find("divide") != std::string::npos);
}

TEST_CASE("a problem says its sizes in words") {
  AttentionProblem p = sized(3, 5, true);
  CHECK(p.text().find("q_len 3 kv_len 5") != std::string::npos);
  CHECK(p.text().find("causal") != std::string::npos);
}
