// Reads the goldens, runs the program, compares.
#include "tests/cli/perplexity_golden.h"

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "lib/results/reader.h"
#include "tests/catch.h"
#include "tests/cli/run_program.h"

namespace attn {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kSource = ATTN_SOURCE_DIR;
const fs::path kData = kSource / "../shared/data";

// Sums of f32 losses. Each program rounds in its own order, which moves a loss by 1e-6 to 1e-5 either way;
// the signs being mixed, a sum of a thousand moves by 1e-8 to 6e-8 of itself, attnppl's as much as that of
// transformers (measured against f64: 4e-8 and 6e-8 at most), and the sum of 256 small losses of a text known
// by heart by 2.3e-7. One loss of 3000 that is wrong by 1 % moves their sum by 3e-6.
constexpr double kSumTolerance = 1e-6;
// A document of a few tokens has nothing to average over.
constexpr double kDocumentTolerance = 5e-6;
constexpr double kLossError = 2e-5;

double number(const Fields& fields, const std::string& key) {
  const Value* value = fields.find(key);
  REQUIRE(value != nullptr);
  REQUIRE(value->number().has_value());
  return *value->number();
}

std::string text_of(const Fields& fields, const std::string& key) {
  const Value* value = fields.find(key);
  return value != nullptr ? display(*value) : "missing";
}

Json read_goldens() { return Json::parse(std::ifstream(kSource / "tests/goldens/perplexity.json")); }

// stories260K comes without a tokenizer.json: the golden's stands in for it.
std::string model_folder(const std::string& model, const fs::path& scratch) {
  if (model == "demo") return (kSource / "models/demo").string();
  const fs::path folder = scratch / model;
  fs::create_directories(folder);
  for (const char* name : {"config.json", "model.safetensors"})
    fs::create_symlink(fs::absolute(kData / "checkpoints/stories260K/hf" / name), folder / name);
  fs::copy_file(kSource / "tests/goldens/stories260K-tokenizer.json", folder / "tokenizer.json");
  return folder.string();
}

std::string data_set(const Json& golden, const fs::path& scratch) {
  const std::string name = golden.at("dataset");
  if (!golden.contains("text")) return (kData / name).string();
  const fs::path file = scratch / "text.txt";
  write_text_file(file, golden.at("text"));
  return file.string();
}

void check_documents(const ResultRecord& record, const Json& expected) {
  const Value* documents = record.extra.find("documents");
  REQUIRE(documents != nullptr);
  std::size_t used = 0;
  double means = 0;
  for (const Value& row : *documents->array()) {
    const Fields& found = *row.fields();
    if (number(found, "tokens_scored") == 0) continue;
    REQUIRE(used < expected.size());
    const Json& document = expected[used++];
    CAPTURE(used, text_of(found, "name"));
    CHECK(number(found, "tokens_scored") == document[0].get<double>());
    CHECK(number(found, "words_scored") == document[1].get<double>());
    CHECK(number(found, "bytes_scored") == document[2].get<double>());
    CHECK(number(found, "nll_sum") ==
          Approx(document[3].get<double>()).epsilon(kDocumentTolerance).margin(kLossError));
    means += document[3].get<double>() / document[0].get<double>();
  }
  CHECK(used == expected.size());
  CHECK(number(record.metrics, "macro_log_perplexity") ==
        Approx(means / static_cast<double>(used)).epsilon(kDocumentTolerance));
}

void check_record(const ResultRecord& record, const Json& expected) {
  CHECK(text_of(record.parameters, "protocol") == expected.at("protocol"));
  CHECK(text_of(record.parameters, "token_sha256") == expected.at("ids_sha256"));
  for (const char* key : {"tokens", "samples_seen", "samples_used", "windows", "tokens_scored",
                          "words_scored", "bytes_scored"}) {
    CAPTURE(key);
    CHECK(number(record.metrics, key) == expected.at(key).get<double>());
  }
  const double exact = expected.value("nll_sum_f64", expected.at("nll_sum").get<double>());
  CHECK(number(record.metrics, "nll_sum") == Approx(exact).epsilon(kSumTolerance));
  for (const char* key :
       {"log_perplexity", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"}) {
    CAPTURE(key);
    // An error e of the sum is one of e ln(figure) of a figure: up to 7 e for a perplexity per word of 1000.
    CHECK(number(record.metrics, key) == Approx(expected.at(key).get<double>()).epsilon(20 * kSumTolerance));
  }
  if (expected.contains("standard_error")) {
    CHECK(number(record.metrics, "standard_error") ==
          Approx(expected.at("standard_error").get<double>()).epsilon(20 * kSumTolerance));
  }
  if (expected.contains("documents")) check_documents(record, expected.at("documents"));
}

void check_case(const Json& golden) {
  const TemporaryFolder scratch;
  const std::string out = (scratch.path() / "out.jsonl").string();
  std::vector<std::string> arguments{"--model",   model_folder(golden.at("model"), scratch.path()),
                                     "--dataset", data_set(golden, scratch.path()),
                                     "--device",  "cpu",
                                     "--dtype",   "f32",
                                     "--mode",    "both",
                                     "--out",     out};
  for (const std::string argument : golden.at("arguments")) arguments.push_back(argument);
  const ProgramResult result = run_program("attnppl", arguments);
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  const auto records = read_results(std::vector<fs::path>{out}).records;
  const Json& expected = golden.at("records");
  REQUIRE(records.size() == 2 * expected.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::string mode = text_of(records[i].parameters, "mode");
    CAPTURE(mode);
    CHECK(mode == (i % 2 == 0 ? "baseline" : "flash"));
    check_record(records[i], expected[i / 2]);
    if (golden.contains("published_perplexity")) {
      CHECK(number(records[i].metrics, "perplexity") ==
            Approx(golden.at("published_perplexity").get<double>()).epsilon(1e-4));
    }
  }
}

}  // namespace

std::string why_no_perplexity_goldens() {
  std::vector<std::string> needed{"checkpoints/stories260K/hf"};
  const Json goldens = read_goldens();
  for (const auto& item : goldens.at("sha256").items()) needed.push_back(item.key());
  for (const std::string& name : needed) {
    if (!fs::exists(kData / name)) return "../shared/data/" + name + " is not beside the checkout";
  }
  return "";
}

void check_perplexity_goldens(const std::string& model, const std::string& protocol, bool whole_texts) {
  std::size_t checked = 0;
  const Json goldens = read_goldens();
  for (const Json& golden : goldens.at("cases")) {
    if (golden.at("model") != model || golden.at("long") != whole_texts) continue;
    if (golden.at("records")[0].at("protocol") != protocol) continue;
    const std::string name = golden.at("name");
    CAPTURE(model, name);
    check_case(golden);
    ++checked;
  }
  CHECK(checked > 0);
}

}  // namespace attn
