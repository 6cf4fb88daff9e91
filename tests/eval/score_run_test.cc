// One pass over a text: batches, several variants and bounded memory change nothing of the figures.
#include "lib/eval/score_run.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/core/error.h"
#include "lib/eval/passage_reader.h"
#include "lib/text/read_ahead.h"
#include "tests/catch.h"
#include "tests/eval/letter_tokenizer.h"
#include "tests/eval/read_all.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

class BosTokenizer : public LetterTokenizer {
 public:
  BosTokenizer() : LetterTokenizer(61) {}
  std::optional<TokenId> bos() const override { return 0; }
};
const BosTokenizer kTokenizer;
constexpr int kContext = 24;

// Texts of many lengths.
TextSource texts() {
  return [next = 0]() mutable -> std::optional<Document> {
    constexpr int kSizes[] = {90, 7, 31, 2, 24, 50, 1, 26, 11, 49, 12, 83, 3};
    if (next == static_cast<int>(std::size(kSizes))) return std::nullopt;
    std::string text;
    for (int i = 0; i < kSizes[next]; ++i) text += static_cast<char>('A' + (i * 11 + next * 5 + i / 7) % 50);
    return Document{"text " + std::to_string(next++), text};
  };
}

PlanOptions plan() {
  PlanOptions options;
  options.context = kContext;
  options.stride = 10;
  return options;
}

PassageReader reader_of(Protocol protocol) { return {protocol, texts(), kTokenizer, plan()}; }

constexpr Protocol kProtocols[] = {Protocol::full,      Protocol::hf_strided,  Protocol::lm_eval,
                                   Protocol::llama_cpp, Protocol::legacy_rows, Protocol::legacy_window};

// Every loss by variant, passage, window and place.
using AllLosses = std::map<std::array<std::int64_t, 4>, double>;

struct Run {
  ScoreRun score;
  AllLosses losses;
};

// With transformers of `sequences` windows together.
Run run_protocol(Platform& platform, const Model& model, Protocol protocol,
                 const std::vector<std::string>& modes, int batch, int sequences, int step = 1,
                 const std::vector<VariantPair>& pairs = {}) {
  ScoringRoom room{batch, kContext, 16, step};
  Transformer transformer(platform, model, room.shape(sequences));
  std::vector<ScoredVariant> variants;
  for (const std::string& mode : modes)
    variants.push_back({&transformer, &platform.backend(mode), ForwardPath::prefill});
  WindowScorer scorer(variants, pairs, room);
  PassageReader reader = reader_of(protocol);
  Run run;
  ScoreHooks hooks;
  hooks.on_window = [&](const WindowLosses& window) {
    for (std::size_t i = 0; i < window.losses.size(); ++i)
      run.losses[{static_cast<std::int64_t>(window.variant), window.passage, window.window,
                  window.first_token + static_cast<std::int64_t>(i)}] = window.losses[i];
  };
  run.score = score_run(
      scorer, [&] { return reader.next(); }, reader.settings().estimator, hooks);
  REQUIRE(run.score.complete());
  CHECK(run.score.windows == reader.totals().windows);
  CHECK(run.score.tokens_fed == reader.totals().tokens_fed);
  CHECK(static_cast<std::int64_t>(run.losses.size()) ==
        reader.totals().tokens_scored * static_cast<std::int64_t>(modes.size()));
  return run;
}

void check_equal(const PerplexityResult& a, const PerplexityResult& b) {
  CHECK(a.nll_sum == b.nll_sum);
  CHECK(a.tokens_scored == b.tokens_scored);
  CHECK(a.bytes_scored == b.bytes_scored);
  CHECK(a.words_scored == b.words_scored);
  CHECK(a.weight_sum == b.weight_sum);
  CHECK(*a.perplexity == *b.perplexity);
  CHECK(*a.standard_error == *b.standard_error);
  CHECK(*a.bootstrap_error == *b.bootstrap_error);
  CHECK(a.passage_count == b.passage_count);
}

}  // namespace

TEST_CASE("a batch of any size gives the bits of windows alone under every protocol on the CPU") {
  Platform platform = open_platform("cpu");
  const Model model = tiny_model(platform, Family::llama);
  for (const Protocol protocol : kProtocols) {
    const Run alone = run_protocol(platform, model, protocol, {"flash"}, 1, 1);
    for (const int batch : {2, 5, 64}) {
      CAPTURE(kProtocolNames.name(protocol), batch);
      const Run batched = run_protocol(platform, model, protocol, {"flash"}, batch, 1);
      CHECK((batched.losses == alone.losses));
      check_equal(batched.score.variants[0].perplexity, alone.score.variants[0].perplexity);
    }
  }
}

TEST_CASE("windows fed together and filled up have the losses that they have alone") {
  Platform platform = open_platform(test_device());
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    for (const std::string& mode : kModes) {
      for (const Protocol protocol : {Protocol::full, Protocol::lm_eval, Protocol::legacy_rows}) {
        const Run alone = run_protocol(platform, model, protocol, {mode}, 1, 1);
        for (const auto& [batch, sequences, step] :
             {std::array{3, 3, 1}, {7, 7, 8}, {6, 4, 16}, {3, 3, 16}, {64, 64, 16}}) {
          CAPTURE(kFamilyNames.name(family), mode, kProtocolNames.name(protocol), batch, sequences, step);
          const Run together = run_protocol(platform, model, protocol, {mode}, batch, sequences, step);
          REQUIRE(together.losses.size() == alone.losses.size());
          double largest = 0;
          for (const auto& [place, loss] : alone.losses)
            largest = std::max(largest, std::fabs(loss - together.losses.at(place)));
          CHECK(largest < 1e-4);
        }
      }
    }
  }
}

