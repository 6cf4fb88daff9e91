// Variants of one computation over the same windows, and faults that must show.
#include "lib/eval/window_scorer.h"

#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "lib/eval/accuracy_rule.h"
#include "tests/catch.h"
#include "tests/eval/fault_attention.h"
#include "tests/eval/letter_tokenizer.h"
#include "tests/eval/read_all.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

constexpr int kTokens = 37;

// One window over all ids.
Passage one_window(const std::vector<TokenId>& ids, std::int64_t first_scored = 1) {
  Passage passage{"window", ids, {{0, static_cast<std::int64_t>(ids.size()), first_scored}}};
  passage.window_counts.resize(1);
  return passage;
}

ScoringRoom room_for(int tokens, int logits_rows = 16, int batch = 1) {
  return {batch, tokens, std::min(logits_rows, tokens), 1};
}

ScoreRun run_over(WindowScorer& scorer, const std::vector<Passage>& passages) {
  return score_run(scorer, source_of(passages), Estimator::tokens);
}

// All tokens after the first of one window, by both variants.
Divergence compare_once(const ScoredVariant& base, const ScoredVariant& other,
                        const std::vector<TokenId>& ids) {
  WindowScorer scorer({base, other}, {{0, 1}}, room_for(static_cast<int>(ids.size())));
  const ScoreRun run = run_over(scorer, {one_window(ids)});
  REQUIRE(run.complete());
  return run.pairs[0].divergence.all();
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
    WindowScorer scorer({{&exact, &flash, ForwardPath::prefill}, {&other, &flash, ForwardPath::prefill}},
                        {{0, 1}, {1, 0}}, room_for(kTokens, block));
    std::vector<double> other_losses;
    ScoreHooks hooks;
    hooks.on_window = [&](const WindowLosses& window) {
      if (window.variant == 1) other_losses.assign(window.losses.begin(), window.losses.end());
    };
    const ScoreRun run = score_run(scorer, source_of({one_window(ids, 11)}), Estimator::tokens, hooks);
    REQUIRE(run.complete());
    const Divergence& found = run.pairs[0].divergence.all();
    CHECK(found.rows == kTokens - 11);
    CHECK(found.targets == found.rows);
    CHECK(found.max_diff == Approx(expected.max_diff).margin(1e-5));
    CHECK(found.mean_kl() == Approx(expected.mean_kl()).epsilon(1e-2));
    CHECK(found.perplexity.result()->other_log_perplexity ==
          Approx(expected.perplexity.result()->other_log_perplexity).epsilon(1e-6));
    CHECK(run.pairs[1].divergence.all().perplexity.result()->log_ratio ==
          -found.perplexity.result()->log_ratio);
    CHECK(run.pairs[0].divergence.buckets()[0].divergence.rows == 6);  // saw 11 to 16 tokens
    REQUIRE(other_losses.size() == losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) CHECK(other_losses[i] == Approx(losses[i]).epsilon(1e-5));
    // Of the losses themselves.
    CHECK(run.pairs[0].losses.diffs.count() == found.rows);
    CHECK(run.pairs[0].losses.max_diff == Approx(found.max_loss_diff).epsilon(1e-3).margin(1e-6));
    CHECK(run.pairs[0].losses.mean() ==
          Approx(found.perplexity.result()->log_ratio).epsilon(1e-3).margin(1e-6));
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
  WindowScorer scorer({{&transformer, &platform.backend("flash"), ForwardPath::decode},
                       {&transformer, &faulty, ForwardPath::decode}},
                      {{0, 1}}, room_for(kTokens));
  const ScoreRun run = run_over(scorer, {one_window(ids)});
  CHECK(run.pairs[0].divergence.buckets()[0].divergence.max_diff == 0);  // saw up to 16 tokens
  CHECK(run.pairs[0].divergence.buckets()[1].divergence.max_diff > 1e-3);
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
  WindowScorer scorer({{&exact, &platform.backend("reference"), ForwardPath::prefill},
                       {&low, &platform.backend("baseline"), ForwardPath::prefill},
                       {&low, &platform.backend("flash"), ForwardPath::decode},
                       {&low, &scaled, ForwardPath::prefill}},
                      {{0, 1}, {0, 2}, {0, 3}}, room_for(kTokens));
  const ScoreRun run = run_over(
      scorer, {one_window(random_prompt(61, kTokens, 1)), one_window(random_prompt(61, kTokens, 2))});
  const Divergence& baseline = run.pairs[0].divergence.all();
  CHECK(baseline.rows == 2 * (kTokens - 1));
  CHECK(judge_accuracy(run.pairs[1].divergence.all(), baseline).verdict == Verdict::holds);
  CHECK(judge_accuracy(run.pairs[2].divergence.all(), baseline).verdict == Verdict::broken);
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
  WindowScorer scorer({{&transformer, &platform.backend("flash"), ForwardPath::decode},
                       {&transformer, &bad, ForwardPath::decode}},
                      {{0, 1}}, room_for(kTokens, 4));
  Passage passage = one_window(ids, 3);
  passage.windows.insert(passage.windows.begin(), {0, 3, 1});  // ends before the fault
  passage.window_counts.resize(2);
  const ScoreRun run = run_over(scorer, {passage, one_window(ids)});
  REQUIRE(run.nonfinite.has_value());
  CHECK_FALSE(run.complete());
  CHECK(run.nonfinite->variant == 1);
  CHECK(run.nonfinite->window == 1);
  CHECK(run.nonfinite->row == 10);
  CHECK(run.nonfinite->place == 0);
  CHECK(run.nonfinite->position == 11);
  CHECK(run.nonfinite->fed == ids);
  CHECK(run.pairs[0].divergence.all().rows == 2 + 8);
  CHECK(run.pairs[0].divergence.all().first_nonfinite_position == 10);
  CHECK(run.windows == 1);
  CHECK(run.variants[1].perplexity.nonfinite.has_value());
  CHECK_FALSE(run.variants[1].perplexity.perplexity.has_value());
  for (const VariantScore& variant : run.variants) CHECK(variant.perplexity.tokens_scored == 2);
  CHECK(std::isfinite(*run.variants[0].perplexity.perplexity));
  const WindowOf window{&passage, 1};
  scorer.submit({&window, 1});
  const auto losses = scorer.finish().losses_of(1, 0);
  CHECK(std::isfinite(losses[7]));
  CHECK(std::isnan(losses[8]));
}

