// Variants of one computation over the same windows, and faults that must show.
#include "lib/eval/divergence_scorer.h"

#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "lib/eval/accuracy_rule.h"
#include "tests/catch.h"
#include "tests/eval/fault_attention.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

constexpr int kTokens = 37;

// All tokens after the first of one window, by both variants.
Divergence compare_once(const ScoredVariant& base, const ScoredVariant& other,
                        const std::vector<TokenId>& ids) {
  DivergenceScorer scorer({base, other}, {{0, 1}}, static_cast<std::int64_t>(ids.size()));
  REQUIRE_FALSE(scorer.add(ids, 0, std::span(ids).subspan(1)).has_value());
  return scorer.divergence(0).all();
}

// In a step of decoding the newest key, the token's own, is left out.
void ignore_last_key(AttentionBackend& inner, const AttentionProblem& problem,
                     const AttentionTensors& tensors, void* scores, void* workspace) {
  if (problem.q_len > 1 || problem.kv_len == 1) return inner.forward(problem, tensors, scores, workspace);
  AttentionProblem less = problem;
  --less.kv_len;
  AttentionTensors without = tensors;
  without.k = tensors.k.slice(1, 0, less.kv_len);
  without.v = tensors.v.slice(1, 0, less.kv_len);
  inner.forward(less, without, scores, workspace);
}

// What rounding to bf16 makes of the weights.
Model rounded_model(Platform& platform, const Model& model) {
  Model out;
  out.config = model.config;
  out.weights = allocate_weights(*platform.device, model.config, DType::f32);
  for (std::size_t i = 0; i < model.weights.storage.size(); ++i) {
    const Buffer& from = model.weights.storage[i];
    std::vector<float> values(from.bytes() / sizeof(float));
    platform.device->download(values.data(), from.data(), from.bytes());
    for (float& x : values) x = bf16_to_f32(f32_to_bf16(x));
    platform.device->upload(out.weights.storage[i].data(), values.data(), from.bytes());
  }
  return out;
}

}  // namespace

TEST_CASE("figures of a window are those of its rows whatever the blocks") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt_neox);
  const Model rounded = rounded_model(platform, model);
  AttentionBackend& flash = platform.backend("flash");
  const auto ids = random_prompt(61, kTokens, 3);
  std::vector<std::vector<float>> whole;
  for (const Model* of : {&model, &rounded}) {
    Transformer transformer(platform, *of, {1, kTokens, kTokens, kTokens});
    transformer.reserve(flash, {kTokens, kTokens});
    whole.push_back(download_logits(transformer, transformer.forward(transformer.upload_ids(ids), flash)));
  }
  Divergence expected;
  std::vector<double> losses;
  for (std::size_t row = 10; row + 1 < kTokens; ++row) {
    const RowDivergence compared =
        compare_rows({whole[0].data() + row * 61, 61}, {whole[1].data() + row * 61, 61}, ids[row + 1]);
    losses.push_back(compared.target->other_loss);
    expected.add(static_cast<std::int64_t>(row), compared);
  }
  REQUIRE(expected.mean_kl() > 1e-7);
  for (const int block : {1, 7, kTokens}) {
    CAPTURE(block);
    Transformer exact(platform, model, {1, kTokens, kTokens, block});
    Transformer other(platform, rounded, {1, kTokens, kTokens, block});
    DivergenceScorer scorer({{&exact, &flash, ForwardPath::prefill}, {&other, &flash, ForwardPath::prefill}},
                            {{0, 1}, {1, 0}}, kTokens);
    REQUIRE_FALSE(scorer.add(ids, 10, std::span(ids).subspan(11)).has_value());
    const Divergence& found = scorer.divergence(0).all();
    CHECK(found.rows == kTokens - 11);
    CHECK(found.targets == found.rows);
    CHECK(found.max_diff == Approx(expected.max_diff).margin(1e-5));
    CHECK(found.mean_kl() == Approx(expected.mean_kl()).epsilon(1e-2));
    CHECK(found.perplexity.result()->other_log_perplexity ==
          Approx(expected.perplexity.result()->other_log_perplexity).epsilon(1e-6));
    CHECK(scorer.divergence(1).all().perplexity.result()->log_ratio == -found.perplexity.result()->log_ratio);
    CHECK(scorer.divergence(0).buckets()[0].divergence.rows == 6);  // saw 11 to 16 tokens
    REQUIRE(scorer.losses(1).size() == losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      CHECK(scorer.losses(1)[i] == Approx(losses[i]).epsilon(1e-5));
  }
}

