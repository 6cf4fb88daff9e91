// From a model's name to its folder.
#include "lib/model/locate.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "lib/core/build_info.h"
#include "lib/core/text_file.h"
#include "lib/model/presets.h"

namespace attn {

namespace {

namespace fs = std::filesystem;

fs::path from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return !path.empty() && fs::is_directory(path, ignored);
}

// A tokenizer alone is enough: some work needs nothing else.
bool is_model_folder(const fs::path& dir) {
  if (!is_folder(dir)) return false;
  return is_file(dir / "config.json") || is_file(dir / "tokenizer.json") || is_file(dir / "merges.txt") ||
         is_file(dir / "vocab.bpe");
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

std::vector<fs::path> folders_in(const fs::path& dir) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  if (dir.empty()) return folders;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    if (is_folder(entry.path())) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// The snapshot that refs/main names; without that file, the only one there is. Empty when there is none to be
// sure of.
fs::path snapshot_in(const fs::path& repository) {
  if (is_file(repository / "refs" / "main")) {
    fs::path dir = repository / "snapshots" / trimmed(read_text_file(repository / "refs" / "main", 4096));
    if (is_model_folder(dir)) return dir;
  }
  const auto snapshots = folders_in(repository / "snapshots");
  return snapshots.size() == 1 && is_model_folder(snapshots.front()) ? snapshots.front() : fs::path();
}

// "ORG/NAME" -> models--ORG--NAME. Models of the hub's first days have no ORG.
fs::path find_in_hub(const fs::path& hub, std::string_view repository) {
  if (!is_folder(hub)) return {};
  std::string folder = "models--";
  for (const char c : repository) folder += c == '/' ? std::string("--") : std::string(1, c);
  return snapshot_in(hub / folder);
}

const Preset* preset_of(std::string_view name_or_repository) {
  for (const Preset& preset : presets()) {
    if (preset.name == name_or_repository || preset.hub_repository == name_or_repository) return &preset;
  }
  return nullptr;
}

// Levenshtein's distance: insertions, deletions and replacements between two names.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string close_names(std::string_view name, const ModelPlaces& places) {
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const ModelSource& model : list_models(places)) {
    const std::size_t distance = edit_distance(name.substr(0, 200), model.name);
    const bool contained = name.size() >= 3 && model.name.find(name) != std::string::npos;
    if (distance <= 3 || contained) near.emplace_back(distance, model.name);
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(near.size(), 4); ++i)
    text += (i == 0 ? " Close to it: " : ", ") + near[i].second;
  return text.empty() ? text : text + ".";
}

// "models--ORG--NAME" -> "ORG/NAME", or the preset's name for a published one.
std::string name_of_hub_folder(const fs::path& folder) {
  const std::string folder_name = folder.filename().string().substr(std::string_view("models--").size());
  const std::size_t dashes = folder_name.find("--");
  const std::string name = dashes == std::string::npos
                               ? folder_name
                               : folder_name.substr(0, dashes) + "/" + folder_name.substr(dashes + 2);
  const Preset* preset = preset_of(name);
  return preset != nullptr ? std::string(preset->name) : name;
}

}  // namespace

ModelPlaces model_places() {
  ModelPlaces places;
  const fs::path tree(build_info().source_tree);
  if (!tree.empty()) places.bundled = tree / "models";
  places.own = from_environment("ATTNBENCH_MODELS");
  if (const fs::path cache = from_environment("HF_HUB_CACHE"); !cache.empty()) {
    places.hub = cache;
  } else if (const fs::path home = from_environment("HF_HOME"); !home.empty()) {
    places.hub = home / "hub";
  } else if (const fs::path xdg = from_environment("XDG_CACHE_HOME"); !xdg.empty()) {
    places.hub = xdg / "huggingface" / "hub";
  } else if (const fs::path user = from_environment("HOME"); !user.empty()) {
    places.hub = user / ".cache" / "huggingface" / "hub";
  }
  return places;
}

ModelSource find_model_in(std::string_view name_or_dir, const ModelPlaces& places) {
  const std::string name(name_or_dir);
  if (name.empty()) fail(ErrorKind::bad_input, "the name of a model is empty");
  if (is_model_folder(name)) {
    const fs::path dir = fs::path(name).lexically_normal();
    const fs::path last = dir.has_filename() ? dir.filename() : dir.parent_path().filename();
    return {last == "." || last == ".." ? fs::canonical(dir).filename().string() : last.string(), dir,
            "folder"};
  }
  const bool is_path =
      name.front() == '/' || name.starts_with("./") || name.starts_with("../") || name == "." || name == "..";
  if (is_path || name.ends_with('/')) {
    if (is_folder(name))
      fail(ErrorKind::bad_input, "{}: this folder has neither a config.json nor a tokenizer", name);
    if (is_file(name)) fail(ErrorKind::bad_input, "{}: is a file; a model is given as its folder", name);
    fail(ErrorKind::bad_input, "{}: there is no such folder", name);
  }

  const bool stays_inside = name.find("..") == std::string::npos;
  if (stays_inside && !places.bundled.empty() && is_model_folder(places.bundled / name))
    return {name, places.bundled / name, "bundled"};
  if (stays_inside && !places.own.empty() && is_model_folder(places.own / name))
    return {name, places.own / name, "ATTNBENCH_MODELS"};

  const Preset* preset = preset_of(name);
  const std::string repository = preset != nullptr ? std::string(preset->hub_repository) : name;
  fs::path snapshot = find_in_hub(places.hub, repository);
  if (snapshot.empty() && preset != nullptr) snapshot = find_in_hub(places.hub, preset->name);
  const std::string known_name = preset != nullptr ? std::string(preset->name) : name;
  if (!snapshot.empty()) return {known_name, snapshot, "Hugging Face cache"};
  if (preset != nullptr) return {known_name, std::nullopt, "preset"};

  fail(ErrorKind::bad_input,
       "the model '{}' is not known: it is not a folder, not bundled, not in $ATTNBENCH_MODELS ({}), not in "
       "the "
       "Hugging Face cache ({}) and no preset.{} Get it with: tools/fetch_model {} [--from URL]; presets "
       "also run "
       "without files with --random-weights",
       name, places.own.empty() ? "not set" : places.own.string(), places.hub.string(),
       close_names(name, places), name);
}

ModelSource find_model(std::string_view name_or_dir) { return find_model_in(name_or_dir, model_places()); }

std::vector<ModelSource> list_models(const ModelPlaces& places) {
  std::vector<ModelSource> models;
  std::set<std::string> seen;
  const auto add = [&](ModelSource source) {
    if (seen.insert(source.name).second) models.push_back(std::move(source));
  };
  for (const auto& dir : folders_in(places.bundled)) {
    if (is_model_folder(dir)) add({dir.filename().string(), dir, "bundled"});
  }
  for (const auto& dir : folders_in(places.own)) {
    if (is_model_folder(dir)) add({dir.filename().string(), dir, "ATTNBENCH_MODELS"});
  }
  for (const auto& dir : folders_in(places.hub)) {
    if (!dir.filename().string().starts_with("models--")) continue;
    const fs::path snapshot = snapshot_in(dir);
    if (!snapshot.empty()) add({name_of_hub_folder(dir), snapshot, "Hugging Face cache"});
  }
  for (const Preset& preset : presets()) add({std::string(preset.name), std::nullopt, "preset"});
  return models;
}

}  // namespace attn
