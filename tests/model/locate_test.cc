// Where a model's name leads.
#include "lib/model/locate.h"

#include <cstdlib>

#include "lib/model/presets.h"
#include "tests/model/checkpoint_files.h"
#include "tests/model/expect_error.h"

using namespace attn;
using attn::test::expect_error;
using attn::test::TempDir;
using attn::test::write_file;

namespace fs = std::filesystem;

namespace {

// Three places in one folder.
ModelPlaces places_in(const TempDir& dir) {
  return {dir.path() / "bundled", dir.path() / "own", dir.path() / "hub"};
}

void add_snapshot(const fs::path& hub, const std::string& folder, const std::string& revision,
                  const std::string& file = "config.json") {
  write_file(hub / folder / "snapshots" / revision / file, "{}");
}

void add_main(const fs::path& hub, const std::string& folder, const std::string& revision) {
  write_file(hub / folder / "refs" / "main", revision);
}

// Sets a variable of the environment for one scope.
class WithVariable {
 public:
  WithVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~WithVariable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  WithVariable(const WithVariable&) = delete;
  WithVariable& operator=(const WithVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace

TEST_CASE("a model is looked for in one order of places") {
  const TempDir dir;
  const ModelPlaces places = places_in(dir);
  CHECK(find_model_in("pythia-70m", places).how == "preset");
  CHECK_FALSE(find_model_in("pythia-70m", places).dir.has_value());

  add_snapshot(places.hub, "models--EleutherAI--pythia-70m", "abc");
  add_main(places.hub, "models--EleutherAI--pythia-70m", "abc\n");
  const ModelSource cached = find_model_in("pythia-70m", places);
  CHECK(cached.how == "Hugging Face cache");
  CHECK(cached.name == "pythia-70m");
  CHECK(cached.dir == places.hub / "models--EleutherAI--pythia-70m" / "snapshots" / "abc");

  write_file(places.own / "pythia-70m" / "config.json", "{}");
  CHECK(find_model_in("pythia-70m", places).how == "ATTNBENCH_MODELS");
  write_file(places.bundled / "pythia-70m" / "config.json", "{}");
  CHECK(find_model_in("pythia-70m", places).how == "bundled");
  CHECK(find_model_in("pythia-70m", places).dir == places.bundled / "pythia-70m");
}

TEST_CASE("a folder given as such is the model") {
  const TempDir dir;
  const ModelPlaces places = places_in(dir);
  write_file(dir.path() / "mine" / "tokenizer.json", "{}");
  const std::string path = (dir.path() / "mine").string();
  for (const std::string& given : {path, path + "/", path + "/."}) {
    CAPTURE(given);
    const ModelSource source = find_model_in(given, places);
    CHECK(source.how == "folder");
    CHECK(source.name == "mine");
    CHECK(fs::equivalent(*source.dir, path));
  }
  expect_error(ErrorKind::bad_input, {"neither"}, [&] { find_model_in(dir.path().string(), places); });
  expect_error(ErrorKind::bad_input, {"no such folder"},
               [&] { find_model_in("/nonexistent/model", places); });
  expect_error(ErrorKind::bad_input, {"is a file"}, [&] { find_model_in(path + "/tokenizer.json", places); });
  expect_error(ErrorKind::bad_input, {"empty"}, [&] { find_model_in("", places); });
}

TEST_CASE("the Hugging Face cache is read in its own layout") {
  const TempDir dir;
  const ModelPlaces places = places_in(dir);
  const std::string tiny = "models--some-org--tiny.model";
  SECTION("refs main picks the snapshot") {
    add_snapshot(places.hub, tiny, "old");
    add_snapshot(places.hub, tiny, "new");
    add_main(places.hub, tiny, "new");
    const ModelSource source = find_model_in("some-org/tiny.model", places);
    CHECK(source.name == "some-org/tiny.model");
    CHECK(source.dir == places.hub / tiny / "snapshots" / "new");
  }
  SECTION("without refs a single snapshot is taken") {
    add_snapshot(places.hub, tiny, "only");
    CHECK(find_model_in("some-org/tiny.model", places).dir == places.hub / tiny / "snapshots" / "only");
  }
  SECTION("without refs two snapshots are not chosen between") {
    add_snapshot(places.hub, tiny, "a");
    add_snapshot(places.hub, tiny, "b");
    expect_error(ErrorKind::bad_input, {"some-org/tiny.model"},
                 [&] { find_model_in("some-org/tiny.model", places); });
  }
  SECTION("a preset is found under its repository or its old name without one") {
    add_snapshot(places.hub, "models--gpt2", "r", "merges.txt");
    CHECK(find_model_in("gpt2", places).how == "Hugging Face cache");
    CHECK(find_model_in("openai-community/gpt2", places).name == "gpt2");
    CHECK(find_model_in("openai-community/gpt2", places).how == "Hugging Face cache");
  }
  SECTION("a preset is known by its repository too") {
    CHECK(find_model_in("meta-llama/Llama-3.2-1B", places).name == "llama-3.2-1b");
  }
}

TEST_CASE("the environment says where models lie") {
  const WithVariable no_hub("HF_HUB_CACHE", nullptr);
  const WithVariable no_xdg("XDG_CACHE_HOME", nullptr);
  const WithVariable home("HOME", "/h");
  const WithVariable models("ATTNBENCH_MODELS", "/m");
  {
    const WithVariable no_hf("HF_HOME", nullptr);
    CHECK(model_places().hub == "/h/.cache/huggingface/hub");
    const WithVariable xdg("XDG_CACHE_HOME", "/x");
    CHECK(model_places().hub == "/x/huggingface/hub");
  }
  const WithVariable hf("HF_HOME", "/f");
  CHECK(model_places().hub == "/f/hub");
  CHECK(model_places().own == "/m");
  const WithVariable cache("HF_HUB_CACHE", "/c");
  CHECK(model_places().hub == "/c");
  CHECK(model_places().bundled.filename() == "models");

  const TempDir dir;
  add_snapshot(dir.path() / "hub", "models--EleutherAI--pythia-31m", "r");
  const WithVariable real_home("HF_HOME", dir.path().c_str());
  const WithVariable no_cache("HF_HUB_CACHE", nullptr);
  CHECK(find_model("pythia-31m").how == "Hugging Face cache");
}

TEST_CASE("an unknown name gets close names and the two ways out") {
  const TempDir dir;
  const ModelPlaces places = places_in(dir);
  expect_error(ErrorKind::bad_input,
               {"gpt2x", "tools/fetch_model gpt2x", "--from URL", "--random-weights", "gpt2",
                places.own.c_str(), places.hub.c_str()},
               [&] { find_model_in("gpt2x", places); });
  expect_error(ErrorKind::bad_input, {"pythia-2.8b"}, [&] { find_model_in("pythia2.8b", places); });
  expect_error(ErrorKind::bad_input, {"llama-3-8b", "llama-3.2-1b"}, [&] { find_model_in("llama", places); });
  write_file(places.own / "mymodel" / "config.json", "{}");
  expect_error(ErrorKind::bad_input, {"Close to it: mymodel"}, [&] { find_model_in("mymodle", places); });
  expect_error(ErrorKind::bad_input, {"fetch_model"}, [&] { find_model_in("x/../../etc", places); });
}

TEST_CASE("the list of models shows each name once with its first place") {
  const TempDir dir;
  const ModelPlaces places = places_in(dir);
  write_file(places.bundled / "demo" / "config.json", "{}");
  write_file(places.own / "gpt2" / "config.json", "{}");
  add_snapshot(places.hub, "models--openai-community--gpt2", "r");
  add_snapshot(places.hub, "models--org--other", "r");
  write_file(places.hub / "version.txt", "1");
  const auto models = list_models(places);
  CHECK(models.size() == presets().size() + 2);
  CHECK(models[0].name == "demo");
  CHECK(models[1].name == "gpt2");
  CHECK(models[1].how == "ATTNBENCH_MODELS");
  CHECK(models[2].name == "org/other");
  CHECK(models[3].how == "preset");
}
