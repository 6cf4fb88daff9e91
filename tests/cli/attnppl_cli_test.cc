// attnppl, the real program: data sets, flags of other programs, records, exit codes.
#include <cmath>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/results/reader.h"
#include "tests/catch.h"
#include "tests/cli/run_program.h"
#include "tests/cli/tiny_model.h"

using namespace attn;
namespace fs = std::filesystem;

namespace {

const fs::path kData = fs::path(ATTN_SOURCE_DIR) / "../shared/data";
const std::string kText =
    "The ferry leaves at six. Nobody on the quay looked up, and the rope fell into the water.\n"
    "\n"
    " = A heading = \n"
    "Caf\xc3\xa9s open late there; by the time the kettle boils the light is gone.\n";

struct Setting {
  TemporaryFolder folder;
  std::string model = make_tiny_model(folder.path() / "tiny");
  std::string text = (folder.path() / "text.txt").string();
  std::string out = (folder.path() / "out").string();

  Setting() { write_text_file(text, kText); }

  // With the tiny model, random weights, and `more`.
  ProgramResult run(std::vector<std::string> more) const {
    std::vector<std::string> all{"--model", model, "--random-weights", "--device", "cpu",
                                 "--out",   out,   "--dataset",        text};
    all.insert(all.end(), more.begin(), more.end());
    return run_program("attnppl", all);
  }
  std::vector<ResultRecord> records() const { return read_results(std::vector<fs::path>{out}).records; }
};

double number(const Fields& fields, std::string_view key) {
  const Value* value = fields.find(key);
  REQUIRE(value != nullptr);
  REQUIRE(value->number().has_value());
  return *value->number();
}

std::string text_of(const Fields& fields, std::string_view key) {
  const Value* value = fields.find(key);
  return value != nullptr ? display(*value) : "missing";
}

bool has_line(const std::string& text, const std::string& line) {
  return contains("\n" + text, "\n" + line + "\n");
}

}  // namespace

