// The scoring of windows against logits computed one window at a time on the host.
#include <cmath>
#include <limits>

#include "lib/core/text_file.h"
#include "lib/eval/moments.h"
#include "lib/eval/score_run.h"
#include "lib/results/value.h"
#include "tests/catch.h"
#include "tests/eval/letter_tokenizer.h"
#include "tests/eval/read_all.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

const LetterTokenizer kTokenizer(61);

struct TinyRun {
  Platform platform = open_platform("cpu");
  Model model = tiny_model(platform, Family::gpt_neox);
};

Passage passage_of(int tokens, int context, int stride, std::uint64_t seed = 3) {
  Passage passage{"text " + std::to_string(seed), random_prompt(61, tokens, seed),
                  plan_windows(tokens, context, stride)};
  passage.window_counts = count_scored_text(passage, kTokenizer);
  return passage;
}

// -ln softmax(logits)[target] in double on the host.
double loss_of(const float* logits, int vocab, TokenId target) {
  double largest = logits[0];
  for (int i = 1; i < vocab; ++i) largest = std::max(largest, static_cast<double>(logits[i]));
  double sum = 0;
  for (int i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(logits[i]) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[target]);
}

// The loss of ids[last] given ids[first .. last - 1], by a forward pass of its own.
double direct_loss(TinyRun& run, const std::vector<TokenId>& ids, std::int64_t first, std::int64_t last) {
  const int count = static_cast<int>(last - first);
  Transformer transformer(run.platform, run.model, {1, count, count, count});
  AttentionBackend& attention = run.platform.backend("reference");
  transformer.reserve(attention, {count, count});
  const std::vector<TokenId> fed(ids.begin() + first, ids.begin() + last);
  const auto logits =
      download_logits(transformer, transformer.forward(transformer.upload_ids(fed), attention));
  return loss_of(logits.data() + (count - 1) * 61, 61, ids[static_cast<std::size_t>(last)]);
}

constexpr int kScoreRows = 128;

ScoringRoom room_for(const std::vector<Passage>& passages, int logits_rows = kScoreRows) {
  std::int64_t longest = 1;
  for (const Passage& passage : passages) {
    for (const Window& window : passage.windows) longest = std::max(longest, window.tokens());
  }
  const auto tokens = static_cast<int>(longest);
  return {1, tokens, std::min(logits_rows, tokens), 1};
}

struct Scored {
  PerplexityResult result;
  std::vector<double> losses;        // in the order of scoring
  std::vector<std::int64_t> tokens;  // the same order: which token each belongs to
};

Scored score(TinyRun& run, const std::vector<Passage>& passages, const std::string& mode = "baseline",
             int logits_rows = kScoreRows, Estimator estimator = Estimator::tokens,
             std::function<bool()> stop = nullptr) {
  Scored out;
  const ScoringRoom room = room_for(passages, logits_rows);
  Transformer transformer(run.platform, run.model, room.shape(1));
  WindowScorer scorer({{&transformer, &run.platform.backend(mode), ForwardPath::prefill}}, {}, room);
  ScoreHooks hooks;
  hooks.stop = std::move(stop);
  hooks.on_window = [&](const WindowLosses& window) {
    for (std::size_t i = 0; i < window.losses.size(); ++i) {
      out.losses.push_back(window.losses[i]);
      out.tokens.push_back(window.first_token + static_cast<std::int64_t>(i));
    }
  };
  out.result = score_run(scorer, source_of(passages), estimator, hooks).variants.front().perplexity;
  return out;
}

}  // namespace

TEST_CASE("every token but the first is scored exactly once for any context and stride") {
  TinyRun run;
  for (const auto& [tokens, context, stride] :
       {std::array{2, 8, 4}, {8, 8, 4}, {9, 8, 8}, {40, 8, 1}, {41, 16, 5}, {64, 16, 16}, {33, 96, 48}}) {
    CAPTURE(tokens, context, stride);
    const Scored scored = score(run, {passage_of(tokens, context, stride)});
    REQUIRE(scored.result.tokens_scored == tokens - 1);
    REQUIRE(static_cast<int>(scored.tokens.size()) == tokens - 1);
    for (int i = 0; i + 1 < tokens; ++i) CHECK(scored.tokens[static_cast<std::size_t>(i)] == i + 1);
  }
}

TEST_CASE("with stride 1 every token sees the whole context before it") {
  TinyRun run;
  const Passage passage = passage_of(20, 8, 1);
  const Scored scored = score(run, {passage});
  for (std::int64_t token = 1; token < 20; ++token) {
    CAPTURE(token);
    const double expected = direct_loss(run, passage.ids, std::max<std::int64_t>(0, token - 7), token);
    CHECK(scored.losses[static_cast<std::size_t>(token - 1)] == Approx(expected).epsilon(1e-5));
  }
}

