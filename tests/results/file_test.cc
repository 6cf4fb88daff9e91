// Writing and reading result files, whole and damaged.
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>

#include <sys/stat.h>
#include <unistd.h>

#include "lib/core/error.h"
#include "lib/results/reader.h"
#include "lib/results/writer.h"
#include "tests/catch.h"

using namespace attn;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "attn-results-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string get(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

ResultRecord record(const std::string& mode, double ttft_ms) {
  ResultRecord r;
  r.app = "attnbench";
  r.parameters = {
      {"model", "demo"}, {"batch_size", 1}, {"prompt_tokens", 16}, {"new_tokens", 4}, {"mode", mode}};
  r.metrics["ttft_ms"] = ttft_ms;
  return r;
}

ReadResults read(const fs::path& path) { return read_results(std::vector{path}); }

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("records appended to a file in new folders are read back in order") {
  const Folder folder;
  const fs::path path = folder / "new/deep/bench.jsonl";
  {
    JsonlWriter writer(path);
    writer.append(record("baseline", 2));
    CHECK(read(path).records.size() == 1);  // on disk before the writer ends
    writer.append(record("flash", 1));
  }
  JsonlWriter(path).append(record("flash", 3));
  const auto results = read(path);
  REQUIRE(results.records.size() == 3);
  CHECK(results.records[1].metrics.find("ttft_ms")->number() == 1);
  CHECK(results.records[2].source == path.string() + ":3");
  CHECK(results.warnings.empty());
}

TEST_CASE("a writer without a record leaves no empty file") {
  const Folder folder;
  { JsonlWriter writer(folder / "bench.jsonl"); }
  CHECK_FALSE(fs::exists(folder / "bench.jsonl"));
}

TEST_CASE("a record that is not finite writes nothing") {
  const Folder folder;
  const fs::path path = folder / "bench.jsonl";
  JsonlWriter writer(path);
  writer.append(record("baseline", 2));
  CHECK_THROWS_AS(writer.append(record("flash", std::nan(""))), Error);
  CHECK(read(path).records.size() == 1);
}

TEST_CASE("a place that cannot be written is refused before the work and named") {
  const Folder folder;
  put(folder / "file", "x");
  const auto through_file = message_of([&] { JsonlWriter writer(folder / "file/bench.jsonl"); });
  CHECK(through_file.find((folder / "file").string()) != std::string::npos);
  fs::create_directory(folder / "taken.jsonl");
  CHECK_THROWS_AS(JsonlWriter(folder / "taken.jsonl"), Error);
  CHECK_THROWS_AS(ResultWriter("/proc/no-such/place", "bench.jsonl"), Error);
  CHECK_THROWS_AS(ResultWriter("/proc/out.json", "bench.jsonl"), Error);
  if (geteuid() == 0) return;  // root may write everywhere
  const fs::path locked = folder / "locked";
  fs::create_directory(locked);
  chmod(locked.c_str(), 0555);
  CHECK(message_of([&] { JsonlWriter writer(locked / "a.jsonl"); }).find(locked.string()) !=
        std::string::npos);
  CHECK_THROWS_AS(ResultWriter(locked / "a.json", ""), Error);
}

TEST_CASE("a torn last line is skipped with a warning") {
  const Folder folder;
  const fs::path path = folder / "bench.jsonl";
  JsonlWriter(path).append(record("baseline", 2));
  put(path, get(path) + R"({"schema":"attnbench/1","app":"attnb)");
  const auto results = read(path);
  CHECK(results.records.size() == 1);
  REQUIRE(results.warnings.size() == 1);
  CHECK(results.warnings[0].find(path.string() + ":2") == 0);
}

TEST_CASE("appending after a torn line sets it aside and keeps the file whole") {
  const Folder folder;
  const fs::path path = folder / "bench.jsonl";
  JsonlWriter(path).append(record("baseline", 2));
  const std::string torn = R"({"schema":"attnbench/1","app":"attnb)";
  put(path, get(path) + torn);
  JsonlWriter(path).append(record("flash", 1));
  const auto results = read(path);
  CHECK(results.records.size() == 2);
  CHECK(results.warnings.empty());
  CHECK(get(path.string() + ".torn") == torn + "\n");
}

TEST_CASE("appending after a whole line without a line end keeps that line") {
  const Folder folder;
  const fs::path path = folder / "bench.jsonl";
  JsonlWriter(path).append(record("baseline", 2));
  std::string text = get(path);
  text.pop_back();
  put(path, text);
  JsonlWriter(path).append(record("flash", 1));
  CHECK(read(path).records.size() == 2);
  CHECK_FALSE(fs::exists(path.string() + ".torn"));
}

TEST_CASE("a broken line before the last is an error with its number") {
  const Folder folder;
  const fs::path path = folder / "bench.jsonl";
  JsonlWriter(path).append(record("baseline", 2));
  const std::string line = get(path);
  put(path, line + "{\"schema\": \n" + line);
  CHECK(message_of([&] { read(path); }).find(path.string() + ":2: not JSON") == 0);
  put(path, line + "[1]\n" + line);
  CHECK(message_of([&] { read(path); }).find(path.string() + ":2: not a result record") == 0);
}

