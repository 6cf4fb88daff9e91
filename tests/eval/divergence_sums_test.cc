// What many rows become: percentiles, paired error bars, buckets, the verdict.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/eval/accuracy_rule.h"
#include "lib/eval/position_buckets.h"
#include "tests/catch.h"

using namespace attn;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double nearest_rank(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(values.size())));
  return values[static_cast<std::size_t>(std::max<std::int64_t>(rank, 1) - 1)];
}

// A row of a divergence with these losses and nothing else of note.
RowDivergence row_of(double base_loss, double other_loss, double kl = 0) {
  RowDivergence row;
  row.kl = kl;
  row.target = {base_loss, other_loss, std::exp(-other_loss) - std::exp(-base_loss)};
  return row;
}

Divergence divergence_of(double max_diff, double kl, int rows = 10) {
  Divergence out;
  for (int i = 0; i < rows; ++i) {
    RowDivergence row;
    row.max_diff = max_diff;
    row.mean_diff = max_diff / 4;
    row.kl = kl;
    out.add(i, row);
  }
  return out;
}

RowDivergence nonfinite_row() {
  RowDivergence row;
  row.first_nonfinite = 3;
  return row;
}

}  // namespace

TEST_CASE("percentiles are those of the sorted values within the stated error in any order") {
  for (const double spread : {0.5, 3.0, 12.0}) {
    std::vector<double> values;
    for (std::uint64_t i = 0; i < 20000; ++i) {
      const double size = std::exp(spread * static_cast<double>(random_normal(5, 0, i)) - 5);
      values.push_back(random_bits(5, 1, i) % 3 == 0 ? -size : size);
      if (i % 50 == 0) values.push_back(0);
    }
    QuantileSketch forward, backward;
    for (std::size_t i = 0; i < values.size(); ++i) {
      forward.add(values[i]);
      backward.add(values[values.size() - 1 - i]);
    }
    CHECK(forward.count() == static_cast<std::int64_t>(values.size()));
    for (const double fraction : {0.0, 0.001, 0.01, 0.05, 0.25, 0.33, 0.34, 0.5, 0.75, 0.95, 0.999, 1.0}) {
      CAPTURE(spread, fraction);
      const double exact = nearest_rank(values, fraction);
      const double found = *forward.quantile(fraction);
      if (std::fabs(exact) < QuantileSketch::kSmallest) {
        CHECK(found == 0);
      } else if (std::fabs(exact) < QuantileSketch::kLargest) {
        CHECK(std::fabs(found - exact) <= std::fabs(exact) * QuantileSketch::kRelativeError);
      } else {
        CHECK(std::fabs(found) >= QuantileSketch::kLargest * (1 - QuantileSketch::kRelativeError));
      }
      CHECK(*backward.quantile(fraction) == found);
    }
    CHECK(*forward.quantile(0) == *std::min_element(values.begin(), values.end()));
    CHECK(*forward.quantile(1) == *std::max_element(values.begin(), values.end()));
  }
}

TEST_CASE("percentiles of powers of two and of bin edges stay in their bins") {
  for (int exponent = -64; exponent < 24; ++exponent) {
    QuantileSketch sketch;
    const double edge = std::ldexp(1.0, exponent);
    for (const double value : {-1e9, edge, std::nextafter(2 * edge, 0), 1e9}) sketch.add(value);
    CHECK(std::fabs(*sketch.quantile(0.5) - edge) <= edge * QuantileSketch::kRelativeError);
    CHECK(std::fabs(*sketch.quantile(0.75) - 2 * edge) <= 2 * edge * QuantileSketch::kRelativeError);
  }
}

TEST_CASE("percentiles of nothing and of zeros and of extremes") {
  QuantileSketch sketch;
  CHECK_FALSE(sketch.quantile(0.5).has_value());
  for (int i = 0; i < 5; ++i) sketch.add(0);
  CHECK(*sketch.quantile(0.5) == 0);
  CHECK(*sketch.quantile(1) == 0);
  for (int i = 0; i < 20; ++i) sketch.add(1e300);
  CHECK(*sketch.quantile(1) == 1e300);
  CHECK(*sketch.quantile(0.1) == 0);
  CHECK(*sketch.quantile(0.5) >= QuantileSketch::kLargest / 2);
  CHECK_THROWS_AS(sketch.add(kInfinity), Error);
  CHECK_THROWS_AS(sketch.add(std::nan("")), Error);
}

