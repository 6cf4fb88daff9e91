// The next token on the GPU: rows that are hard to divide against the CPU, what ties leave at the borders of
// top-k and top-p, the frequencies of many draws, the same bits again.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "lib/backend/platform.h"
#include "lib/core/rng.h"
#include "tests/gpu.h"

using namespace attn;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingConfig drawn(float temperature, int top_k = 0, float top_p = 1) {
  SamplingConfig sampling;
  sampling.temperature = temperature;
  sampling.top_k = top_k;
  sampling.top_p = top_p;
  sampling.seed = 77;
  return sampling;
}

// Picks of `draws` rows that are all this row.
std::vector<std::int32_t> picks(Platform& platform, const std::vector<float>& row,
                                const SamplingConfig& sampling, std::int64_t draws,
                                std::int32_t position = 5) {
  const auto vocab = static_cast<std::int64_t>(row.size());
  Device& device = *platform.device;
  const Buffer logits = device.allocate(row.size() * 4, MemoryUse::other);
  device.upload(logits.data(), row.data(), row.size() * 4);
  const Buffer past = device.allocate(4, MemoryUse::other);
  device.upload(past.data(), &position, 4);
  std::vector<std::int32_t> out(static_cast<std::size_t>(draws), -1);
  const Tensor next = device.allocate_tensor(DType::i32, {draws}, MemoryUse::other);
  device.upload(next.view.data, out.data(), next.view.bytes());
  TensorView rows(logits.data(), DType::f32, {draws, vocab});
  rows.strides[0] = 0;
  platform.ops->pick_token(rows, sampling, static_cast<const std::int32_t*>(past.data()), next.view);
  device.download(out.data(), next.view.data, next.view.bytes());
  return out;
}

std::vector<float> normal(std::size_t vocab, float spread) {
  std::vector<float> row(vocab);
  for (std::size_t i = 0; i < vocab; ++i) row[i] = spread * random_normal(vocab, 0, i);
  return row;
}

// Ids, larger logits first, then lower ids; without NaN.
std::vector<std::size_t> order_of(const std::vector<float>& row) {
  std::vector<std::size_t> ids;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!std::isnan(row[i])) ids.push_back(i);
  }
  std::stable_sort(ids.begin(), ids.end(), [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  return ids;
}

struct Hard {
  std::string name;
  std::vector<float> row;
};

std::vector<Hard> hard_rows() {
  std::vector<Hard> rows;
  for (const std::size_t vocab : {2, 33, 1023, 1025, 8193, 33333, 128256}) {
    rows.push_back({"normal", normal(vocab, 2)});
    rows.push_back({"flat", normal(vocab, 0.05F)});
  }
  rows.push_back({"steep", normal(50257, 30)});
  rows.push_back({"all equal", std::vector<float>(50257, 1.5F)});
  rows.push_back({"whole numbers", normal(50257, 2)});
  for (float& logit : rows.back().row) logit = std::round(logit);
  rows.push_back({"eighths", normal(128256, 2)});
  for (float& logit : rows.back().row) logit = std::round(logit * 8) / 8;
  rows.push_back({"one huge", std::vector<float>(50257, -3)});
  rows.back().row[40000] = 60;
  rows.push_back({"holes", normal(50257, 1)});
  for (std::size_t i = 0; i < 50257; ++i) {
    if (i % 3 != 0) rows.back().row[i] = i % 2 == 0 ? -kInfinity : kNan;
  }
  rows.push_back({"three numbers", std::vector<float>(5000, kNan)});
  for (const std::size_t i : {77, 4000, 4001}) rows.back().row[i] = 1;
  rows.push_back({"neighbouring floats under three", std::vector<float>(50257, 10)});
  for (std::size_t i = 3; i < 50257; ++i) rows.back().row[i] = 1 + static_cast<float>(i % 50) * 0x1p-23F;
  rows.push_back({"ascending", std::vector<float>(50257)});
  for (std::size_t i = 0; i < 50257; ++i) rows.back().row[i] = static_cast<float>(i) * 1e-4F;
  rows.push_back({"the largest with few threads", normal(50257, 1)});
  for (std::size_t i = 0; i < 50257; ++i) {
    if (i % 1024 < 10) rows.back().row[i] = 5;
  }
  return rows;
}

// Pearson's statistic of draws against the probabilities of ids in `order`, neighbours pooled until 20 are
// expected; in standard deviations above its mean. Infinite where an id without a share was drawn.
double excess(const std::vector<std::int32_t>& seen, const std::vector<std::size_t>& order,
              const std::vector<double>& shares) {
  std::vector<double> counts(shares.size(), 0);
  for (const std::int32_t id : seen) {
    if (id < 0 || shares.at(static_cast<std::size_t>(id)) == 0) return kInfinity;
    counts[static_cast<std::size_t>(id)] += 1;
  }
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  double chi_square = 0;
  double cells = 0;
  double expected = 0;
  double found = 0;
  for (const std::size_t id : order) {
    expected += shares[id] / total * static_cast<double>(seen.size());
    found += counts[id];
    if (expected < 20) continue;
    chi_square += (found - expected) * (found - expected) / expected;
    cells += 1;
    expected = found = 0;
  }
  return (chi_square - cells) / std::sqrt(2 * std::max(cells, 1.0));
}

}  // namespace

