// Statistics, token metrics and the order of repetitions, on synthetic numbers.
#include <limits>
#include <vector>

#include "lib/core/error.h"
#include "lib/measure/schedule.h"
#include "lib/measure/statistics.h"
#include "lib/measure/token_times.h"
#include "tests/catch.h"

using namespace attn;

TEST_CASE("a summary interpolates its percentiles and divides the variance by n minus one") {
  const std::vector<double> samples{4, 1, 3, 2};
  const auto summary = summary_of(samples);
  REQUIRE(summary);
  CHECK(summary->n == 4);
  CHECK(summary->median == Approx(2.5));
  CHECK(summary->mean == Approx(2.5));
  CHECK(*summary->stddev == Approx(1.2909944487358056));
  CHECK(summary->p10 == Approx(1.3));
  CHECK(summary->p90 == Approx(3.7));
  CHECK(summary->p99 == Approx(3.97));
  CHECK(summary->min == 1);
  CHECK(summary->max == 4);
}

TEST_CASE("one sample has no standard deviation and no samples have no summary") {
  const std::vector<double> one{7};
  const auto summary = summary_of(one);
  REQUIRE(summary);
  CHECK_FALSE(summary->stddev);
  CHECK(summary->median == 7);
  CHECK(summary->p99 == 7);
  CHECK_FALSE(summary_of({}));
  CHECK_FALSE(median({}));
  CHECK_FALSE(geometric_mean({}));
}