TEST_CASE("attnppl scores a text in both modes and records the whole story") {
  const Setting setting;
  const ProgramResult result = setting.run({"--max-length", "32", "--stride", "8"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(contains(result.out, "|ln ppl flash - ln ppl baseline| = "));
  const auto records = setting.records();
  REQUIRE(records.size() == 2);
  const Fields& baseline = records[0].metrics;
  const Fields& flash = records[1].metrics;
  CHECK(text_of(records[0].parameters, "mode") == "baseline");
  CHECK(text_of(records[1].parameters, "mode") == "flash");
  CHECK(number(baseline, "tokens_scored") == number(baseline, "tokens") - 1);
  CHECK(number(flash, "log_perplexity") == Approx(number(baseline, "log_perplexity")).margin(1e-5));
  CHECK(number(flash, "log_ppl_diff") < 1e-5);
  CHECK(number(baseline, "perplexity") == Approx(std::exp(number(baseline, "log_perplexity"))));
  CHECK(number(baseline, "bits_per_byte") ==
        Approx(number(baseline, "nll_sum") / std::log(2.0) / number(baseline, "bytes_scored")));
  CHECK(number(baseline, "standard_error") > 0);
  for (const char* key : {"dataset_sha256", "token_sha256"})
    CHECK(text_of(records[0].parameters, key).size() == 64);
  CHECK(text_of(records[0].parameters, "token_sha256") == text_of(records[1].parameters, "token_sha256"));
  CHECK(text_of(records[0].parameters, "context") == "32");
  CHECK(text_of(records[0].parameters, "stride") == "8");
  CHECK(text_of(records[0].parameters, "protocol") == "full");
  CHECK(text_of(records[0].parameters, "bos") == "none");
  // Memory is that of both modes together; flash alone has no scores.
  for (const ResultRecord& record : records) {
    CHECK(number(*record.memory.find("peaks")->fields(), "scores") > 0);
    CHECK(record.memory.find("of_run_of")->array()->size() == 2);
    CHECK(record.metrics.find("peak_mem_mb") == nullptr);
    CHECK(number(record.metrics, "run_peak_mem_mb") > 0);
  }
  REQUIRE(setting.run({"--mode", "flash", "--max-length", "32", "--stride", "8"}).exit_code == 0);
  const ResultRecord alone = setting.records().back();
  CHECK(number(*alone.memory.find("peaks")->fields(), "scores") == 0);
  CHECK(number(alone.metrics, "peak_mem_mb") > 0);
  CHECK(number(alone.metrics, "perplexity") == number(flash, "perplexity"));
}

TEST_CASE("the divergence of a mode from the first is recorded in all and by the tokens seen") {
  const Setting setting;
  const ProgramResult result =
      setting.run({"--mode", "baseline,flash,reference", "--max-length", "48", "--stride", "16"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(contains(result.out, "flash against baseline"));
  CHECK(contains(result.out, "reference against baseline"));
  const auto records = setting.records();
  REQUIRE(records.size() == 3);
  CHECK(records[0].extra.find("divergence") == nullptr);
  for (std::size_t i = 1; i < 3; ++i) {
    const Fields& metrics = records[i].metrics;
    const Value::Array& all = *records[i].extra.find("divergence")->array();
    REQUIRE(all.size() == 1);
    const Fields& divergence = *all[0].fields();
    CHECK(text_of(divergence, "against") == "baseline");
    CHECK(text_of(divergence, "against_path") == "prefill");
    CHECK(number(divergence, "positions") == number(metrics, "tokens_scored"));
    CHECK(number(divergence, "nonfinite_positions") == 0);
    CHECK(number(divergence, "max_diff") < 1e-4);
    CHECK(number(divergence, "max_diff") >= number(divergence, "mean_diff"));
    CHECK(number(divergence, "max_kl") >= number(divergence, "mean_kl"));
    CHECK(number(divergence, "mean_js") >= 0);
    CHECK(number(divergence, "argmax_agreement") == 1);
    CHECK(number(divergence, "top5_agreement") > 0.99);
    CHECK(number(divergence, "delta_p_p01") <= number(divergence, "delta_p_p50"));
    CHECK(number(divergence, "delta_p_p50") <= number(divergence, "delta_p_p99"));
    CHECK(number(divergence, "ppl_ratio") ==
          Approx(number(metrics, "perplexity") / number(records[0].metrics, "perplexity")));
    CHECK(number(divergence, "ppl_ratio_low") <= number(divergence, "ppl_ratio"));
    CHECK(number(divergence, "ppl_ratio_high") >= number(divergence, "ppl_ratio"));
    CHECK(number(divergence, "log_ppl_ratio") == Approx(number(metrics, "mean_loss_diff")).margin(1e-8));
    CHECK(number(metrics, "log_ppl_diff") ==
          Approx(std::fabs(number(metrics, "mean_loss_diff"))).margin(1e-12));
    CHECK(number(metrics, "mean_loss_diff_error") > 0);
    CHECK(text_of(metrics, "compared_with") == "baseline");
    const Value::Array& buckets = *divergence.find("buckets")->array();
    REQUIRE(buckets.size() == 3);
    double positions = 0;
    for (const Value& bucket : buckets) positions += number(*bucket.fields(), "positions");
    CHECK(positions == number(divergence, "positions"));
    CHECK(text_of(*buckets[0].fields(), "seen") == "1-16");
    CHECK(text_of(*buckets[2].fields(), "seen") == "33-48");
  }
}

TEST_CASE("the size of a batch changes no figure on the CPU and a note says so") {
  const Setting setting;
  for (const std::string batch : {"1", "3", "100"}) {
    const ProgramResult result = setting.run({"--max-length", "16", "--stride", "8", "--batch-size", batch});
    CAPTURE(result.out, result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(contains(result.out, "note: --batch-size changes nothing on the CPU") == (batch != "1"));
  }
  const auto records = setting.records();
  REQUIRE(records.size() == 6);
  for (std::size_t i = 2; i < 6; ++i) {
    for (const char* key : {"nll_sum", "perplexity", "bootstrap_error", "standard_error", "bytes_scored"})
      CHECK(number(records[i].metrics, key) == number(records[i % 2].metrics, key));
  }
  CHECK(number(records[2].metrics, "batch_windows") == 3);
}

TEST_CASE("a window past the learned positions is refused and one that fits is scored") {
  const Setting setting;
  const std::string gpt2 = make_tiny_model(setting.folder.path() / "gpt2", 2048, "gpt2");
  write_text_file(fs::path(gpt2) / "config.json",
                  R"({"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64,
                      "vocab_size": 2048, "activation_function": "gelu"})");
  const auto run = [&](const std::string& text) {
    write_text_file(setting.text, text);
    return run_program("attnppl", {"--model", gpt2, "--random-weights", "--device", "cpu", "--out",
                                   setting.out, "--dataset", setting.text, "--context", "80"});
  };
  const ProgramResult fits = run("A short text.");
  CAPTURE(fits.out, fits.err);
  CHECK(fits.exit_code == 0);
  const ProgramResult longer = run(kText + kText + kText);
  CHECK(longer.exit_code == 3);
  CHECK(contains(longer.err, "--context of at most 64"));
}

TEST_CASE("attnppl scores the same tokens from a text and from JSON lines and counts limits in tokens") {
  const Setting setting;
  const std::string lines = (setting.folder.path() / "set.jsonl").string();
  write_text_file(lines,
                  to_json(Fields{{"text", kText}}) + "\n" + to_json(Fields{{"text", "Another one."}}) + "\n");
  REQUIRE(setting.run({"--mode", "flash", "--max-tokens", "20"}).exit_code == 0);
  REQUIRE(setting.run({"--mode", "flash", "--max-tokens", "20", "--dataset", lines}).exit_code !=
          0);  // twice
  const ProgramResult second =
      run_program("attnppl", {"--model", setting.model, "--random-weights", "--device", "cpu", "--out",
                              setting.out, "--dataset", lines, "--mode", "flash", "--max-samples", "1"});
  REQUIRE(second.exit_code == 0);
  const auto records = setting.records();
  REQUIRE(records.size() == 2);
  CHECK(number(records[0].metrics, "tokens") == 20);
  CHECK(number(records[0].metrics, "tokens_scored") == 19);
  CHECK(text_of(records[0].parameters, "dataset_sha256") == text_of(records[1].parameters, "dataset_sha256"));
  CHECK(number(records[1].metrics, "samples_seen") == 1);
}

TEST_CASE("legacy rows stands beside the full protocol with the counts of rows") {
  const Setting setting;
  const ProgramResult result =
      setting.run({"--protocol", "legacy-rows", "--mode", "both", "--max-samples", "4"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(contains(result.out, "3 of 4 lines used"));
  CHECK(contains(result.out, "\"num_samples\":3"));
  CHECK(contains(result.out, "\"log_ppl_diff\":"));
  const auto records = setting.records();
  REQUIRE(records.size() == 4);
  CHECK(text_of(records[0].parameters, "protocol") == "legacy-rows");
  CHECK(text_of(records[2].parameters, "protocol") == "full");
  CHECK(text_of(records[0].parameters, "dataset_sha256") == text_of(records[2].parameters, "dataset_sha256"));
  CHECK(number(records[0].metrics, "ppl") == number(records[0].metrics, "perplexity"));
  CHECK(number(records[0].metrics, "avg_loss") == number(records[0].metrics, "log_perplexity"));
  // The mean of the rows' means, from the rows themselves.
  const Value* documents = records[0].extra.find("documents");
  REQUIRE(documents != nullptr);
  double sum = 0;
  for (const Value& row : *documents->array())
    sum += number(*row.fields(), "nll_sum") / number(*row.fields(), "tokens_scored");
  CHECK(number(records[0].metrics, "avg_loss") == Approx(sum / 3).epsilon(1e-12));
}

TEST_CASE("every protocol gives token word and byte perplexities with its own rules in the record") {
  const Setting setting;
  std::string longer;
  for (int i = 0; i < 3; ++i) longer += kText;
  write_text_file(setting.text, longer);
  for (const std::string protocol : {"full", "hf-strided", "lm-eval", "llama.cpp", "legacy-window"}) {
    const ProgramResult result =
        setting.run({"--protocol", protocol, "--mode", "both", "--context", "16", "--stride", "8"});
    CAPTURE(protocol, result.out, result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(contains(result.out, "protocol " + protocol + ": "));
    const bool strided = protocol != "lm-eval" && protocol != "llama.cpp";
    CHECK(contains(result.out, "note: --stride has no effect") == !strided);
    const ResultRecord record = setting.records().back();
    if (protocol == "legacy-window") {  // the last record is the full protocol beside it
      CHECK(text_of(record.parameters, "protocol") == "full");
      CHECK(contains(result.out, "\"num_tokens\":"));
      continue;
    }
    CHECK(text_of(record.parameters, "protocol") == protocol);
    CHECK(text_of(record.parameters, "bos") == (protocol == "lm-eval" ? "first" : "none"));
    CHECK(text_of(record.parameters, "text") == (protocol == "lm-eval"      ? "pages"
                                                 : protocol == "hf-strided" ? "rows-nn"
                                                                            : "as-is"));
    CHECK(text_of(record.parameters, "detokenizer") == (protocol == "lm-eval" ? "lm-eval wikitext" : "none"));
    CHECK(text_of(record.parameters, "average") == (protocol == "hf-strided" ? "labels" : "tokens"));
    CHECK(text_of(record.parameters, "softmax_dtype") == "f64");
    const Fields& metrics = record.metrics;
    const double nll = number(metrics, "nll_sum");
    CHECK(number(metrics, "word_perplexity") == Approx(std::exp(nll / number(metrics, "words_scored"))));
    CHECK(number(metrics, "byte_perplexity") == Approx(std::exp(nll / number(metrics, "bytes_scored"))));
    CHECK(number(metrics, "bits_per_byte") == Approx(std::log2(number(metrics, "byte_perplexity"))));
    CHECK(number(metrics, "bootstrap_error") > 0);
    CHECK(number(metrics, "log_ppl_diff") < 1e-5);
    const double tokens = number(metrics, "tokens");
    const double scored = number(metrics, "tokens_scored");
    CHECK(scored == (protocol == "lm-eval"     ? tokens
                     : protocol == "llama.cpp" ? 7 * std::floor(tokens / 16)
                                               : tokens - 1));
  }
}

TEST_CASE("a BOS rule is recorded with its id and scores the first token") {
  const Setting setting;
  for (const std::string bos : {"none", "first", "each"}) {
    const ProgramResult result = setting.run({"--mode", "flash", "--context", "16", "--bos", bos});
    CAPTURE(bos, result.out, result.err);
    REQUIRE(result.exit_code == 0);
    const ResultRecord record = setting.records().back();
    CHECK(text_of(record.parameters, "bos") == bos);
    CHECK(record.parameters.find("bos_id")->is_null() == (bos == "none"));
    CHECK(number(record.metrics, "tokens_scored") ==
          number(record.metrics, "tokens") - (bos == "none" ? 1 : 0));
  }
}

TEST_CASE("attnppl tokenizes only and gives the recorded counts and hashes") {
  if (!fs::exists(kData)) ATTN_SKIP("../shared/data is not beside the checkout");
  const ProgramResult wiki =
      run_program("attnppl", {"--tokenize-only", "--model", (kData / "tokenizers/gpt2").string(), "--dataset",
                              (kData / "wikitext-2/wiki.test.raw").string()});
  CAPTURE(wiki.out, wiki.err);
  CHECK(wiki.exit_code == 0);
  CHECK(has_line(wiki.out, "tokens 286221"));
  CHECK(has_line(wiki.out, "sha256 91b9603eafb80ba78f417de40b17c20cf87f84ea64dd5ee5ea9e2e49cb748188"));
  CHECK(contains(wiki.out, "MB/s "));
  const ProgramResult book =
      run_program("attnppl", {"--tokenize-only", "--model", (kData / "tokenizers/pythia").string(),
                              "--dataset", (kData / "pg19/10146.txt.zst").string()});
  CHECK(has_line(book.out, "tokens 59179"));
  CHECK(has_line(book.out, "sha256 19f42a01c73617522288b98850660839cf4055046b35aeadceda4643eb789e83"));
}

TEST_CASE("a wrong command line of attnppl exits with 2") {
  const Setting setting;
  const std::vector<std::vector<std::string>> wrong = {
      {"--mode", "fast"},
      {"--mode", "flash,flash"},
      {"--mode", "both,reference"},
      {"--protocol", "other"},
      {"--max-length", "1"},
      {"--stride", "0"},
      {"--bos", "last"},
      {"--text", "lines", "--protocol", "lm-eval"},
      {"--average", "windows"},  // full has none
      {"--bos", "each", "--protocol", "hf-strided"},
      {"--protocol", "legacy-window", "--context", "8"},
      {"--max-length", "16", "--stride", "17"},
      {"--max-samples", "0"},
      {"--pg19-mode", "some"},
      {"--pg19-mode", "full", "--pg19-url", "https://x/1.txt"},
      {"--tokenize-only"},  // with the --out of this test
      {"--nonsense"}};
  for (const auto& arguments : wrong) {
    const ProgramResult result = setting.run(arguments);
    CAPTURE(arguments.front(), arguments.back(), result.out, result.err);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.err, "attnppl: "));
  }
  CHECK_FALSE(fs::exists(setting.out));
}

TEST_CASE("data sets that are not there name the command that fetches them") {
  const TemporaryFolder folder;
  const std::string model = make_tiny_model(folder.path() / "tiny");
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--model", model, "--random-weights", "--device", "cpu", "--out",
                                       folder.path().string()});
    return run_program("attnppl", arguments);
  };
  const ProgramResult url = run({"--dataset", "pg19", "--pg19-url", "https://host/train/987654321.txt"});
  CHECK(url.exit_code == 3);
  CHECK(contains(url.err, "tools/fetch_datasets pg19 --books 987654321"));
  const ProgramResult download = run({"--dataset", "pg19", "--force-download"});
  CHECK(download.exit_code == 4);
  CHECK(contains(download.err, "tools/fetch_datasets pg19"));
  for (const std::string name : {"wikitext", "pg19"}) {
    if (fs::exists(fs::path(ATTN_SOURCE_DIR) / "datasets" / name)) continue;  // fetched on this machine
    const ProgramResult result = run({"--dataset", name});
    CAPTURE(name, result.err);
    CHECK(result.exit_code == 3);
    CHECK(contains(result.err, "tools/fetch_datasets " + name));
  }
  const ProgramResult missing = run({"--dataset", "no/such/file.txt"});
  CHECK(missing.exit_code == 3);
  CHECK(contains(missing.err, "no/such/file.txt"));
}

TEST_CASE("flags of other programs are taken with a note where they have no effect") {
  const Setting setting;
  const ProgramResult result = setting.run({"--mode", "both", "--max-samples", "64", "--max-length", "32",
                                            "--window", "48", "--stride", "16", "--download-retries", "5",
                                            "--download-timeout", "30", "--pg19-max-chars", "0"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(contains(result.out, "note: --download-retries"));
  CHECK(contains(result.out, "note: the --pg19 flags have no effect"));
  CHECK(contains(result.out, "note: --window has no effect"));
  const auto records = setting.records();
  REQUIRE(records.size() == 2);
  CHECK(records[0].extra.find("notes")->array()->size() == 3);
  CHECK(text_of(records[0].parameters, "context") == "32");
  const ProgramResult size = run_program(
      "attnppl", {"--model-size", "70m", "--random-weights", "--device", "cpu", "--out", setting.out});
  if (size.exit_code != 0) CHECK(contains(size.err, "tools/fetch_model pythia-70m"));
}

TEST_CASE("bad texts are refused with their place") {
  const Setting setting;
  const auto run = [&](const std::string& name, const std::string& bytes) {
    const std::string file = (setting.folder.path() / name).string();
    write_text_file(file, bytes);
    return run_program("attnppl", {"--model", setting.model, "--random-weights", "--device", "cpu", "--out",
                                   setting.out, "--dataset", file});
  };
  const ProgramResult empty = run("empty.txt", "");
  CHECK(empty.exit_code == 3);
  CHECK(contains(empty.err, "empty.txt"));
  const ProgramResult invalid = run("invalid.txt",
                                    "abc\xff"
                                    "def");
  CHECK(invalid.exit_code == 3);
  CHECK(contains(invalid.err, "invalid.txt"));
  CHECK(contains(invalid.err, "3"));
  CHECK(run("torn.jsonl", "{\"text\": \"abc").exit_code == 3);
  const ProgramResult single = run("single.txt", "a");
  CHECK(single.exit_code == 3);
  CHECK(contains(single.err, "nothing to score"));
  CHECK(setting.run({}).exit_code == 0);  // the setting itself is good
}

TEST_CASE("attnppl refuses a model and a folder that do not fit before the work") {
  const Setting setting;
  const std::string small = make_tiny_model(setting.folder.path() / "small", 100);
  const ProgramResult vocabulary =
      run_program("attnppl", {"--model", small, "--random-weights", "--device", "cpu", "--out", setting.out,
                              "--dataset", setting.text});
  CHECK(vocabulary.exit_code == 3);
  CHECK(contains(vocabulary.err, "2048 ids"));
  const ProgramResult folder =
      run_program("attnppl", {"--model", setting.model, "--random-weights", "--dataset", setting.text,
                              "--out", setting.text + "/results"});
  CHECK(folder.exit_code == 3);
  CHECK(contains(folder.err, "cannot write"));
  CHECK_FALSE(contains(folder.out, "perplexity"));
}

TEST_CASE("a context past the trained one warns and is recorded for rotary models") {
  const Setting setting;
  std::string longer;
  for (int i = 0; i < 4; ++i) longer += kText;
  write_text_file(setting.text, longer);
  const ProgramResult result = setting.run({"--mode", "flash", "--max-length", "80"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(contains(result.err, "past the model's trained context of 64"));
  CHECK(setting.records().at(0).extra.find("notes") != nullptr);
}

TEST_CASE("an interrupted attnppl records the part that was scored") {
  const Setting setting;
  std::string longer;
  for (int i = 0; i < 3000; ++i) longer += kText;
  write_text_file(setting.text, longer);
  const std::string out = (setting.folder.path() / "stdout").string();
  const std::string program = std::string(ATTN_BIN_DIR) + "/attnppl";
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    execl(program.c_str(), "attnppl", "--model", setting.model.c_str(), "--random-weights", "--device", "cpu",
          "--out", setting.out.c_str(), "--dataset", setting.text.c_str(), "--stride", "1", nullptr);
    _exit(127);
  }
  for (int i = 0; i < 6000 && !contains(read_text(out), "protocol full"); ++i) usleep(10000);
  usleep(100000);
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  const auto records = setting.records();
  REQUIRE(records.size() == 2);  // both modes were scored window by window
  for (const ResultRecord& record : records) {
    CHECK(record.outcome == Outcome::interrupted);
    CHECK(number(record.metrics, "tokens_scored") > 0);
    CHECK(number(record.metrics, "tokens_scored") < number(record.metrics, "tokens") - 1);
    CHECK(number(record.metrics, "tokens_scored") == number(records[0].metrics, "tokens_scored"));
  }
}

TEST_CASE("attnppl shows the share of the measured ceiling where it is asked for") {
  const Setting setting;
  const ProgramResult plain = setting.run({"--mode", "flash"});
  CHECK(plain.exit_code == 0);
  CHECK(!contains(plain.out, "of limit"));
  const ProgramResult result = setting.run({"--mode", "flash", "--ceilings"});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "ceilings of this device:"));
  CHECK(contains(result.out, "of limit"));
  const std::vector<ResultRecord> records = setting.records();
  REQUIRE(records.size() == 2);
  CHECK(records[0].metrics.find("limit_run_ms") == nullptr);
  const Fields& metrics = records[1].metrics;
  const double seconds = number(metrics, "seconds"), tflops = number(metrics, "tflops");
  const Value* ceilings = records[1].extra.find("ceilings");
  REQUIRE(ceilings != nullptr);
  const double ceiling = number(std::get<Fields>(ceilings->data), "product_tflops");
  CHECK(number(metrics, "run_share_of_limit") == Approx(tflops / ceiling));
  CHECK(number(metrics, "limit_run_ms") == Approx(tflops * seconds / ceiling * 1e3));
  CHECK(setting.run({"--tokenize-only", "--ceilings"}).exit_code == 2);
}