TEST_CASE("rows that are hard to divide are picked by the GPU as by the CPU and the same again") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  constexpr std::int64_t kDraws = 4;
  int differing = 0;
  int drawn_in_all = 0;
  for (const Hard& hard : hard_rows()) {
    std::vector<std::size_t> rank(hard.row.size(), 0);
    std::size_t place = 0;
    for (const std::size_t id : order_of(hard.row)) rank[id] = place++;
    for (const SamplingConfig& sampling :
         {drawn(0), drawn(1), drawn(0.8F, 40), drawn(1, 768), drawn(1, 769), drawn(1, 20000),
          drawn(1, 1 << 30), drawn(1, 0, 0.9F), drawn(1, 0, 1e-6F), drawn(100, 0, 0.5F),
          drawn(1.3F, 200, 0.5F), drawn(1, 3000, 0.8F), drawn(1e-6F, 0, 0.9F), drawn(1e-40F, 50)}) {
      CAPTURE(hard.name, hard.row.size(), sampling.temperature, sampling.top_k, sampling.top_p);
      const auto expected = picks(cpu, hard.row, sampling, kDraws);
      const auto ours = picks(gpu, hard.row, sampling, kDraws);
      CHECK(ours == picks(gpu, hard.row, sampling, kDraws));
      for (std::size_t i = 0; i < ours.size(); ++i) {
        REQUIRE(ours[i] >= 0);
        REQUIRE(ours[i] < static_cast<std::int32_t>(hard.row.size()));
        ++drawn_in_all;
        if (ours[i] == expected[i]) continue;
        // A mark within a rounding of a border falls on its other side: to the next token, by rank or by id.
        ++differing;
        const auto by_rank = static_cast<long>(rank[static_cast<std::size_t>(ours[i])]) -
                             static_cast<long>(rank[static_cast<std::size_t>(expected[i])]);
        const int apart = std::abs(ours[i] - expected[i]);
        CHECK((std::labs(by_rank) <= 1 || apart <= 3));  // two of three ids may be holes
      }
    }
  }
  CAPTURE(drawn_in_all);
  CHECK(differing <= drawn_in_all / 200);
}

// For compute-sanitizer, which is 10 to 100 times slower: each way through the kernel once or twice.
TEST_CASE("a few picks of every way of sampling are the CPU's") {
  ATTN_OPEN_GPU(gpu);
  Platform cpu = open_platform("cpu");
  for (const std::size_t vocab : {5, 3000}) {
    const std::vector<float> row = normal(vocab, 1);
    for (const SamplingConfig& sampling : {drawn(0), drawn(1), drawn(1, 3), drawn(1, 0, 0.9F)}) {
      CAPTURE(vocab, sampling.temperature, sampling.top_k, sampling.top_p);
      CHECK(picks(gpu, row, sampling, 2) == picks(cpu, row, sampling, 2));
    }
  }
}