TEST_CASE("a paired error bar is that of the block means written out") {
  constexpr std::int64_t kBlock = 10;
  PairedRatio paired(kBlock);
  std::vector<double> base, other;
  for (std::uint64_t i = 0; i < 57; ++i) {
    base.push_back(3 + static_cast<double>(random_normal(2, 0, i)));
    other.push_back(base.back() + 0.01 + 0.02 * static_cast<double>(random_normal(2, 1, i)));
    paired.add(base.back(), other.back());
  }
  double sum = 0;
  std::vector<double> means(5, 0.0);
  for (std::size_t i = 0; i < 57; ++i) {
    sum += other[i] - base[i];
    if (i < 50) means[i / 10] += (other[i] - base[i]) / 10;
  }
  double mean = 0, squares = 0;
  for (const double x : means) mean += x / 5;
  for (const double x : means) squares += (x - mean) * (x - mean);
  const PerplexityRatio result = *paired.result();
  CHECK(result.tokens == 57);
  CHECK(result.blocks == 5);
  CHECK(result.log_ratio == Approx(sum / 57).epsilon(1e-12));
  CHECK(result.log_ratio == Approx(result.other_log_perplexity - result.base_log_perplexity).epsilon(1e-9));
  CHECK(*result.ratio == Approx(std::exp(sum / 57)).epsilon(1e-12));
  const double error = std::sqrt(squares / 4 * 10 / 57);
  CHECK(*result.log_standard_error == Approx(error).epsilon(1e-9));
  CHECK(*result.low == Approx(std::exp(sum / 57 - 2.776 * error)).epsilon(1e-9));
  CHECK(*result.high == Approx(std::exp(sum / 57 + 2.776 * error)).epsilon(1e-9));
}

TEST_CASE("a paired interval covers the true ratio as often as it says with neighbours that move together") {
  // Differences with a memory of about 10 tokens: x = 0.9 x + e. An error bar that took tokens as independent
  // would cover about a third.
  int covered = 0;
  double bar = 0, unpaired = 0;
  constexpr int kTrials = 400, kTokens = 6000;
  for (int trial = 0; trial < kTrials; ++trial) {
    PairedRatio paired;
    double base_sum = 0, base_squares = 0;
    double x = 0;
    for (int i = 0; i < kTokens; ++i) {
      const auto at = static_cast<std::uint64_t>(trial * kTokens + i);
      x = 0.9 * x + 0.01 * static_cast<double>(random_normal(8, 0, at));
      const double loss = 4 + 2 * static_cast<double>(random_normal(8, 1, at));
      base_sum += loss;
      base_squares += loss * loss;
      paired.add(loss, loss + 0.001 + x);
    }
    const PerplexityRatio result = *paired.result();
    if (*result.low <= std::exp(0.001) && std::exp(0.001) <= *result.high) ++covered;
    bar += *result.log_standard_error / kTrials;
    unpaired += std::sqrt((base_squares - base_sum * base_sum / kTokens) / kTokens / kTokens) / kTrials;
  }
  CHECK(covered >= 0.91 * kTrials);
  CHECK(covered <= 0.985 * kTrials);
  CHECK(bar < 0.1 * unpaired);
}

TEST_CASE("equal losses give the ratio one with no error and few tokens give no bar") {
  PairedRatio paired(4);
  CHECK_FALSE(paired.result().has_value());
  for (int i = 0; i < 7; ++i) paired.add(2.0 + i, 2.0 + i);
  CHECK_FALSE(paired.result()->log_standard_error.has_value());
  CHECK_FALSE(paired.result()->low.has_value());
  paired.add(1, 1);
  const PerplexityRatio result = *paired.result();
  CHECK(result.log_ratio == 0);
  CHECK(*result.ratio == 1);
  CHECK(*result.log_standard_error == 0);
  CHECK(*result.low == 1);
  CHECK(*result.high == 1);
}

TEST_CASE("a ratio beyond a double is missing and not infinite") {
  PairedRatio paired(1);
  paired.add(0, 1e38);
  paired.add(0, 1e38);
  CHECK_FALSE(paired.result()->ratio.has_value());
  CHECK(paired.result()->log_ratio == 1e38);
}

TEST_CASE("points of the t distribution and the length of blocks") {
  CHECK(student_t_975(1) == 12.706);
  CHECK(student_t_975(30) == 2.042);
  CHECK(student_t_975(31) == Approx(2.0395).margin(2e-4));
  CHECK(student_t_975(120) == Approx(1.9799).margin(1e-4));
  CHECK(student_t_975(1000000) == Approx(1.95996).margin(1e-5));
  CHECK_THROWS_AS(student_t_975(0), Error);
  CHECK(error_block_tokens(10) == 16);
  CHECK(error_block_tokens(1000) == 50);
  CHECK(error_block_tokens(287644) == 256);
}

