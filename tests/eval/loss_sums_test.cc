// Sums of losses in bounded memory: what is merged, and what must not change by it.
#include "lib/eval/loss_sums.h"

#include <cmath>

#include <sys/resource.h>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/eval/paired_ratio.h"
#include "tests/catch.h"
#include "tests/eval/read_all.h"

using namespace attn;

namespace {

// Neighbours move together.
double loss_at(std::size_t i) {
  return 3 + std::sin(static_cast<double>(i) / 150) + 0.5 * static_cast<double>(random_normal(5, 0, i));
}

// Windows of `window` new tokens without overlap; with weights of labels.
Passage passage_of(std::int64_t tokens, std::int64_t window, const std::string& name = "text") {
  Passage passage{name, std::vector<TokenId>(static_cast<std::size_t>(tokens)), {}};
  for (std::int64_t begin = 0; begin < tokens; begin += window) {
    passage.windows.push_back({begin, std::min(begin + window, tokens), begin, true});
    passage.window_weights.push_back(static_cast<double>(1 + begin / window % 7));
    passage.window_counts.push_back({2 * passage.windows.back().scored(), 1});
  }
  passage.bos = 0;
  return passage;
}

PerplexityResult sum(Estimator estimator, std::size_t tokens, std::size_t cells) {
  std::vector<double> losses;
  const std::vector<Passage> passages{passage_of(static_cast<std::int64_t>(tokens / 3), 16, "a"),
                                      passage_of(static_cast<std::int64_t>(tokens - tokens / 3), 16, "b")};
  std::size_t next = 0;
  return sum_losses(
      passages, estimator,
      [&](const Passage&, const Window& window) {
        losses.clear();
        for (std::int64_t i = 0; i < window.scored(); ++i) losses.push_back(loss_at(next++));
        return std::span<const double>(losses);
      },
      SIZE_MAX, cells);
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

TEST_CASE("a bootstrap over merged cells is that of the tokens within a few percent") {
  constexpr std::size_t kTokens = 60000;
  for (const Estimator estimator :
       {Estimator::tokens, Estimator::windows, Estimator::labels, Estimator::passages}) {
    const PerplexityResult exact = sum(estimator, kTokens, kBootstrapCells);
    REQUIRE(exact.bootstrap.has_value());
    CHECK(exact.bootstrap->block == 245);
    for (const std::size_t cells : {std::size_t{32768}, std::size_t{8192}, std::size_t{2048}}) {
      CAPTURE(kEstimatorNames.name(estimator), cells);
      const PerplexityResult merged = sum(estimator, kTokens, cells);
      CHECK(merged.bootstrap->error == Approx(exact.bootstrap->error).epsilon(0.08));
      CHECK(std::fabs(static_cast<double>(merged.bootstrap->block - 245)) <=
            static_cast<double>(kTokens) / static_cast<double>(cells));
      // Nothing else knows of cells.
      CHECK(*merged.perplexity == *exact.perplexity);
      CHECK(*merged.standard_error == *exact.standard_error);
      CHECK(merged.nll_sum == exact.nll_sum);
    }
  }
}

TEST_CASE("up to as many tokens as cells the bootstrap is that of the losses bit by bit") {
  constexpr std::size_t kTokens = 4096;
  std::vector<double> losses, weights;
  for (std::size_t i = 0; i < kTokens; ++i) losses.push_back(loss_at(i));
  for (const std::size_t cells : {kTokens, 2 * kTokens, kBootstrapCells}) {
    const auto expected = block_bootstrap(losses, {});
    CHECK(sum(Estimator::tokens, kTokens, cells).bootstrap->error == expected->error);
    CHECK(sum(Estimator::tokens, kTokens, cells).bootstrap->block == expected->block);
  }
  const std::size_t first = kTokens / 3;
  for (std::size_t i = 0; i < kTokens; ++i) {
    const std::size_t place = i < first ? i : i - first, size = i < first ? first : kTokens - first;
    const std::size_t scored = std::min<std::size_t>(16, size - place / 16 * 16);
    weights.push_back(static_cast<double>(1 + place / 16 % 7) / static_cast<double>(scored));
  }
  CHECK(sum(Estimator::labels, kTokens, kTokens).bootstrap->error == block_bootstrap(losses, weights)->error);
  CHECK(sum(Estimator::tokens, kTokens, kTokens - 2).bootstrap->error != block_bootstrap(losses, {})->error);
}

TEST_CASE("cells that weigh nothing and a last cell that is not whole do no harm") {
  LossCells cells(false, 4);
  for (int i = 0; i < 11; ++i) cells.add(1 + i % 3, i % 2);
  CHECK(cells.cell_tokens() == 4);
  const auto bootstrap = cells.bootstrap();
  REQUIRE(bootstrap.has_value());
  CHECK(std::isfinite(bootstrap->error));
  LossCells same(true, 4);
  for (int i = 0; i < 11; ++i) same.add(2.5, 1);
  CHECK(same.bootstrap()->error == 0);
  CHECK_THROWS_AS(LossCells(true, 3), Error);
}

TEST_CASE("fifty million losses take no more memory than two million") {
  constexpr std::int64_t kWindow = 1024, kWindows = 64;
  const Passage passage = passage_of(kWindow * kWindows, kWindow);
  PerplexitySums by_token(Estimator::tokens), by_label(Estimator::labels);
  std::vector<double> losses(kWindow);
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i] = loss_at(i);
  const auto feed = [&](PerplexitySums& sums, std::int64_t passages) {
    for (std::int64_t i = 0; i < passages; ++i) {
      for (std::size_t window = 0; window < passage.windows.size(); ++window)
        sums.add(passage, window, losses);
    }
  };
  feed(by_token, 32);
  feed(by_label, 32);
  by_label.result(false);
  const double before = peak_mib();
  feed(by_token, 732);  // 50 million in all
  feed(by_label, 100);
  CHECK(by_token.tokens_scored() > 50000000);
  const PerplexityResult result = by_token.result(false);
  CHECK(peak_mib() - before < 48);  // losses alone would be 380 MiB
  CHECK(*result.log_perplexity == Approx([&] {
                                    double sum = 0;
                                    for (const double loss : losses) sum += loss;
                                    return sum / kWindow;
                                  }())
                                      .epsilon(1e-13));
  CHECK(result.passages.size() == 764);
  CHECK(result.passage_count == 764);
  CHECK(result.bootstrap->block % 64 == 0);
}

TEST_CASE("the first thousand passages are kept and all are in the macro average") {
  PerplexitySums sums(Estimator::tokens);
  double macro = 0, micro = 0;
  std::int64_t tokens = 0;
  for (int i = 0; i < 2500; ++i) {
    const int size = 1 + i % 9;
    const std::vector<double> losses(static_cast<std::size_t>(size), 1 + i % 4);
    const Passage passage = passage_of(size, 16, "text " + std::to_string(i));
    REQUIRE(sums.add(passage, 0, losses));
    macro += 1 + i % 4;
    micro += size * (1 + i % 4);
    tokens += size;
  }
  const PerplexityResult result = sums.result(false);
  CHECK(result.passages.size() == kKeptPassages);
  CHECK(result.passages.back().name == "text 999");
  CHECK(result.passage_count == 2500);
  CHECK(*result.macro_log_perplexity == Approx(macro / 2500).epsilon(1e-14));
  CHECK(*result.token_log_perplexity == Approx(micro / static_cast<double>(tokens)).epsilon(1e-14));
  CHECK(result.bytes_scored == 2 * tokens);
}

TEST_CASE("a paired error bar of text of any length has the blocks of that length") {
  for (const std::int64_t tokens : {40, 1000, 5119, 5120, 20000}) {
    CAPTURE(tokens);
    PairedRatio streamed, fixed(error_block_tokens(tokens));
    for (std::int64_t i = 0; i < tokens; ++i) {
      const double base = loss_at(static_cast<std::size_t>(i));
      const double other =
          base + 0.01 * static_cast<double>(random_normal(5, 1, static_cast<std::uint64_t>(i)));
      streamed.add(base, other);
      fixed.add(base, other);
    }
    CHECK(streamed.result()->blocks == fixed.result()->blocks);
    CHECK(streamed.result()->log_standard_error == fixed.result()->log_standard_error);
    CHECK(streamed.result()->low == fixed.result()->low);
  }
}
