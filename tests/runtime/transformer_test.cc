// Properties of the forward pass: the cache changes nothing, a row does not see its neighbours, memory is as
// predicted.
#include "lib/model/transformer.h"

#include <cmath>
#include <numeric>

#include "lib/core/error.h"
#include "tests/catch.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

constexpr int kTokens = 37;

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = difference <= worst ? worst : difference;  // NaN is kept
  }
  return worst;
}

// Logits of all tokens, fed in the given portions.
std::vector<float> in_portions(Platform& platform, const Model& model, const std::string& mode,
                               const std::vector<TokenId>& ids, const std::vector<int>& portions) {
  AttentionBackend& attention = platform.backend(mode);
  const int total = static_cast<int>(ids.size());
  Transformer transformer(platform, model, {1, total, total, total});
  std::vector<float> all;
  int done = 0;
  for (const int count : portions) {
    transformer.reserve(attention, {count, done + count});
    const auto part = std::span(ids).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count));
    const auto logits =
        download_logits(transformer, transformer.forward(transformer.upload_ids(part), attention));
    all.insert(all.end(), logits.begin(), logits.end());
    done += count;
  }
  return all;
}

}  // namespace

TEST_CASE("a prefill in chunks gives the logits of one prefill") {
  Platform platform = open_platform(test_device());
  const auto ids = random_prompt(61, kTokens, 3);
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    for (const std::string& mode : kModes) {
      CAPTURE(kFamilyNames.name(family), mode);
      const auto whole = in_portions(platform, model, mode, ids, {kTokens});
      CHECK(largest_difference(in_portions(platform, model, mode, ids, {16, 1, 20}), whole) < 1e-4);
    }
  }
}

TEST_CASE("decoding token by token gives the logits of one prefill") {
  Platform platform = open_platform(test_device());
  const auto ids = random_prompt(61, kTokens, 4);
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    for (const std::string& mode : kModes) {
      CAPTURE(kFamilyNames.name(family), mode);
      const auto whole = in_portions(platform, model, mode, ids, {kTokens});
      CHECK(largest_difference(in_portions(platform, model, mode, ids, std::vector<int>(kTokens, 1)), whole) <
            1e-4);
    }
  }
}

TEST_CASE("the modes give the same logits up to rounding") {
  Platform platform = open_platform(test_device());
  const auto ids = random_prompt(61, kTokens, 5);
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    const auto reference = in_portions(platform, model, "reference", ids, {kTokens});
    CHECK(largest_difference(in_portions(platform, model, "baseline", ids, {kTokens}), reference) < 1e-4);
    CHECK(largest_difference(in_portions(platform, model, "flash", ids, {kTokens}), reference) < 1e-4);
  }
}

TEST_CASE("a later token does not change an earlier one") {
  Platform platform = open_platform(test_device());
  auto ids = random_prompt(61, kTokens, 6);
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    for (const std::string& mode : kModes) {
      const auto before = in_portions(platform, model, mode, ids, {kTokens});
      auto changed = ids;
      changed.back() = (changed.back() + 1) % 61;
      const auto after = in_portions(platform, model, mode, changed, {kTokens});
      const std::size_t earlier = static_cast<std::size_t>(kTokens - 1) * 61;
      CHECK(std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(earlier), after.begin()));
      CHECK_FALSE(std::equal(before.begin() + static_cast<std::ptrdiff_t>(earlier), before.end(),
                             after.begin() + static_cast<std::ptrdiff_t>(earlier)));
    }
  }
}

TEST_CASE("a sequence in a batch has the logits that it has alone") {
  Platform platform = open_platform(test_device());
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    for (const std::string& mode : kModes) {
      CAPTURE(kFamilyNames.name(family), mode);
      AttentionBackend& attention = platform.backend(mode);
      std::vector<TokenId> all;
      std::vector<std::vector<TokenId>> rows;
      for (std::uint64_t row = 0; row < 3; ++row) {
        rows.push_back(random_prompt(61, 20, 8, row));
        all.insert(all.end(), rows.back().begin(), rows.back().end());
      }
      Transformer together(platform, model, {3, 20, 20, 60});
      together.reserve(attention, {20, 20});
      const auto company = download_logits(together, together.forward(together.upload_ids(all), attention));
      for (std::size_t row = 0; row < 3; ++row) {
        const auto alone = in_portions(platform, model, mode, rows[row], {20});
        const auto begin = company.begin() + static_cast<std::ptrdiff_t>(row * 20 * 61);
        // Matrix products of 60 rows and of 20 add up in another order, so bits may differ.
        CHECK(largest_difference(std::vector<float>(begin, begin + 20 * 61), alone) < 1e-4);
      }
    }
  }
}

TEST_CASE("clear forgets the tokens") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt_neox);
  AttentionBackend& attention = platform.backend("flash");
  Transformer transformer(platform, model, {1, 10, 10, 10});
  transformer.reserve(attention, {10, 10});
  const auto ids = random_prompt(61, 10, 9);
  const auto first =
      download_logits(transformer, transformer.forward(transformer.upload_ids(ids), attention));
  transformer.clear();
  CHECK(transformer.length() == 0);
  CHECK(download_logits(transformer, transformer.forward(transformer.upload_ids(ids), attention)) == first);
}

TEST_CASE("the memory held is the memory predicted") {
  Platform platform = open_platform(test_device());
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    for (const std::string& mode : kModes) {
      CAPTURE(kFamilyNames.name(family), mode);
      const AttentionBackend& attention = platform.backend(mode);
      const RunShape shape{2, 50, 30, 4};
      const std::vector<Reservation> calls{{30, 30}, {1, 50}};
      platform.device->reset_peaks();
      const BytesByUse before = platform.device->memory().peaks();
      Transformer transformer(platform, model, shape);
      for (const Reservation& call : calls) transformer.reserve(attention, call);
      const BytesByUse predicted = predict_memory(model.config, DType::f32, shape, attention, calls);
      const BytesByUse peaks = platform.device->memory().peaks();
      for (const auto& [use, name] : kMemoryUseNames.entries) {
        CAPTURE(name);
        const auto i = static_cast<std::size_t>(use);
        CHECK(predicted[i] == peaks[i] - (use == MemoryUse::weights ? 0 : before[i]));
      }
    }
  }
}

TEST_CASE("flash holds no scores and the baseline's grow with the square of the length") {
  Platform platform = open_platform(test_device());
  const ModelConfig config = tiny_config(Family::llama);
  const auto scores = [&](const std::string& mode, int length) {
    const std::vector<Reservation> calls{{length, length}};
    return predict_memory(config, DType::f32, {1, length, length, 1}, platform.backend(mode),
                          calls)[static_cast<std::size_t>(MemoryUse::scores)];
  };
  CHECK(scores("flash", 64) == 0);
  CHECK(scores("flash", 4096) == 0);
  CHECK(scores("baseline", 512) == 4U * 4U * 512U * 512U);  // bytes, heads, queries, keys
  CHECK(scores("baseline", 1024) == 4 * scores("baseline", 512));
}

TEST_CASE("learned positions are never overrun") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt2);
  CHECK_NOTHROW(Transformer(platform, model, {1, 96, 8, 1}));
  CHECK_THROWS_AS(Transformer(platform, model, {1, 97, 8, 1}), Error);
  CHECK_FALSE(context_warning(model.config, 96));
  CHECK(context_warning(model.config, 97));
}