TEST_CASE("with stride equal to the context each window keeps one token") {
  TinyRun run;
  const Passage passage = passage_of(30, 8, 8);
  const Scored scored = score(run, {passage});
  double sum = 0;
  for (std::int64_t token = 1; token < 30; ++token) {
    const std::int64_t begin = (token - 1) / 7 * 7;  // windows begin at 0, 7, 14, ...
    sum += direct_loss(run, passage.ids, begin, token);
  }
  CHECK(scored.result.nll_sum == Approx(sum).epsilon(1e-5));
}

TEST_CASE("the size of the row blocks does not change the losses") {
  TinyRun run;
  const std::vector<Passage> passages{passage_of(70, 32, 16)};
  const Scored whole = score(run, passages, "flash", 128);
  for (const int rows : {1, 7, 31}) {
    const Scored blocks = score(run, passages, "flash", rows);
    REQUIRE(blocks.losses.size() == whole.losses.size());
    for (std::size_t i = 0; i < whole.losses.size(); ++i)
      CHECK(blocks.losses[i] == Approx(whole.losses[i]).margin(1e-4));
  }
}

TEST_CASE("the figures follow from the losses") {
  TinyRun run;
  const Scored scored =
      score(run, {passage_of(30, 16, 8, 1), passage_of(1, 16, 8, 2), passage_of(20, 16, 8, 4)});
  const PerplexityResult& result = scored.result;
  const auto n = static_cast<double>(scored.losses.size());
  REQUIRE(n == 29 + 19);
  double sum = 0, squares = 0;
  for (const double loss : scored.losses) sum += loss;
  for (const double loss : scored.losses) squares += (loss - sum / n) * (loss - sum / n);
  CHECK(result.nll_sum == Approx(sum).epsilon(1e-14));
  CHECK(*result.log_perplexity == Approx(sum / n).epsilon(1e-14));
  CHECK(*result.perplexity == Approx(std::exp(sum / n)).epsilon(1e-13));
  CHECK(*result.standard_error ==
        Approx(std::exp(sum / n) * std::sqrt(squares / (n - 1) / n)).epsilon(1e-12));
  CHECK(result.bytes_scored == 2 * 48);
  CHECK(*result.bits_per_byte == Approx(sum / std::log(2.0) / 96).epsilon(1e-13));
  REQUIRE(result.passages.size() == 2);  // one token alone has nothing to score
  CHECK(result.passages[0].tokens_scored == 29);
  CHECK(result.passages[1].name == "text 4");
  CHECK(result.passages[0].nll_sum + result.passages[1].nll_sum == Approx(sum).epsilon(1e-14));
}

TEST_CASE("the mean of passages weighs a short one like a long one") {
  TinyRun run;
  const std::vector<Passage> passages{passage_of(40, 96, 96, 1), passage_of(3, 96, 96, 2),
                                      passage_of(9, 96, 96, 5)};
  const PerplexityResult result = score(run, passages, "flash", 128, Estimator::passages).result;
  std::vector<double> means;
  for (const PassageScore& passage : result.passages)
    means.push_back(passage.nll_sum / static_cast<double>(passage.tokens_scored));
  REQUIRE(means.size() == 3);
  const double mean = (means[0] + means[1] + means[2]) / 3;
  double squares = 0;
  for (const double value : means) squares += (value - mean) * (value - mean);
  CHECK(*result.log_perplexity == Approx(mean).epsilon(1e-13));
  CHECK(*result.token_log_perplexity == Approx(result.nll_sum / 49).epsilon(1e-13));
  CHECK(*result.standard_error == Approx(std::exp(mean) * std::sqrt(squares / 2 / 3)).epsilon(1e-10));
}

TEST_CASE("all modes give the same perplexity") {
  TinyRun run;
  const std::vector<Passage> passages{passage_of(80, 32, 16)};
  const double expected = *score(run, passages, "reference").result.log_perplexity;
  for (const std::string mode : {"baseline", "flash"}) {
    CAPTURE(mode);
    CHECK(*score(run, passages, mode).result.log_perplexity == Approx(expected).margin(1e-5));
  }
}

TEST_CASE("a loss that is not finite stops the scoring and says where") {
  TinyRun run;
  // The row of token 60: whatever attends to it is lost.
  const std::vector<float> row(24, std::numeric_limits<float>::quiet_NaN());
  const TensorView place = run.model.weights.embedding.tokens.slice(0, 60, 1);
  run.platform.device->upload(place.data, row.data(), place.bytes());
  std::vector<Passage> passages{passage_of(12, 8, 4, 1), passage_of(20, 8, 4, 2)};
  for (Passage& passage : passages) {
    for (TokenId& id : passage.ids) id %= 60;
  }
  passages[1].ids[13] = 60;
  // In baseline's product a probability of 0 times NaN reaches the tokens before it too.
  const PerplexityResult result = score(run, passages, "reference").result;
  REQUIRE(result.nonfinite.has_value());
  CHECK(result.nonfinite->passage == "text 2");
  CHECK(result.nonfinite->position == 14);
  CHECK(result.nonfinite->window == 2);  // windows score 1-7, 8-11, 12-15
  CHECK(result.nonfinite->text().find("text 2: the loss of token 14") != std::string::npos);
  CHECK_FALSE(result.perplexity.has_value());
  CHECK_FALSE(result.log_perplexity.has_value());
  CHECK(result.tokens_scored == 11 + 11);
}