TEST_CASE("a variant does not diverge from itself") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::llama);
  Transformer transformer(platform, model, {1, kTokens, kTokens, 16});
  const ScoredVariant flash{&transformer, &platform.backend("flash"), ForwardPath::prefill};
  const Divergence same = compare_once(flash, flash, random_prompt(61, kTokens, 8));
  CHECK(same.rows == kTokens - 1);
  CHECK(same.max_diff == 0);
  CHECK(same.max_kl == 0);
  CHECK(same.max_js == 0);
  CHECK(same.argmax_agreement() == 1);
  CHECK(same.top5_agreement() == 1);
  CHECK(*same.perplexity.result()->ratio == 1);
}

TEST_CASE("prefill and decode agree within rounding in every mode and family") {
  Platform platform = open_platform(test_device());
  const auto ids = random_prompt(61, kTokens, 4);
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    Transformer transformer(platform, model, {1, kTokens, kTokens, 16});
    for (const std::string& mode : kModes) {
      CAPTURE(kFamilyNames.name(family), mode);
      AttentionBackend& attention = platform.backend(mode);
      const Divergence paths = compare_once({&transformer, &attention, ForwardPath::prefill},
                                            {&transformer, &attention, ForwardPath::decode}, ids);
      CHECK(paths.rows == kTokens - 1);
      CHECK(paths.max_diff < 1e-4);
      CHECK(paths.max_kl < 1e-8);
      CHECK(paths.max_loss_diff < 1e-4);
    }
  }
}

TEST_CASE("a fault of the cache shows on the decode path in every mode") {
  Platform platform = open_platform(test_device());
  const auto ids = random_prompt(61, kTokens, 5);
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    Transformer transformer(platform, model, {1, kTokens, kTokens, 16});
    for (const std::string& mode : kModes) {
      CAPTURE(kFamilyNames.name(family), mode);
      FaultAttention faulty(platform.backend(mode), ignore_last_key);
      const Divergence paths = compare_once({&transformer, &faulty, ForwardPath::prefill},
                                            {&transformer, &faulty, ForwardPath::decode}, ids);
      CHECK(paths.max_diff > 0.01);
      CHECK(paths.max_kl > 1e-4);
      // Prefill alone would not show it.
      CHECK(compare_once({&transformer, &platform.backend(mode), ForwardPath::prefill},
                         {&transformer, &faulty, ForwardPath::prefill}, ids)
                .max_diff == 0);
    }
  }
}

TEST_CASE("a cached key that is lost shows from its moment on and not before") {
  Platform platform = open_platform(test_device());
  const auto ids = random_prompt(61, kTokens, 6);
  const Model model = tiny_model(platform, Family::llama);
  Transformer transformer(platform, model, {1, kTokens, kTokens, 16});
  FaultAttention faulty(platform.backend("flash"),
                        [&](AttentionBackend& inner, const AttentionProblem& problem,
                            const AttentionTensors& tensors, void* scores, void* workspace) {
                          if (problem.q_len == 1 && problem.kv_len == 21) {  // the token at position 20
                            const TensorView lost = tensors.k.slice(1, 4, 1).slice(2, 0, 1);
                            platform.device->fill_zero(lost.data, lost.bytes());
                          }
                          inner.forward(problem, tensors, scores, workspace);
                        });
  DivergenceScorer scorer({{&transformer, &platform.backend("flash"), ForwardPath::decode},
                           {&transformer, &faulty, ForwardPath::decode}},
                          {{0, 1}}, kTokens);
  REQUIRE_FALSE(scorer.add(ids, 0, std::span(ids).subspan(1)).has_value());
  CHECK(scorer.divergence(0).buckets()[0].divergence.max_diff == 0);  // saw up to 16 tokens
  CHECK(scorer.divergence(0).buckets()[1].divergence.max_diff > 1e-3);
}

TEST_CASE("the rule holds for flash on rounded weights and is broken by a wrong scale") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt2);
  const Model rounded = rounded_model(platform, model);
  Transformer exact(platform, model, {1, kTokens, kTokens, 16});
  Transformer low(platform, rounded, {1, kTokens, kTokens, 16});
  FaultAttention scaled(platform.backend("flash"),
                        [](AttentionBackend& inner, const AttentionProblem& problem,
                           const AttentionTensors& tensors, void* scores, void* workspace) {
                          AttentionProblem wrong = problem;
                          wrong.scale *= 1.2F;
                          inner.forward(wrong, tensors, scores, workspace);
                        });
  // The reference is always a prefill, so that a fault of every mode's cache would show too.
  DivergenceScorer scorer({{&exact, &platform.backend("reference"), ForwardPath::prefill},
                           {&low, &platform.backend("baseline"), ForwardPath::prefill},
                           {&low, &platform.backend("flash"), ForwardPath::decode},
                           {&low, &scaled, ForwardPath::prefill}},
                          {{0, 1}, {0, 2}, {0, 3}}, kTokens);
  for (const std::uint64_t seed : {1, 2}) {
    const auto ids = random_prompt(61, kTokens, seed);
    REQUIRE_FALSE(scorer.add(ids, 0, std::span(ids).subspan(1)).has_value());
  }
  const Divergence& baseline = scorer.divergence(0).all();
  CHECK(baseline.rows == 2 * (kTokens - 1));
  CHECK(judge_accuracy(scorer.divergence(1).all(), baseline).verdict == Verdict::holds);
  CHECK(judge_accuracy(scorer.divergence(2).all(), baseline).verdict == Verdict::broken);
}