TEST_CASE("the GPU keeps the lower ids of those that tie at the border of top k and of top p") {
  ATTN_OPEN_GPU(gpu);
  constexpr std::int64_t kDraws = 20000;
  const auto support = [&](const std::vector<float>& row, const SamplingConfig& sampling) {
    const auto seen = picks(gpu, row, sampling, kDraws);
    return std::set<std::int32_t>(seen.begin(), seen.end());
  };
  const auto first_ids = [](std::int32_t count) {
    std::set<std::int32_t> ids;
    for (std::int32_t i = 0; i < count; ++i) ids.insert(ids.end(), i);
    return ids;
  };
  for (const std::size_t vocab : {1000, 8192}) {  // within what a list holds, and beyond
    CAPTURE(vocab);
    const std::vector<float> equal(vocab, -4);
    CHECK(support(equal, drawn(1, 500)) == first_ids(500));
    CHECK(support(equal, drawn(1, 900)) == first_ids(900));
    CHECK(support(equal, drawn(1, 0, 500.0F / static_cast<float>(vocab))) == first_ids(500));
    CHECK(support(equal, drawn(1, 800, 0.5F)) == first_ids(400));
    std::vector<float> border = equal;  // 10 above at the end, the others tie
    std::fill(border.end() - 10, border.end(), -2.0F);
    std::set<std::int32_t> kept = first_ids(90);
    for (int i = 1; i <= 10; ++i) kept.insert(static_cast<std::int32_t>(vocab) - i);
    CHECK(support(border, drawn(1, 100)) == kept);
    // Of 10 e^2 + vocab - 10 units what reaches 10 e^2 + 89.5 is what 90 ties reach.
    const double above = 10 * std::exp(2.0);
    const double share = (above + 89.5) / (above + static_cast<double>(vocab) - 10);
    CHECK(support(border, drawn(1, 0, static_cast<float>(share))) == kept);
    std::vector<float> huge = equal;
    huge[vocab / 2] = 100;
    CHECK(support(huge, drawn(1)) == std::set<std::int32_t>{static_cast<std::int32_t>(vocab / 2)});
    CHECK(support(huge, drawn(1, 0, 0.9F)) == std::set<std::int32_t>{static_cast<std::int32_t>(vocab / 2)});
  }
  for (const SamplingConfig& sampling : {drawn(1), drawn(1, 7), drawn(1, 0, 0.5F)})
    CHECK(support(std::vector<float>(5001, -kInfinity), sampling) == std::set<std::int32_t>{0});
}

TEST_CASE("the frequencies of 20000 draws on the GPU are those of the softmax within the limits") {
  ATTN_OPEN_GPU(gpu);
  constexpr std::int64_t kDraws = 20000;
  for (const std::size_t vocab : {300, 20011}) {
    for (const float spread : {0.1F, 2.0F}) {
      const std::vector<float> row = normal(vocab, spread);
      const std::vector<std::size_t> order = order_of(row);
      for (const SamplingConfig& sampling :
           {drawn(1), drawn(0.7F), drawn(1, 100), drawn(1.5F, 5000), drawn(1, 0, 0.3F), drawn(0.8F, 0, 0.95F),
            drawn(1, 4000, 0.9F), drawn(1, 200, 0.9F)}) {
        CAPTURE(vocab, spread, sampling.temperature, sampling.top_k, sampling.top_p);
        std::vector<double> shares(vocab, 0);
        std::size_t kept = order.size();
        if (sampling.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(sampling.top_k));
        double total = 0;
        for (std::size_t i = 0; i < kept; ++i) {
          shares[order[i]] =
              std::exp(static_cast<double>(row[order[i]]) / static_cast<double>(sampling.temperature));
          total += shares[order[i]];
        }
        double run = 0;
        for (std::size_t i = 0; i < kept; ++i) {
          // One more than the sum asks for may be kept, should roundings differ: its frequency is next to
          // none.
          if (run > static_cast<double>(sampling.top_p) * total * (1 + 1e-6)) shares[order[i]] = 0;
          run += shares[order[i]];
        }
        CHECK(excess(picks(gpu, row, sampling, kDraws), order, shares) < 5);
      }
    }
  }
}
