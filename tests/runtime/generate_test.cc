// Generation: its ids follow from the logits, its time stamps are one a token.
#include "lib/model/generate.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/model/rotary.h"
#include "tests/catch.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;

namespace {

Generation run(Platform& platform, const Model& model, const std::string& mode, int batch, int new_tokens,
               const SamplingConfig& sampling = {}) {
  AttentionBackend& attention = platform.backend(mode);
  const auto prompt = random_prompt(61, 12, 21);
  Transformer transformer(platform, model, {batch, 12 + new_tokens, 12, batch});
  for (const Reservation& call : generation_calls(attention, 12, new_tokens))
    transformer.reserve(attention, call);
  return generate(transformer, attention, prompt, new_tokens, sampling);
}

}  // namespace

TEST_CASE("a greedy continuation is the likeliest token of a full forward at each step") {
  Platform platform = open_platform(test_device());
  for (const Family family : kFamilies) {
    const Model model = tiny_model(platform, family);
    for (const std::string& mode : kModes) {
      CAPTURE(kFamilyNames.name(family), mode);
      const auto ids = run(platform, model, mode, 1, 9).ids.front();
      auto all = random_prompt(61, 12, 21);
      all.insert(all.end(), ids.begin(), ids.end());
      const int total = static_cast<int>(all.size());
      AttentionBackend& attention = platform.backend(mode);
      Transformer transformer(platform, model, {1, total, total, total});
      transformer.reserve(attention, {total, total});
      const auto logits =
          download_logits(transformer, transformer.forward(transformer.upload_ids(all), attention));
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto row = logits.begin() + static_cast<std::ptrdiff_t>((11 + i) * 61);
        const float best = *std::max_element(row, row + 61);
        CHECK(row[ids[i]] == Approx(best).margin(1e-4));
      }
    }
  }
}

TEST_CASE("a recorded prompt gives the same continuation as often as it is run") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::llama);
  const auto prompt = random_prompt(61, 12, 21);
  for (const std::string& mode : kModes) {
    CAPTURE(mode);
    AttentionBackend& attention = platform.backend(mode);
    const auto expected = run(platform, model, mode, 2, 7).ids;
    Transformer transformer(platform, model, {2, 19, 12, 2});
    for (const Reservation& call : generation_calls(attention, 12, 7)) transformer.reserve(attention, call);
    Generator generator(transformer, attention, prompt, 7, {}, PrefillLaunch::graph);
    for (int n = 0; n < 3; ++n) CHECK(generator.run().ids == expected);
  }
}

TEST_CASE("every sequence of a greedy batch gets the continuation it gets alone") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt_neox);
  const auto alone = run(platform, model, "flash", 1, 8).ids.front();
  const Generation batch = run(platform, model, "flash", 3, 8);
  REQUIRE(batch.ids.size() == 3);
  for (const auto& ids : batch.ids) CHECK(ids == alone);
}

TEST_CASE("there is one time stamp a token and they do not decrease") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::llama);
  for (const int new_tokens : {1, 2, 7}) {
    const Generation generation = run(platform, model, "baseline", 2, new_tokens);
    REQUIRE(generation.token_ms.size() == static_cast<std::size_t>(new_tokens));
    CHECK(generation.token_ms.front() > 0);
    CHECK(std::is_sorted(generation.token_ms.begin(), generation.token_ms.end()));
    for (const auto& ids : generation.ids) CHECK(ids.size() == static_cast<std::size_t>(new_tokens));
  }
}

TEST_CASE("sampling repeats with its seed and its rows differ") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt2);
  const SamplingConfig sampling{1.0F, 0, 1.0F, 5};
  const Generation first = run(platform, model, "flash", 2, 12, sampling);
  CHECK(run(platform, model, "flash", 2, 12, sampling).ids == first.ids);
  CHECK(first.ids[0] != first.ids[1]);
  CHECK(run(platform, model, "flash", 2, 12, {1.0F, 0, 1.0F, 6}).ids != first.ids);
  CHECK(run(platform, model, "flash", 1, 12, {1.0F, 1, 1.0F, 6}).ids ==
        run(platform, model, "flash", 1, 12).ids);
}

TEST_CASE("an empty prompt is refused") {
  Platform platform = open_platform(test_device());
  const Model model = tiny_model(platform, Family::gpt2);
  Transformer transformer(platform, model, {1, 4, 4, 1});
  CHECK_THROWS_AS(generate(transformer, platform.backend("flash"), {}, 1, {}), Error);
}

TEST_CASE("rotary frequencies fall from 1 by equal factors") {
  RopeConfig rope;
  rope.theta = 10000;
  rope.rotary_dims = 8;
  const auto frequencies = rotary_frequencies(rope);
  REQUIRE(frequencies.size() == 4);
  CHECK(frequencies[0] == 1);
  for (std::size_t i = 1; i < 4; ++i) CHECK(frequencies[i] == Approx(frequencies[i - 1] / 10));
}

TEST_CASE("linear scaling divides every frequency and llama3 scaling only the slow ones") {
  RopeConfig rope;
  rope.theta = 500000;
  rope.rotary_dims = 128;
  const auto plain = rotary_frequencies(rope);
  rope.scaling = RopeScaling::linear;
  rope.factor = 4;
  const auto linear = rotary_frequencies(rope);
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(linear[i] == Approx(plain[i] / 4));

  rope.scaling = RopeScaling::llama3;
  rope.factor = 8;
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  rope.original_max_positions = 8192;
  const auto llama3 = rotary_frequencies(rope);
  CHECK(llama3.front() == plain.front());
  CHECK(llama3.back() == Approx(plain.back() / 8));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wave = 2 * 3.141592653589793 / plain[i];
    CHECK(llama3[i] <= plain[i]);
    CHECK(llama3[i] >= plain[i] / 8 * (1 - 1e-12));
    if (wave < 8192.0 / 4) CHECK(llama3[i] == plain[i]);
    if (wave > 8192.0) CHECK(llama3[i] == Approx(plain[i] / 8));
    if (i > 0) CHECK(llama3[i] < llama3[i - 1]);
  }
}