TEST_CASE("variants of one pass have the figures that each has alone") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt_neox);
  const std::vector<std::string> modes{"baseline", "flash", "reference"};
  for (const bool paired : {false, true}) {
    CAPTURE(paired);
    const std::vector<VariantPair> pairs =
        paired ? std::vector<VariantPair>{{0, 1}, {0, 2}} : std::vector<VariantPair>{};
    const Run together = run_protocol(platform, model, Protocol::full, modes, 3, 1, 1, pairs);
    std::vector<Run> alone;
    for (const std::string& mode : modes)
      alone.push_back(run_protocol(platform, model, Protocol::full, {mode}, 3, 1));
    for (std::size_t v = 0; v < modes.size(); ++v) {
      check_equal(together.score.variants[v].perplexity, alone[v].score.variants[0].perplexity);
      for (const auto& [place, loss] : alone[v].losses) {
        auto with_variant = place;
        with_variant[0] = static_cast<std::int64_t>(v);
        CHECK(together.losses.at(with_variant) == loss);
      }
      CHECK(together.score.variants[v].seconds > 0);
    }
    if (!paired) continue;
    // The differences of losses, from the losses of each alone.
    for (std::size_t p = 0; p < 2; ++p) {
      double largest = 0;
      RunningMoments differences;
      for (const auto& [place, loss] : alone[0].losses) {
        const double difference = alone[p + 1].losses.at(place) - loss;
        largest = std::max(largest, std::fabs(difference));
        differences.add(difference);
      }
      const LossDifference& found = together.score.pairs[p].losses;
      CHECK(found.max_diff == largest);
      CHECK(found.diffs.count() == differences.count());
      CHECK(found.mean() == Approx(differences.mean()).epsilon(1e-9).margin(1e-15));
      CHECK(
          *found.standard_error() ==
          Approx(std::sqrt(differences.variance() / static_cast<double>(differences.count()))).epsilon(1e-9));
    }
  }
}

TEST_CASE("a text read ahead in a thread gives the passages counts and hash of one read at once") {
  for (const Protocol protocol : kProtocols) {
    CAPTURE(kProtocolNames.name(protocol));
    const ReadPlan whole = read_all(protocol, texts(), kTokenizer, plan());
    PassageReader reader = reader_of(protocol);
    ReadAhead<Passage> ahead([&] { return reader.next(); }, memory_bytes, 500);
    std::size_t count = 0;
    std::vector<TokenId> ids;
    while (const auto passage = ahead.next()) {
      REQUIRE(count < whole.passages.size());
      const Passage& expected = whole.passages[count++];
      CHECK(passage->name == expected.name);
      CHECK(passage->ids == expected.ids);
      CHECK(passage->windows == expected.windows);
      CHECK(passage->window_weights == expected.window_weights);
      CHECK(passage->counts.has_value() == (protocol == Protocol::lm_eval));
      CHECK(passage->window_counts.size() == (passage->counts ? 0 : passage->windows.size()));
      ids.insert(ids.end(), passage->ids.begin(), passage->ids.end());
    }
    CHECK(count == whole.passages.size());
    CHECK(reader.totals().tokens == static_cast<std::int64_t>(ids.size()));
    CHECK(reader.totals().token_sha256 == token_stream_sha256(ids));
    CHECK(reader.totals().tokens_scored == whole.tokens_scored);
    CHECK(reader.totals().samples_used == whole.samples_used);
  }
}

TEST_CASE("a source that breaks off leaves what was scored") {
  Platform platform = open_platform("cpu");
  const Model model = tiny_model(platform, Family::gpt2);
  const ScoringRoom room{2, kContext, 16, 1};
  Transformer transformer(platform, model, room.shape(1));
  WindowScorer scorer({{&transformer, &platform.backend("flash"), ForwardPath::prefill}}, {}, room);
  PassageReader reader = reader_of(Protocol::full);
  int given = 0;
  const ScoreRun run = score_run(
      scorer,
      [&]() -> std::optional<Passage> {
        if (given++ == 3) fail(ErrorKind::bad_input, "torn");
        return reader.next();
      },
      Estimator::tokens);
  REQUIRE(run.source_error.has_value());
  CHECK(run.source_error->kind() == ErrorKind::bad_input);
  CHECK_FALSE(run.complete());
  CHECK(run.variants[0].perplexity.tokens_scored == 89 + 6 + 30);
  CHECK(run.variants[0].perplexity.stopped);
}

TEST_CASE("a window's operations are those of a prefill with the head on every scored row") {
  ModelConfig config;
  config.layers = 3;
  config.hidden = 32;
  config.q_heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.ffn_hidden = 64;
  config.vocab = 100;
  const auto flops = [&](std::int64_t tokens, std::int64_t first_scored) {
    return scoring_flops(config, {0, tokens, first_scored});
  };
  // qkv 32 x (4 + 2 * 2) 8, output 32 x 32, two of 32 x 64; q (q + 1) / 2 pairs of 10 tokens; the head.
  const double weights = 32 * 64 + 32 * 32 + 2 * 32 * 64;
  CHECK(flops(10, 9) == 2 * 10 * 3 * weights + 3 * 4.0 * 32 * 55 + 2 * 32 * 100.0);
  CHECK(flops(10, 1) - flops(10, 9) == 8 * 2 * 32 * 100.0);
  CHECK(flops(20, 19) > 2 * flops(10, 9) - 2 * 32 * 100.0);
}