TEST_CASE("memory of a run is what was predicted and does not grow with context times vocabulary") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt_neox);
  AttentionBackend& flash = platform.backend("flash");
  const std::size_t weights = platform.device->memory().live_bytes();
  const auto peak_of_logits = [&](int tokens, bool paired, int batch) {
    CAPTURE(tokens, paired, batch);
    const ScoringRoom room = room_for(tokens, 4, batch);
    const std::size_t pairs = paired ? 1 : 0;
    const PlannedVariant planned[] = {{&flash, ForwardPath::prefill}, {&flash, ForwardPath::decode}};
    const BytesByUse predicted =
        predict_scoring_memory(model.config, DType::f32, room, batch, planned, pairs);
    platform.device->reset_peaks();
    Transformer transformer(platform, model, room.shape(batch));
    WindowScorer scorer(
        {{&transformer, &flash, ForwardPath::prefill}, {&transformer, &flash, ForwardPath::decode}},
        paired ? std::vector<VariantPair>{{0, 1}} : std::vector<VariantPair>{}, room);
    std::size_t sum = 0;
    for (const std::size_t bytes : predicted) sum += bytes;
    const std::size_t predicted_weights = predicted[static_cast<std::size_t>(MemoryUse::weights)];
    CHECK(platform.device->memory().live_bytes() - weights == sum - predicted_weights);
    run_over(scorer, {one_window(random_prompt(61, tokens, 1)), one_window(random_prompt(61, tokens, 2))});
    CHECK(platform.device->memory().live_bytes() - weights == sum - predicted_weights);
    return platform.device->memory().peaks()[static_cast<std::size_t>(MemoryUse::logits)];
  };
  for (const int batch : {1, 3}) {
    CHECK(peak_of_logits(24, false, batch) == 4 * 61 * 4);
    CHECK(peak_of_logits(96, false, batch) == 4 * 61 * 4);
    CHECK(peak_of_logits(96, true, batch) == 2 * 4 * 61 * 4);
  }
}

TEST_CASE("variants and windows that do not fit are refused") {
  Platform platform = open_platform("cpu");
  const Model model = tiny_model(platform, Family::gpt2);
  Transformer transformer(platform, model, {1, 8, 4, 4});
  Transformer two(platform, model, {2, 8, 8, 4});
  const auto variant = [&](Transformer& of, ForwardPath path) {
    return ScoredVariant{&of, &platform.backend("flash"), path};
  };
  const ScoredVariant prefill = variant(transformer, ForwardPath::prefill);
  const ScoredVariant decode = variant(transformer, ForwardPath::decode);
  using Pairs = std::vector<VariantPair>;
  CHECK_THROWS_AS(WindowScorer({prefill, prefill}, Pairs{{0, 1}}, room_for(8, 4)),
                  Error);  // a step of 4 only
  CHECK_THROWS_AS(WindowScorer({decode}, Pairs{{0, 1}}, room_for(8, 4)), Error);
  CHECK_THROWS_AS(WindowScorer({decode, decode}, Pairs{{0, 1}}, room_for(9, 4)), Error);
  CHECK_THROWS_AS(WindowScorer({decode, decode}, Pairs{{0, 1}}, room_for(8, 5)), Error);
  CHECK_THROWS_AS(WindowScorer({}, Pairs{}, room_for(8, 4)), Error);
  CHECK_THROWS_AS(WindowScorer({decode, variant(two, ForwardPath::decode)}, Pairs{{0, 1}}, room_for(8, 4)),
                  Error);
  WindowScorer scorer({decode, decode}, Pairs{{0, 1}}, room_for(8, 4));
  const auto submit = [&](const Passage& passage) {
    const WindowOf window{&passage, 0};
    scorer.submit({&window, 1});
  };
  try {
    submit(one_window({1, 2, 3, 4, 5, 6, 7, 8, 9}));
    FAIL("a window of 9 tokens had room in 8");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::bad_input);
    CHECK(std::string(error.what()).find("--context") != std::string::npos);
  }
  CHECK_THROWS_AS(submit(one_window({1, 2, 61})), Error);
  CHECK_THROWS_AS(submit(one_window({1, -1, 2})), Error);
  const Passage good = one_window({1, 2, 3});
  submit(good);
  submit(good);
  CHECK_THROWS_AS(submit(good), Error);  // two are under way
  CHECK_THROWS_AS(scorer.first_nonfinite({&good, 0}), Error);
}