TEST_CASE("the standard deviation of long runs is exact") {
  // Five samples around 60 s in ns: a sum of squares in 64-bit integers would wrap.
  const std::vector<double> ns{60.0e9, 61.0e9, 59.0e9, 60.5e9, 59.5e9};
  CHECK(*summary_of(ns)->stddev == Approx(0.7905694150420949e9).epsilon(1e-12));
  // A small spread on a large offset: the textbook formula loses it all.
  const std::vector<double> close{1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
  CHECK(*summary_of(close)->stddev == Approx(5.477225575051661).epsilon(1e-9));
}

TEST_CASE("samples that are not finite are refused") {
  const std::vector<double> bad{1, std::numeric_limits<double>::quiet_NaN()};
  CHECK_THROWS_AS(summary_of(bad), Error);
  const std::vector<double> zero{1, 0};
  CHECK_THROWS_AS(geometric_mean(zero), Error);
}

TEST_CASE("the geometric mean of a ratio and its inverse is one") {
  const std::vector<double> ratios{2, 0.5, 4, 0.25};
  CHECK(*geometric_mean(ratios) == Approx(1.0));
  const std::vector<double> powers{1, 10, 100};
  CHECK(*geometric_mean(powers) == Approx(10.0));
}

TEST_CASE("token metrics of a known repetition") {
  const std::vector<double> stamps{100, 110, 120, 150};
  const TokenMetrics m = token_metrics(stamps, 1, 20);
  CHECK(m.ttft_ms == 100);
  CHECK(m.itl_ms == std::vector<double>{10, 10, 30});
  CHECK(*m.tpot_ms == Approx(16.6666667));
  CHECK(m.tpot_reason.empty());
  CHECK(m.e2e_ms == 150);
  CHECK(*m.output_tps == Approx(26.6666667));
  CHECK(*m.decode_tps == Approx(60.0));
  CHECK(*m.total_tps == Approx(160.0));
  CHECK(*m.prefill_tps == Approx(200.0));
}

TEST_CASE("throughput counts every sequence of the batch and latency does not") {
  const std::vector<double> stamps{100, 110, 120, 150};
  const TokenMetrics one = token_metrics(stamps, 1, 20);
  const TokenMetrics eight = token_metrics(stamps, 8, 20);
  CHECK(eight.ttft_ms == one.ttft_ms);
  CHECK(*eight.tpot_ms == *one.tpot_ms);
  CHECK(*eight.decode_tps == Approx(8 * *one.decode_tps));
  CHECK(*eight.output_tps == Approx(8 * *one.output_tps));
  CHECK(*eight.total_tps == Approx(8 * *one.total_tps));
  CHECK(*eight.prefill_tps == Approx(8 * *one.prefill_tps));
}

TEST_CASE("one new token has no time per output token but a reason") {
  const std::vector<double> stamps{100};
  const TokenMetrics m = token_metrics(stamps, 2, 20);
  CHECK_FALSE(m.tpot_ms);
  CHECK_FALSE(m.decode_tps);
  CHECK_FALSE(m.tpot_reason.empty());
  CHECK(m.itl_ms.empty());
  CHECK(m.ttft_ms == m.e2e_ms);
  CHECK(*m.output_tps == Approx(20.0));
}

TEST_CASE("tokens at the same instant have no rate instead of an infinite one") {
  const std::vector<double> stamps{0, 0};
  const TokenMetrics m = token_metrics(stamps, 1, 1);
  CHECK(*m.tpot_ms == 0);
  CHECK_FALSE(m.decode_tps);
  CHECK_FALSE(m.output_tps);
  CHECK_FALSE(m.prefill_tps);
}

TEST_CASE("pooled gaps of several repetitions never contain a prefill") {
  // Three repetitions of four tokens, 100 ms of prefill and 10 ms a token: nine gaps, all of them 10 ms.
  std::vector<double> gaps;
  for (int rep = 0; rep < 3; ++rep) {
    const std::vector<double> stamps{100, 110, 120, 130};
    const TokenMetrics m = token_metrics(stamps, 1, 8);
    gaps.insert(gaps.end(), m.itl_ms.begin(), m.itl_ms.end());
  }
  CHECK(gaps.size() == 9);
  CHECK(summary_of(gaps)->max == 10);
  CHECK(summary_of(gaps)->min == 10);
}

TEST_CASE("impossible time stamps are refused") {
  CHECK_THROWS_AS(token_metrics({}, 1, 1), Error);
  const std::vector<double> backwards{100, 90};
  CHECK_THROWS_AS(token_metrics(backwards, 1, 1), Error);
  const std::vector<double> negative{-1};
  CHECK_THROWS_AS(token_metrics(negative, 1, 1), Error);
  const std::vector<double> fine{1};
  CHECK_THROWS_AS(token_metrics(fine, 0, 1), Error);
}

TEST_CASE("each metric has a unit and a formula") {
  CHECK(token_metric_definitions().size() >= 8);
  for (const auto& definition : token_metric_definitions()) {
    CHECK_FALSE(definition.name.empty());
    CHECK_FALSE(definition.unit.empty());
    CHECK_FALSE(definition.formula.empty());
  }
}

TEST_CASE("modes alternate and the cold run of each comes first") {
  const auto runs = interleave(2, 1, 2);
  std::vector<int> modes;
  for (const auto& run : runs) modes.push_back(run.mode);
  CHECK(modes == std::vector<int>{0, 1, 0, 1, 0, 1, 0, 1});
  CHECK(runs[0].kind == RunKind::cold);
  CHECK(runs[1].kind == RunKind::cold);
  CHECK(runs[2].kind == RunKind::warmup);
  CHECK(runs[3].kind == RunKind::warmup);
  CHECK(runs[4].kind == RunKind::timed);
  CHECK(runs[4].index == 0);
  CHECK(runs[7].index == 1);
}

TEST_CASE("without warm-up the cold run is still apart from the timed ones") {
  const auto runs = interleave(1, 0, 3);
  REQUIRE(runs.size() == 4);
  CHECK(runs[0].kind == RunKind::cold);
  for (std::size_t i = 1; i < 4; ++i) CHECK(runs[i].kind == RunKind::timed);
}

TEST_CASE("a schedule without modes or repetitions is refused") {
  CHECK_THROWS_AS(interleave(0, 1, 1), Error);
  CHECK_THROWS_AS(interleave(1, -1, 1), Error);
  CHECK_THROWS_AS(interleave(1, 0, 0), Error);
}