TEST_CASE("blank lines and Windows line ends do not matter") {
  const Folder folder;
  const fs::path path = folder / "bench.jsonl";
  JsonlWriter(path).append(record("baseline", 2));
  std::string line = get(path);
  line.pop_back();
  put(path, "\n" + line + "\r\n\r\n\n");
  CHECK(read(path).records.size() == 1);
  CHECK(read(path).warnings.empty());
}

TEST_CASE("a document has results and a summary and is replaced whole") {
  const Folder folder;
  const fs::path path = folder / "out/metrics.json";
  ResultWriter writer(path, "unused.jsonl");
  CHECK_FALSE(fs::exists(path));
  writer.append(record("baseline", 2));
  CHECK(read(path).records.size() == 1);
  writer.append(record("flash", 1));
  const Value document = parse_json(get(path), "metrics.json");
  const Fields* summary = document.fields()->find("summary")->fields();
  REQUIRE(summary);
  CHECK(to_json(*summary->find("mode")) == R"(["baseline","flash"])");
  CHECK(to_json(*summary->find("batch_sizes")) == "[1]");
  CHECK(to_json(*summary->find("new_token_sizes")) == "[4]");
  CHECK(display(*summary->find("model_name")) == "demo");
  const auto results = read(path);
  REQUIRE(results.records.size() == 2);
  CHECK(results.records[1].source == path.string() + "[1]");
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder / "out")) ++files;
  CHECK(files == 1);  // no temporary file stays
}

TEST_CASE("out names a document or lines or a folder by its ending") {
  const Folder folder;
  CHECK(ResultWriter(folder / "a.json", "bench.jsonl").path() == folder / "a.json");
  CHECK(ResultWriter(folder / "a.jsonl", "bench.jsonl").path() == folder / "a.jsonl");
  CHECK(ResultWriter(folder / "results", "bench.jsonl").path() == folder / "results/bench.jsonl");
  fs::create_directory(folder / "odd.json");
  CHECK(ResultWriter(folder / "odd.json", "bench.jsonl").path() == folder / "odd.json/bench.jsonl");
}

TEST_CASE("a folder is read in the order of its names and strange files are only warned of") {
  const Folder folder;
  JsonlWriter(folder / "b.jsonl").append(record("flash", 1));
  write_document(folder / "a.json", std::vector{record("baseline", 2)});
  put(folder / "c.json", R"({"logits": [1, 2]})");
  put(folder / "notes.txt", "not read");
  const auto results = read(folder.path());
  REQUIRE(results.records.size() == 2);
  CHECK(results.records[0].metrics.find("ttft_ms")->number() == 2);
  REQUIRE(results.warnings.size() == 1);
  CHECK(results.warnings[0].find("c.json") != std::string::npos);
  CHECK_THROWS_AS(read(folder / "c.json"), Error);
  CHECK_THROWS_AS(read(folder / "no-such"), Error);
}

TEST_CASE("the same record in two files counts once") {
  const Folder folder;
  JsonlWriter(folder / "b.jsonl").append(record("flash", 1));
  write_document(folder / "a.json", std::vector{record("flash", 1)});
  CHECK(read(folder.path()).records.size() == 1);
}

TEST_CASE("the files of system B are read") {
  const Folder folder;
  put(folder / "baseline_metrics.json", R"({"results": [
    {"batch_size": 1, "max_new_tokens": 128, "prompt_seq_len": 25, "ttft_ms": 34.5, "tpot_ms": 32.75,
     "throughput_tps": 30.5, "peak_mem_mb": NaN,
     "config": {"mode": "baseline", "device": "cuda", "model_name": "EleutherAI/pythia-2.8b",
                "prompt_path": "src/prompts/short_prompt.txt", "max_prompt_tokens": null, "FLASH_SDPA": null}}],
    "summary": {"mode": "baseline", "batch_sizes": [1]}})");
  put(folder / "ppl.json", R"({"model_name": "EleutherAI/pythia-2.8b", "dataset": "wikitext", "mode": "both",
    "baseline": {"ppl": 81.8, "avg_loss": 4.404, "num_samples": 79},
    "flash": {"ppl": 82.76, "avg_loss": 4.416, "num_samples": 79}, "log_ppl_diff": 0.011})");
  const auto results = read(folder.path());
  CHECK(results.warnings.empty());
  REQUIRE(results.records.size() == 3);
  const ResultRecord& bench = results.records[0];
  CHECK(bench.app == "benchmark");
  CHECK(bench.parameters.find("new_tokens")->number() == 128);
  CHECK(bench.parameters.find("prompt_tokens")->number() == 25);
  CHECK(display(*bench.parameters.find("mode")) == "baseline");
  CHECK(bench.metrics.find("ttft_ms")->number() == 34.5);
  CHECK(bench.metrics.find("peak_mem_mb")->is_null());
  CHECK(results.records[2].metrics.find("perplexity")->number() == 82.76);
  CHECK(display(*results.records[2].parameters.find("mode")) == "flash");
}