TEST_CASE("buckets by context split all rows and add up to the whole") {
  BucketedDivergence divergence(100, 16);
  REQUIRE(divergence.buckets().size() == 4);
  CHECK(divergence.buckets()[0].name() == "1-16");
  CHECK(divergence.buckets()[1].name() == "17-32");
  CHECK(divergence.buckets()[3].name() == "65-100");
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t position = 0; position < 100; ++position)
      divergence.add(position,
                     row_of(1, 1 + static_cast<double>(position) * 1e-3, static_cast<double>(position)));
  }
  CHECK(divergence.all().rows == 300);
  CHECK(divergence.all().targets == 300);
  CHECK(divergence.all().max_kl == 99);
  CHECK(divergence.all().mean_kl() == Approx(49.5));
  CHECK(divergence.buckets()[0].divergence.rows == 48);
  CHECK(divergence.buckets()[0].divergence.max_kl == 15);
  CHECK(divergence.buckets()[1].divergence.mean_kl() == Approx(23.5));
  CHECK(divergence.buckets()[3].divergence.rows == 3 * 36);
  CHECK(divergence.buckets()[3].divergence.perplexity.result()->log_ratio == Approx(0.0815).epsilon(1e-12));
  CHECK(divergence.all().max_loss_diff == Approx(0.099));
  CHECK_THROWS_AS(divergence.add(100, row_of(1, 1)), Error);
  CHECK_THROWS_AS(BucketedDivergence(0, 16), Error);
  CHECK(BucketedDivergence(5, 16).buckets().front().last_seen == 5);
  CHECK(BucketedDivergence(16, 16).buckets().size() == 1);
  CHECK(BucketedDivergence(17, 16).buckets().back().first_seen == 17);
}

TEST_CASE("the change of the target's probability has mean and root mean square and percentiles") {
  Divergence divergence;
  for (const double q : {0.5, 0.25, 0.125, 0.5}) divergence.add(0, row_of(-std::log(0.25), -std::log(q)));
  divergence.add(1, nonfinite_row());
  CHECK(divergence.targets == 4);
  CHECK(divergence.mean_delta_p() == Approx((0.25 + 0 - 0.125 + 0.25) / 4));
  CHECK(divergence.rms_delta_p() == Approx(std::sqrt((0.0625 + 0.015625 + 0.0625) / 4)));
  CHECK(*divergence.delta_p.quantile(0) == Approx(-0.125));
  CHECK(*divergence.delta_p.quantile(1) == Approx(0.25));
  CHECK(divergence.max_loss_diff == Approx(std::log(2.0)));
  CHECK(Divergence().mean_delta_p() == 0);
}

TEST_CASE("the rule holds up to its factor and is broken beyond it by any figure") {
  const Divergence baseline = divergence_of(0.01, 1e-6);
  CHECK(judge_accuracy(divergence_of(0.0199, 1e-6), baseline).verdict == Verdict::holds);
  const RuleOutcome far = judge_accuracy(divergence_of(0.021, 1e-6), baseline);
  CHECK(far.verdict == Verdict::broken);
  REQUIRE(far.figures.size() == 3);
  CHECK(far.figures[0].error == 0.021);
  CHECK(far.figures[0].baseline_error == 0.01);
  CHECK(far.figures[0].limit == 0.02);
  CHECK_FALSE(far.figures[0].holds);
  CHECK(far.figures[2].holds);
  CHECK(far.reason.find("max_logit_diff") != std::string::npos);
  const RuleOutcome by_kl = judge_accuracy(divergence_of(0.01, 3e-6), baseline);
  CHECK(by_kl.verdict == Verdict::broken);
  CHECK(by_kl.reason.find("mean_kl") == 0);
  CHECK(judge_accuracy(divergence_of(0.021, 1e-6), baseline, {3, 0, 0}).verdict == Verdict::holds);
  // An exact baseline: rounding of f32 is within the floors.
  CHECK(judge_accuracy(divergence_of(1e-5, 1e-12), divergence_of(0, 0)).verdict == Verdict::holds);
  CHECK(judge_accuracy(divergence_of(1e-2, 1e-12), divergence_of(0, 0)).verdict == Verdict::broken);
}

TEST_CASE("without finite rows on both sides the rule has no verdict or is broken") {
  const Divergence good = divergence_of(0.01, 1e-6);
  Divergence bad = good;
  bad.add(7, nonfinite_row());
  const RuleOutcome mode = judge_accuracy(bad, good);
  CHECK(mode.verdict == Verdict::broken);
  CHECK(mode.reason.find("position 7") != std::string::npos);
  CHECK(judge_accuracy(good, bad).verdict == Verdict::undecided);
  CHECK(judge_accuracy(bad, bad).verdict == Verdict::undecided);
  CHECK(judge_accuracy(Divergence(), Divergence()).verdict == Verdict::undecided);
  const RuleOutcome shorter = judge_accuracy(divergence_of(0.01, 1e-6, 9), good);
  CHECK(shorter.verdict == Verdict::undecided);
  CHECK(shorter.reason.find("9 positions") == 0);
}
