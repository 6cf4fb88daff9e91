// The next token: greedy choice, the sets that top-k and top-p leave, and the frequencies of many draws.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "lib/backend/platform.h"
#include "tests/catch.h"

using namespace attn;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::int32_t pick(const Platform& platform, std::vector<float> row, const SamplingConfig& sampling,
                  std::int32_t past) {
  std::int32_t next = -1;
  platform.ops->pick_token({row.data(), DType::f32, {1, static_cast<std::int64_t>(row.size())}}, sampling,
                           &past, {&next, DType::i32, {1}});
  return next;
}

std::vector<int> counts(const std::vector<float>& row, const SamplingConfig& sampling, int draws) {
  const Platform platform = open_platform("cpu");
  std::vector<int> out(row.size(), 0);
  for (int n = 0; n < draws; ++n) ++out[static_cast<std::size_t>(pick(platform, row, sampling, n))];
  return out;
}

std::set<int> support(const std::vector<float>& row, const SamplingConfig& sampling) {
  std::set<int> out;
  const std::vector<int> all = counts(row, sampling, 3000);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] > 0) out.insert(static_cast<int>(i));
  }
  return out;
}

SamplingConfig drawn(float temperature, int top_k = 0, float top_p = 1, std::uint64_t seed = 3) {
  SamplingConfig sampling;
  sampling.temperature = temperature;
  sampling.top_k = top_k;
  sampling.top_p = top_p;
  sampling.seed = seed;
  return sampling;
}

// ln of 0.4, 0.3, 0.2, 0.1 in mixed order: ids 2, 0, 3, 1.
const std::vector<float> kRow = {std::log(0.3F), std::log(0.1F), std::log(0.4F), std::log(0.2F)};

}  // namespace

TEST_CASE("greedy picks the largest and the lowest id among equals") {
  const Platform platform = open_platform("cpu");
  CHECK(pick(platform, {0, 3, 1}, {}, 0) == 1);
  CHECK(pick(platform, {2, 5, 5, 5}, {}, 0) == 1);
  CHECK(pick(platform, {-7}, {}, 0) == 0);
  CHECK(pick(platform, {1, kInfinity, 2}, {}, 0) == 1);
}

TEST_CASE("NaN and minus infinity are never picked while a number is there") {
  const Platform platform = open_platform("cpu");
  for (const SamplingConfig& sampling :
       {SamplingConfig{}, drawn(1), drawn(1, 2), drawn(1, 0, 0.9F), drawn(0.5F, 3, 0.5F)}) {
    for (int past = 0; past < 50; ++past) {
      CHECK(pick(platform, {kNan, -kInfinity, -1, kNan, kNan}, sampling, past) == 2);
      CHECK(pick(platform, {kNan, kNan}, sampling, past) == 0);
      CHECK(pick(platform, {-kInfinity, -kInfinity}, sampling, past) == 0);
      CHECK(pick(platform, {1, 2, kInfinity}, sampling, past) == 2);
    }
  }
}

TEST_CASE("draws follow the softmax at the temperature") {
  constexpr int kDraws = 40000;
  for (const float temperature : {1.0F, 0.5F, 2.0F}) {
    const std::vector<int> seen = counts(kRow, drawn(temperature), kDraws);
    double total = 0;
    for (float logit : kRow) total += std::exp(static_cast<double>(logit / temperature));
    for (std::size_t i = 0; i < kRow.size(); ++i) {
      const double share = std::exp(static_cast<double>(kRow[i] / temperature)) / total;
      const double deviation = std::sqrt(share * (1 - share) / kDraws);
      CHECK(std::fabs(static_cast<double>(seen[i]) / kDraws - share) < 5 * deviation);
    }
  }
}

TEST_CASE("top k keeps the k largest and the lower ids among equals") {
  CHECK(support(kRow, drawn(1, 1)) == std::set<int>{2});
  CHECK(support(kRow, drawn(1, 2)) == std::set<int>{0, 2});
  CHECK(support(kRow, drawn(1, 3)) == std::set<int>{0, 2, 3});
  CHECK(support(kRow, drawn(1, 50)) == std::set<int>{0, 1, 2, 3});
  CHECK(support({1, 1, 1, 1}, drawn(1, 2)) == std::set<int>{0, 1});
}

TEST_CASE("top p keeps the shortest run of largest whose share reaches p") {
  CHECK(support(kRow, drawn(1, 0, 0.05F)) == std::set<int>{2});
  CHECK(support(kRow, drawn(1, 0, 0.39F)) == std::set<int>{2});
  CHECK(support(kRow, drawn(1, 0, 0.41F)) == std::set<int>{0, 2});
  CHECK(support(kRow, drawn(1, 0, 0.69F)) == std::set<int>{0, 2});
  CHECK(support(kRow, drawn(1, 0, 0.71F)) == std::set<int>{0, 2, 3});
  CHECK(support(kRow, drawn(1, 0, 1.0F)) == std::set<int>{0, 1, 2, 3});
}

TEST_CASE("many ties at the border of top k and of top p keep the lower ids") {
  std::vector<float> row(200, -4);  // 10 above at the end, the others tie
  std::fill(row.end() - 10, row.end(), -2.0F);
  std::set<int> kept;
  for (int i = 0; i < 20; ++i) kept.insert(i);
  for (int i = 190; i < 200; ++i) kept.insert(i);
  CHECK(support(row, drawn(1, 30)) == kept);
  // In units of a tie's share: what reaches 10 e^2 + 19.5 of 10 e^2 + 190 is what 20 ties reach.
  const double above = 10 * std::exp(2.0);
  CHECK(support(row, drawn(1, 0, static_cast<float>((above + 19.5) / (above + 190)))) == kept);
  CHECK(support(std::vector<float>(64, 3), drawn(1, 0, 0.25F)).size() == 16);
  CHECK(support(std::vector<float>(64, 3), drawn(1, 0, 1e-6F)) == std::set<int>{0});
}

TEST_CASE("top p counts within what top k left and after the temperature") {
  // Of 0.4 and 0.3 the first has 4/7.
  CHECK(support(kRow, drawn(1, 2, 0.55F)) == std::set<int>{2});
  CHECK(support(kRow, drawn(1, 2, 0.6F)) == std::set<int>{0, 2});
  // At temperature 0.25 the first has 0.4^4 / (0.4^4 + 0.3^4 + 0.2^4 + 0.1^4) = 0.72.
  CHECK(support(kRow, drawn(0.25F, 0, 0.7F)) == std::set<int>{2});
}

TEST_CASE("a draw depends on seed and row and position alone") {
  const Platform platform = open_platform("cpu");
  std::vector<float> row(200);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 7);
  std::vector<float> two = row;
  two.insert(two.end(), row.begin(), row.end());
  int differ_by_row = 0;
  int differ_by_seed = 0;
  for (std::int32_t past = 0; past < 40; ++past) {
    std::int32_t next[2] = {-1, -1};
    platform.ops->pick_token({two.data(), DType::f32, {2, 200}}, drawn(1), &past, {next, DType::i32, {2}});
    CHECK(next[0] == pick(platform, row, drawn(1), past));
    differ_by_row += next[0] != next[1];
    differ_by_seed += next[0] != pick(platform, row, drawn(1, 0, 1, 4), past);
  }
  CHECK(differ_by_row > 20);
  CHECK(differ_by_seed > 20);
}

TEST_CASE("very low temperatures draw what greedy picks") {
  const std::vector<int> seen = counts({0.1F, 0.5F, 0.3F}, drawn(1e-6F), 200);
  CHECK(seen[1] == 200);
}
