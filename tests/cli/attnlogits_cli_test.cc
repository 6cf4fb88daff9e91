// attnlogits, the real program: comparisons, thresholds, dumps, exit codes; and its plan of what is compared.
#include <cmath>
#include <limits>

#include "apps/attnlogits/comparison.h"
#include "apps/attnlogits/dump.h"
#include "apps/attnlogits/report.h"
#include "lib/results/reader.h"
#include "tests/catch.h"
#include "tests/cli/run_program.h"
#include "tests/cli/tiny_model.h"
#include "tests/runtime/random_runtime.h"

using namespace attn;
namespace fs = std::filesystem;

namespace {

struct Setting {
  TemporaryFolder folder;
  std::string model = make_tiny_model(folder.path() / "tiny");
  std::string out = (folder.path() / "out").string();
  std::string dump = (folder.path() / "dump.json").string();

  ProgramResult run(std::vector<std::string> more) const {
    std::vector<std::string> all{"--model", model, "--random-weights", "--device", "cpu", "--out", out};
    all.insert(all.end(), more.begin(), more.end());
    return run_program("attnlogits", all);
  }
  std::vector<ResultRecord> records() const { return read_results(std::vector<fs::path>{out}).records; }
};

double number(const Fields& fields, std::string_view key) {
  const Value* value = fields.find(key);
  REQUIRE(value != nullptr);
  REQUIRE(value->number().has_value());
  return *value->number();
}

const Value& at(const Value& value, std::string_view key) {
  const Value* found = value.fields() != nullptr ? value.fields()->find(key) : nullptr;
  if (found == nullptr) throw std::runtime_error("no key " + std::string(key));
  return *found;
}

}  // namespace

TEST_CASE("attnlogits compares the modes with each other and with the reference") {
  const Setting setting;
  const ProgramResult result = setting.run({});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(contains(result.out, "The quick brown fox jumps over the lazy dog."));
  CHECK(contains(result.out, "128 tokens of "));  // the long prompt, cut to --max-length
  const auto records = setting.records();
  REQUIRE(records.size() == (4 + 1) * 3);  // and all prompts together
  for (const ResultRecord& record : records) {
    CHECK(number(record.metrics, "max_diff") < 1e-4);
    CHECK(number(record.metrics, "mean_diff") <= number(record.metrics, "max_diff"));
    CHECK(number(record.metrics, "max_kl") < 1e-6);
    CHECK(number(record.metrics, "argmax_agreement") == 1);
    CHECK(number(record.metrics, "top5_agreement") > 0.99);
    CHECK(number(record.metrics, "max_js") < 1e-6);
    CHECK(record.metrics.find("first_top1_change")->is_null());
    CHECK(number(record.metrics, "targets") ==
          number(record.metrics, "positions") - number(record.parameters, "prompts"));
    CHECK(number(record.metrics, "log_perplexity") - number(record.metrics, "against_log_perplexity") ==
          Approx(number(record.metrics, "log_ppl_diff")).margin(1e-12));
    CHECK(number(record.metrics, "nonfinite_positions") == 0);
    CHECK(number(record.metrics, "positions") == number(record.parameters, "prompt_tokens"));
  }
}

