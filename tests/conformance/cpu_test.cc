// Every attention backend of the CPU against the conformance table.
#include "lib/core/error.h"
#include "tests/catch.h"
#include "tests/conformance/attention_cases.h"
#include "tests/conformance/attention_checks.h"
#include "tests/conformance/grid_check.h"

using namespace attn;
using namespace attn::conformance;

namespace {

void expect_none(const Failures& failures) {
  for (std::size_t i = 0; i < failures.size() && i < 10; ++i) UNSCOPED_INFO(failures[i]);
  CHECK(failures.empty());
}

}  // namespace

TEST_CASE("every attention kernel agrees with the definition in double") {
  Platform platform = open_platform("cpu");
  for (const auto& backend : platform.attention) expect_none(check_against_definition(platform, *backend));
}

TEST_CASE("attention kernels agree with the definition on one thread and on more threads than heads") {
  for (int threads : {1, 5}) {
    Platform platform = open_platform("cpu", {threads});
    for (const char* mode : {"baseline", "flash"})
      expect_none(check_against_definition(platform, platform.backend(mode)));
  }
  open_platform("cpu");  // threads are process-wide
}

TEST_CASE("two hundred runs of attention give the same bits") {
  Platform platform = open_platform("cpu");
  for (const auto& backend : platform.attention) expect_none(check_repeats(platform, *backend, 200, {64}));
}

TEST_CASE("a sequence alone gives what it gives in a batch") {
  Platform platform = open_platform("cpu");
  // OpenBLAS may share one head's product among threads when heads are few, and sums in another order then.
  for (const auto& backend : platform.attention)
    expect_none(check_batch_independence(platform, *backend, backend->name() != "baseline"));
}

TEST_CASE("the last query of a prefill is a decode step") {
  Platform platform = open_platform("cpu");
  for (const auto& backend : platform.attention)
    expect_none(check_prefill_equals_decode(platform, *backend, {64}));
}

TEST_CASE("the smaller shapes of the grid agree with the reference") {
  Platform platform = open_platform("cpu");
  for (const char* mode : {"baseline", "flash"}) {
    const GridResult result = check_grid(platform, platform.backend(mode), {10000000, 4});
    expect_none(result.failures);
    CHECK(result.checked > 50);
  }
}

TEST_CASE("queries that see no key give zero and an lse of minus infinity") {
  Platform platform = open_platform("cpu");
  for (const auto& backend : platform.attention) expect_none(check_no_keys(platform, *backend, {64, 20}));
}

TEST_CASE("equal scores give the mean of the values and an lse of ln n") {
  Platform platform = open_platform("cpu");
  for (const auto& backend : platform.attention) expect_none(check_equal_scores(platform, *backend, {64}));
}

TEST_CASE("one key gives its value bit for bit") {
  Platform platform = open_platform("cpu");
  for (const auto& backend : platform.attention) expect_none(check_one_key(platform, *backend, {64, 20}));
}

TEST_CASE("every query head reads the key head of its group") {
  Platform platform = open_platform("cpu");
  for (const auto& backend : platform.attention) expect_none(check_groups(platform, *backend, {64}));
}

TEST_CASE("flash never asks for scores and baseline asks for all of them") {
  Platform platform = open_platform("cpu");
  for (const Case& test : attention_cases()) {
    const AttentionProblem& p = test.problem;
    CAPTURE(p.text());
    CHECK(platform.backend("flash").scratch(p).scores_bytes == 0);
    CHECK(platform.backend("baseline").scratch(p).scores_bytes ==
          sizeof(float) * static_cast<std::size_t>(p.batch) * p.q_heads * p.q_len * p.kv_len);
  }
}

TEST_CASE("the scratch of flash does not grow with the square of the length") {
  Platform platform = open_platform("cpu");
  AttentionProblem p;
  p.q_heads = p.kv_heads = 12;
  p.scale = 0.125F;
  p.q_len = p.kv_len = 2048;
  const AttentionScratch short_flash = platform.backend("flash").scratch(p);
  const AttentionScratch short_baseline = platform.backend("baseline").scratch(p);
  p.q_len = p.kv_len = 8192;
  CHECK(platform.backend("flash").scratch(p).workspace_bytes <= 4 * short_flash.workspace_bytes);
  CHECK(platform.backend("baseline").scratch(p).scores_bytes == 16 * short_baseline.scores_bytes);
}

TEST_CASE("a 16 bit problem is refused on the CPU with words that help") {
  Platform platform = open_platform("cpu");
  AttentionProblem p;
  p.dtype = DType::bf16;
  for (const auto& backend : platform.attention) {
    REQUIRE(backend->why_not(p).has_value());
    CHECK(backend->why_not(p)->find("--dtype f32") != std::string::npos);
    CHECK_THROWS_AS(backend->forward(p, {}, nullptr, nullptr), Error);
  }
}
