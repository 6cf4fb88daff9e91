// The golden models (tools/make_goldens.py: Hugging Face transformers in float64) in every mode.
#include <algorithm>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "lib/tensor/dtype_names.h"
#include "tests/catch.h"
#include "tests/goldens/run_model.h"
#include "tests/rounding.h"

using namespace attn;
using Json = nlohmann::json;

namespace {

const std::filesystem::path kGoldens = std::filesystem::path(ATTN_SOURCE_DIR) / "tests/goldens";

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  INFO(path.string());
  REQUIRE(file.good());
  return Json::parse(file);
}

using Rows = std::vector<std::vector<double>>;

Rows logits_of(RunModel& model, const std::vector<TokenId>& prompt, const std::vector<TokenId>& continuation,
               const std::string& mode) {
  std::vector<TokenId> all = prompt;
  all.insert(all.end(), continuation.begin(), continuation.end());
  Rows rows = model.logits(all, mode);
  return {rows.begin() + static_cast<std::ptrdiff_t>(prompt.size()) - 1, rows.end() - 1};
}

// True where the golden's contrast, a variant that a reader might miss, moves the logits by more than
// rounding may: then a reader that ignored it fails here.
bool check_golden(Platform& platform, const std::string& folder, DType dtype) {
  const Json reference = read_json(kGoldens / folder / "reference.json");
  RunModel model(platform, kGoldens / folder, dtype);
  const double tolerance = logit_tolerance(dtype, model.config().layers);
  const double scale = reference.at("logit_scale");
  const auto ids = reference.at("ids").get<std::vector<std::vector<TokenId>>>();
  const auto first = reference.at("logits").get<Rows>();
  const Rows last{reference.at("logits_last").get<std::vector<double>>()};
  const Json& greedy = reference.at("greedy");
  const auto prompt = greedy.at("prompt").get<std::vector<TokenId>>();
  const auto continuation = greedy.at("ids").get<std::vector<TokenId>>();
  for (const std::string& mode : kEveryMode) {
    CAPTURE(folder, mode, kDTypeNames.name(dtype), tolerance);
    CHECK(relative_to_scale(model.logits(ids[0], mode), first) < tolerance);
    CHECK(relative_to_scale({model.logits(ids[1], mode).back()}, last) < tolerance);
    // Nobody can ask for an id that won by less than rounding; it must still be among the likeliest.
    if (dtype == DType::f32 || greedy.at("min_margin").get<double>() > 2 * tolerance * scale)
      CHECK(model.greedy(prompt, static_cast<int>(continuation.size()), mode) == continuation);
    const Rows along = logits_of(model, prompt, continuation, mode);
    for (std::size_t i = 0; i < continuation.size(); ++i)
      CHECK(along[i][static_cast<std::size_t>(continuation[i])] >=
            *std::max_element(along[i].begin(), along[i].end()) - 2 * tolerance * scale);
    for (std::size_t s = 0; s < ids.size(); ++s) {
      const auto expected = reference.at("nll")[s].get<std::vector<double>>();
      const auto losses = model.losses(ids[s], mode);
      REQUIRE(losses.size() == expected.size());
      for (std::size_t i = 0; i < losses.size(); ++i)  // a difference of two logits, or of one and their mean
        CHECK(losses[i] == Approx(expected[i]).epsilon(0).margin(2 * tolerance * scale));
    }
  }
  const Json& contrast = reference.at("contrast");
  return !contrast.is_null() && contrast.at("moves_logits_by").get<double>() > tolerance;
}

// In 16 bits the forms of GELU (contrasts of 3e-4 to 5e-4) are within rounding, so f32 tells them apart
// alone.
void check_family(const std::string& family, int contrasts, int contrasts_of_16_bits) {
  Platform platform = open_platform(test_device());
  for (const DType dtype : dtypes_of(platform)) {
    CAPTURE(family, kDTypeNames.name(dtype));
    int checked = 0;
    int told_apart = 0;
    for (const Json& entry : read_json(kGoldens / "index.json")) {
      if (entry.at("family") != family) continue;
      told_apart += check_golden(platform, entry.at("name"), dtype);
      ++checked;
    }
    CHECK(checked >= 8);
    CHECK(told_apart >= (dtype == DType::f32 ? contrasts : contrasts_of_16_bits));
  }
}

}  // namespace

TEST_CASE("gpt2 goldens agree in every mode") { check_family("gpt2", 8, 4); }
TEST_CASE("gpt_neox goldens agree in every mode") { check_family("gpt_neox", 6, 4); }
TEST_CASE("llama goldens agree in every mode") { check_family("llama", 6, 6); }