TEST_CASE("each line of a file is a prompt and all together are the prompts' sum") {
  const Setting setting;
  const fs::path texts = setting.folder.path() / "texts.txt";
  const fs::path objects = setting.folder.path() / "objects.jsonl";
  write_text_file(texts,
                  "The ferry leaves at six.\n\n  \r\nNobody on the quay looks up, naïve as they are.\r\n");
  write_text_file(
      objects, "{\"text\": \"A lamp\\nin the window\", \"n\": 7}\n{\"text\": \"The ferry leaves at six.\"}");
  const ProgramResult result =
      setting.run({"--prompts", texts.string(), "--prompts", objects.string(), "--ids", "5,6,7"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(
      contains(result.out, "\"Nobody on the quay looks up, naïve as they are.\" (" + texts.string() + ":4)"));
  CHECK(contains(result.out, "\"A lamp in the window\" (" + objects.string() + ":1)"));
  CHECK(contains(result.out, "all 5 prompts: "));
  const auto records = setting.records();
  REQUIRE(records.size() == (5 + 1) * 3);
  // The same text from either file is the same prompt.
  CHECK(number(records[0].metrics, "mean_kl") == number(records[9].metrics, "mean_kl"));
  CHECK(display(*records[0].parameters.find("token_sha256")) ==
        display(*records[9].parameters.find("token_sha256")));
  for (std::size_t pair = 0; pair < 3; ++pair) {
    double positions = 0, largest = 0, sum = 0;
    for (std::size_t prompt = 0; prompt < 5; ++prompt) {
      const Fields& metrics = records[prompt * 3 + pair].metrics;
      positions += number(metrics, "positions");
      largest = std::max(largest, number(metrics, "max_diff"));
      sum += number(metrics, "mean_diff") * number(metrics, "positions");
    }
    const ResultRecord& all = records[15 + pair];
    CHECK(display(*all.parameters.find("prompt")) == "all 5 prompts");
    CHECK(number(all.parameters, "prompts") == 5);
    CHECK(number(all.metrics, "positions") == positions);
    CHECK(number(all.metrics, "max_diff") == largest);
    CHECK(number(all.metrics, "mean_diff") == Approx(sum / positions));
  }
}

TEST_CASE("format json prints the array that system B's compare_logits prints and nothing else") {
  const Setting setting;
  const fs::path text = setting.folder.path() / "long.txt";
  write_text_file(text, "The ferry leaves at six and nobody on the quay looks up from the newspaper.");
  // Its two flags: three prompts of its own and a file's, cut.
  const ProgramResult result = setting.run(
      {"--long-prompt", text.string(), "--max-length", "4", "--without-reference", "--format", "json"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  const Value parsed = parse_json(result.out, "stdout");
  REQUIRE(parsed.array() != nullptr);
  REQUIRE(parsed.array()->size() == 4);
  const auto records = setting.records();
  REQUIRE(records.size() == 4 + 1);
  for (std::size_t i = 0; i < 4; ++i) {
    const Fields& object = *parsed.array()->at(i).fields();
    CHECK(object.entries[0].key == "prompt");
    CHECK(object.entries[1].key == "max_diff");
    CHECK(object.entries[2].key == "mean_diff");
    CHECK(number(object, "max_diff") == number(records[i].metrics, "max_diff"));
    CHECK(number(object, "mean_diff") == number(records[i].metrics, "mean_diff"));
    CHECK(number(object, "prompt_tokens") <= 4);
    CHECK(display(*object.find("mode")) == "flash");
    CHECK(display(*object.find("against")) == "baseline");
  }
  CHECK(display(at(parsed.array()->at(0), "prompt")) == "Hello world!");
  CHECK(contains(display(at(parsed.array()->at(3), "prompt")), "The ferry leaves"));
  CHECK(number(*parsed.array()->at(3).fields(), "prompt_tokens") == 4);
  CHECK(contains(result.err, "records: "));
}

TEST_CASE("thresholds that are exceeded make the exit code 1 and say where") {
  const Setting setting;
  const std::string prompt = "The ferry leaves at six and nobody on the quay looks up.";
  CHECK(setting
            .run({"--prompt", prompt, "--max-diff", "0.01", "--mean-diff", "0.01", "--max-kl", "0.01",
                  "--min-agreement", "1"})
            .exit_code == 0);
  const ProgramResult result = setting.run({"--prompt", prompt, "--max-diff", "0"});
  CHECK(result.exit_code == 1);
  CHECK(contains(result.err, "The ferry leaves at six"));
  CHECK(contains(result.err, "baseline against reference: the largest difference"));
  CHECK(contains(result.err, "--max-diff 0"));
}

TEST_CASE("the dump holds every logit of the chosen positions in full precision") {
  const Setting setting;
  const auto dump = [&](const std::string& positions) {
    const ProgramResult result = setting.run({"--ids", "5,6,7,8", "--ids", "9", "--dump", setting.dump,
                                              "--positions", positions, "--mode", "flash"});
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return parse_json(read_text(setting.dump), "dump");
  };
  const Value all = dump("all");
  CHECK(display(at(all, "schema")) == "attnlogits-dump/1");
  const Value& first = at(all, "prompts").array()->at(0);
  CHECK(display(at(first, "ids")) == "[5,6,7,8]");
  CHECK(at(first, "positions").array()->size() == 4);
  const Value::Array& flash = *at(at(first, "logits"), "flash").array();
  const Value::Array& reference = *at(at(first, "logits"), "reference").array();
  REQUIRE(flash.size() == 4);
  REQUIRE(flash[3].array()->size() == 2048);
  for (std::size_t i = 0; i < 2048; ++i) {
    const double ours = *flash[3].array()->at(i).number();
    CHECK(ours == Approx(*reference[3].array()->at(i).number()).margin(1e-4));
    // Nine digits name one f32, so the text is that of an f32.
    CHECK(fmt::format("{}", static_cast<float>(ours)).size() <= 16);
  }
  const Value last = dump("last");
  const Value& last_first = at(last, "prompts").array()->at(0);
  CHECK(display(at(last_first, "positions")) == "[3]");
  // A block of one row may be summed in another order than a block of four: never by more than rounding.
  CHECK(*at(at(last_first, "logits"), "flash").array()->at(0).array()->at(17).number() ==
        Approx(*flash[3].array()->at(17).number()).margin(1e-5));
  CHECK(display(at(at(dump("0,-1"), "prompts").array()->at(0), "positions")) == "[0,3]");
}

TEST_CASE("the decode path is compared with the prefill path") {
  const Setting setting;
  const ProgramResult result =
      setting.run({"--ids", "1,2,3,4,5,6,7", "--path", "decode", "--max-diff", "1e-4"});
  CAPTURE(result.out, result.err);
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "flash decode vs flash "));
  CHECK(contains(result.out, "flash decode vs reference decode"));
  CHECK(setting.records().size() == 6);
}

TEST_CASE("bad command lines and prompts of attnlogits have the exit code of their kind") {
  const Setting setting;
  const std::string empty = (setting.folder.path() / "empty.txt").string();
  const std::string torn = (setting.folder.path() / "torn.jsonl").string();
  const std::string binary = (setting.folder.path() / "binary.txt").string();
  write_text_file(empty, "\n \r\n");
  write_text_file(torn, "{\"text\": \"whole\"}\n{\"text\": \"to");
  write_text_file(binary, "good\nbad\xff\n");
  const std::vector<std::pair<int, std::vector<std::string>>> wrong = {
      {2, {"--mode", "fast"}},
      {2, {"--ids", "1,x"}},
      {2, {"--ids", "1,,2"}},
      {2, {"--ids", "1", "--positions", "all"}},
      {2, {"--ids", "1", "--dump", setting.dump, "--positions", "some"}},
      {2, {"--min-agreement", "2"}},
      {2, {"--path", "sideways"}},
      {2, {"--format", "yaml"}},
      {2, {"--mode", "reference"}},
      {2, {"--mode", "flash", "--without-reference"}},
      {2, {"--mode", "flash,reference", "--without-reference"}},
      {3, {"--prompts", "no/such/file.txt"}},
      {3, {"--prompts", setting.model}},
      {3, {"--prompts", empty}},
      {3, {"--prompts", torn}},
      {3, {"--prompts", binary}},
      {3, {"--long-prompt", "no/such/file"}},
      {3, {"--ids", "1,2048"}},
      {3, {"--ids", "-1"}},
      {3, {"--ids", "1", "--dump", setting.dump, "--positions", "1"}},
      {3, {"--prompt", "no/such/prompt.txt"}},
      {3, {"--prompt", ""}},
      {3, {"--prompt", "a\xff"}},
      {3, {"--ids", "1", "--dump", setting.model + "/none/dump.json"}},
      {3, {"--ids", "1", "--out", setting.model + "/config.json/x"}}};
  for (const auto& [code, arguments] : wrong) {
    const bool has_out = arguments.size() > 2 && arguments[2] == "--out";
    std::vector<std::string> all{"--model", setting.model, "--random-weights"};
    if (!has_out) all.insert(all.end(), {"--out", setting.out});
    all.insert(all.end(), arguments.begin(), arguments.end());
    const ProgramResult result = run_program("attnlogits", all);
    CAPTURE(arguments.front(), arguments.back(), result.out, result.err);
    CHECK(result.exit_code == code);
    CHECK(contains(result.err, "attnlogits: "));
  }
  CHECK_FALSE(fs::exists(setting.dump));
}

TEST_CASE("ids need no tokenizer and texts say how to get one") {
  const Setting setting;
  fs::remove(fs::path(setting.model) / "tokenizer.json");
  CHECK(setting.run({"--ids", "1,2"}).exit_code == 0);
  const ProgramResult result = setting.run({"--prompt", "Hello"});
  CHECK(result.exit_code == 3);
  CHECK(contains(result.err, "tokenizer"));
}

TEST_CASE("a prompt past a learned position table is refused") {
  const Setting setting;
  const std::string gpt2 = make_tiny_model(setting.folder.path() / "gpt2", 2048, "gpt2");
  write_text_file(
      fs::path(gpt2) / "config.json",
      "{\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_head\": 2, \"n_layer\": 1, \"n_positions\": 8, "
      "\"vocab_size\": 2048}");
  const auto run = [&](const std::string& ids) {
    return run_program("attnlogits", {"--model", gpt2, "--random-weights", "--device", "cpu", "--out",
                                      setting.out, "--ids", ids});
  };
  CHECK(run("1,2,3,4,5,6,7,8").exit_code == 0);
  const ProgramResult result = run("1,2,3,4,5,6,7,8,9");
  CHECK(result.exit_code == 3);
  CHECK(contains(result.err, "8 learned positions"));
}

TEST_CASE("every mode is compared with reference and the others with the first") {
  const auto pairs_of = [](const std::vector<std::string>& modes, ForwardPath path, bool has_reference) {
    const auto variants = plan_variants(modes, path, has_reference);
    std::vector<std::string> texts;
    for (const LogitsPair& pair : plan_pairs(variants, path))
      texts.push_back(variants[pair.other].text() + " vs " + variants[pair.base].text());
    return texts;
  };
  using Texts = std::vector<std::string>;
  CHECK(pairs_of({"baseline", "flash"}, ForwardPath::prefill, true) ==
        Texts{"baseline vs reference", "flash vs reference", "flash vs baseline"});
  CHECK(pairs_of({"flash"}, ForwardPath::prefill, true) == Texts{"flash vs reference"});
  CHECK(pairs_of({"baseline", "flash"}, ForwardPath::prefill, false) == Texts{"flash vs baseline"});
  CHECK(pairs_of({"flash"}, ForwardPath::decode, false) == Texts{"flash decode vs flash"});
}

TEST_CASE("rows compared on the device are the rows compared on the host") {
  Platform platform = open_platform("cpu");
  const Model model = tiny_model(platform, Family::gpt_neox);
  constexpr int kTokens = 11;
  Transformer transformer(platform, model, {1, kTokens, kTokens, 4});  // blocks of 4, 4 and 3 rows
  const auto ids = random_prompt(static_cast<TokenId>(model.config.vocab), kTokens, 3);
  std::vector<LogitsVariant> variants = plan_variants({"baseline", "flash"}, ForwardPath::decode, false);
  for (LogitsVariant& variant : variants)
    variant.states = final_states(transformer, platform.backend(variant.mode), ids, variant.path);
  std::vector<LogitsPair> pairs = plan_pairs(variants, ForwardPath::decode);
  std::vector<LogitsPair> totals = pairs;
  LogitsComparison comparison(transformer, variants.size(), pairs.size());
  comparison.add(ids, variants, pairs, totals);
  const auto vocab = static_cast<std::size_t>(model.config.vocab);
  for (const LogitsPair& pair : pairs) {
    Divergence expected;
    for (int row = 0; row < kTokens; ++row) {
      const auto logits = [&](std::size_t variant) {
        return host_logits(transformer, variants[variant].states.view.slice(
                                            0, row / 4 * 4, std::min(4, kTokens - row / 4 * 4)));
      };
      const auto base = logits(pair.base);
      const auto other = logits(pair.other);
      const std::size_t begin = static_cast<std::size_t>(row % 4) * vocab;
      expected.add(row,
                   compare_rows({base.data() + begin, vocab}, {other.data() + begin, vocab},
                                row + 1 < kTokens ? std::optional<TokenId>(ids[row + 1]) : std::nullopt));
    }
    CHECK(pair.divergence.rows == kTokens);
    CHECK(pair.divergence.targets == kTokens - 1);
    CHECK(pair.divergence.max_diff == expected.max_diff);
    CHECK(pair.divergence.mean_kl() == expected.mean_kl());
    CHECK(pair.divergence.rms_delta_p() == expected.rms_delta_p());
    CHECK(pair.divergence.perplexity.result()->log_ratio == expected.perplexity.result()->log_ratio);
  }
  comparison.add(ids, variants, pairs, totals);
  CHECK(totals.front().divergence.rows == 2 * kTokens);
  CHECK(totals.front().divergence.max_kl == pairs.front().divergence.max_kl);
}

TEST_CASE("the first position with another largest logit is kept and no share is rounded up to all") {
  LogitsPair pair;
  LogitComparison row;
  row.base_argmax = row.other_argmax = 4;
  pair.add(0, row);
  CHECK_FALSE(pair.first_top1_change.has_value());
  row.other_argmax = 3;
  pair.add(5, row);
  pair.add(6, row);
  CHECK(pair.first_top1_change == 5);
  CHECK(pair.divergence.argmax_agreement() == Approx(1.0 / 3));
  CHECK(share_text(1) == "100.00%");
  CHECK(share_text(0.999999) == "99.99%");
  CHECK(share_text(0) == "0.00%");
}

TEST_CASE("logits that are not finite are a complaint without any threshold") {
  Divergence divergence;
  const std::vector<float> good{0, 1};
  const std::vector<float> bad{0, std::numeric_limits<float>::quiet_NaN()};
  divergence.add(0, compare_rows(good, good));
  CHECK(complaints(divergence, {}).empty());
  divergence.add(7, compare_rows(good, bad));
  REQUIRE(complaints(divergence, {}).size() == 1);
  CHECK(contains(complaints(divergence, {})[0], "position 7"));
}