TEST_CASE("the first logit that is not finite stops a window and names its variant") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt_neox);
  Transformer transformer(platform, model, {1, kTokens, kTokens, 4});
  auto ids = random_prompt(61, kTokens, 7);
  FaultAttention bad(platform.backend("flash"),
                     [&](AttentionBackend& inner, const AttentionProblem& problem,
                         const AttentionTensors& tensors, void* scores, void* workspace) {
                       inner.forward(problem, tensors, scores, workspace);
                       if (problem.q_len != 1 || problem.kv_len != 11) return;
                       const float nan = std::numeric_limits<float>::quiet_NaN();
                       platform.device->upload(tensors.out.data, &nan, sizeof nan);
                     });
  DivergenceScorer scorer({{&transformer, &platform.backend("flash"), ForwardPath::decode},
                           {&transformer, &bad, ForwardPath::decode}},
                          {{0, 1}}, kTokens);
  const auto found = scorer.add(ids, 2, std::span(ids).subspan(3));
  REQUIRE(found.has_value());
  CHECK(found->variant == 1);
  CHECK(found->row == 10);
  CHECK(found->place == 0);
  CHECK(scorer.divergence(0).all().rows == 8);
  CHECK(scorer.divergence(0).all().first_nonfinite_position == 10);
  CHECK(std::isfinite(scorer.losses(1)[7]));
  CHECK(std::isnan(scorer.losses(1)[8]));
}

TEST_CASE("memory of a comparison does not grow with the context but for the states") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt_neox);
  AttentionBackend& flash = platform.backend("flash");
  const auto peak = [&](int tokens, MemoryUse use) {
    Transformer transformer(platform, model, {1, tokens, tokens, 4});
    const std::vector<ScoredVariant> variants{{&transformer, &flash, ForwardPath::prefill},
                                              {&transformer, &flash, ForwardPath::decode}};
    platform.device->reset_peaks();
    const std::size_t before = platform.device->memory().live_bytes();
    DivergenceScorer scorer(variants, {{0, 1}}, tokens);
    CHECK(platform.device->memory().live_bytes() - before == DivergenceScorer::state_bytes(variants, tokens));
    const auto ids = random_prompt(61, tokens, 1);
    scorer.add(ids, 0, std::span(ids).subspan(1));
    return platform.device->memory().peaks()[static_cast<std::size_t>(use)];
  };
  CHECK(peak(24, MemoryUse::logits) == 4 * 61 * 4);
  CHECK(peak(96, MemoryUse::logits) == 4 * 61 * 4);
}

TEST_CASE("variants and windows that do not fit are refused") {
  Platform platform = open_platform("cpu");
  const Model model = tiny_model(platform, Family::gpt2);
  Transformer transformer(platform, model, {1, 8, 4, 4});
  const ScoredVariant prefill{&transformer, &platform.backend("flash"), ForwardPath::prefill};
  const ScoredVariant decode{&transformer, &platform.backend("flash"), ForwardPath::decode};
  CHECK_THROWS_AS(DivergenceScorer({prefill, prefill}, {{0, 1}}, 8), Error);  // a step of 4 only
  CHECK_THROWS_AS(DivergenceScorer({decode, decode}, {{0, 0}}, 8), Error);    // the second in no pair
  CHECK_THROWS_AS(DivergenceScorer({decode}, {{0, 1}}, 8), Error);
  CHECK_THROWS_AS(DivergenceScorer({decode, decode}, {{0, 1}}, 9), Error);
  DivergenceScorer scorer({decode, decode}, {{0, 1}}, 8);
  const std::vector<TokenId> ids{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK_THROWS_AS(scorer.add(ids, 1, ids), Error);
  const std::vector<TokenId> outside{61};
  CHECK_THROWS_AS(scorer.add(ids, 0, outside), Error);
}