TEST_CASE("a stop keeps the part that is scored") {
  TinyRun run;
  const std::vector<Passage> passages{passage_of(40, 8, 4)};
  int asked = 0;
  const PerplexityResult result =
      score(run, passages, "flash", kScoreRows, Estimator::tokens, [&] { return ++asked > 3; }).result;
  CHECK(result.stopped);
  CHECK(result.tokens_scored == 7 + 4 + 4);
  CHECK(result.bytes_scored == 2 * 15);
  CHECK(result.perplexity.has_value());
}

TEST_CASE("memory of the logits does not grow with the context and flash has no scores") {
  TinyRun run;
  const auto peaks = [&](const std::string& mode, int context) {
    run.platform.device->reset_peaks();
    score(run, {passage_of(96, context, context)}, mode, 8);
    return run.platform.device->memory().peaks();
  };
  const auto of = [](const BytesByUse& bytes, MemoryUse use) { return bytes[static_cast<std::size_t>(use)]; };
  const BytesByUse small = peaks("flash", 24);
  const BytesByUse large = peaks("flash", 96);
  CHECK(of(small, MemoryUse::logits) == 8 * 61 * 4);
  CHECK(of(large, MemoryUse::logits) == 8 * 61 * 4);
  CHECK(of(large, MemoryUse::scores) == 0);
  CHECK(of(peaks("baseline", 96), MemoryUse::scores) > 0);
}

TEST_CASE("predicted memory of scoring is what the ledger counts") {
  TinyRun run;
  const std::vector<Passage> passages{passage_of(96, 48, 24)};
  for (const std::string mode : {"baseline", "flash"}) {
    CAPTURE(mode);
    const PlannedVariant variant{&run.platform.backend(mode), ForwardPath::prefill};
    const BytesByUse predicted =
        predict_scoring_memory(run.model.config, DType::f32, room_for(passages, 16), 1, {&variant, 1}, 0);
    run.platform.device->reset_peaks();
    score(run, passages, mode, 16);
    const BytesByUse measured = run.platform.device->memory().peaks();
    for (const MemoryUse use : {MemoryUse::kv_cache, MemoryUse::activations, MemoryUse::scores,
                                MemoryUse::workspace, MemoryUse::logits, MemoryUse::other}) {
      CAPTURE(kMemoryUseNames.name(use));
      CHECK(predicted[static_cast<std::size_t>(use)] == measured[static_cast<std::size_t>(use)]);
    }
  }
}

TEST_CASE("running moments are exact where plain sums lose digits") {
  RunningMoments moments;
  for (const double value : {1e16, 1.0, 1.0, -1e16}) moments.add(value);
  CHECK(moments.sum() == 2.0);
  RunningMoments shifted;
  for (const double value : {1e9 + 1, 1e9 + 2, 1e9 + 3}) shifted.add(value);
  CHECK(shifted.variance() == Approx(1.0).epsilon(1e-12));
  CHECK(shifted.mean() == Approx(1e9 + 2).epsilon(1e-15));
}

TEST_CASE("stories260K has the perplexities of its float64 reference") {
  const auto folder = std::filesystem::path(ATTN_SOURCE_DIR) / "../shared/data/checkpoints/stories260K";
  if (!std::filesystem::exists(folder)) ATTN_SKIP("../shared/data is not beside the checkout");
  Platform platform = open_platform("cpu");
  const Model model = load_model(*platform.device, find_model((folder / "hf").string()), DType::f32);
  const Value reference = parse_json(read_text_file(folder / "reference.json"), "reference.json");
  for (const Value& sequence : *reference.fields()->find("sequences")->array()) {
    const Fields& fields = *sequence.fields();
    Passage passage{display(*fields.find("name")), {}, {}};
    for (const Value& id : *fields.find("ids")->array())
      passage.ids.push_back(static_cast<TokenId>(*id.number()));
    const auto tokens = static_cast<std::int64_t>(passage.ids.size());
    passage.windows = plan_windows(tokens, tokens, tokens);
    passage.window_counts = count_scored_text(passage, LetterTokenizer(512));
    const std::vector<Passage> passages{passage};
    const ScoringRoom room = room_for(passages);
    Transformer transformer(platform, model, room.shape(1));
    for (const std::string mode : {"reference", "baseline", "flash"}) {
      CAPTURE(passage.name, mode);
      WindowScorer scorer({{&transformer, &platform.backend(mode), ForwardPath::prefill}}, {}, room);
      const PerplexityResult result =
          score_run(scorer, source_of(passages), Estimator::tokens).variants.front().perplexity;
      CHECK(*result.perplexity == Approx(*fields.find("ppl_f64")->number()).epsilon(1e-4));
      CHECK(*result.log_perplexity == Approx(*fields.find("mean_nll_f64")->number()).epsilon(1e-4));
    }
  }
}
