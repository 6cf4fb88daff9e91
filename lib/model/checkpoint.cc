// Files of a checkpoint.
#include "lib/model/checkpoint.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/model/json_text.h"

namespace attn {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// What to tell a person whose folder has weights in another form, or none.
[[noreturn]] void fail_without_weights(const fs::path& dir) {
  bool shards = false;
  bool pickled = false;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    const std::string name = entry.path().filename().string();
    shards = shards || name.ends_with(".safetensors");
    pickled = pickled || name.starts_with("pytorch_model");
  }
  if (shards) {
    fail(ErrorKind::bad_input, "{}: has safetensors files, but neither {} nor the index {} of its shards",
         dir.string(), kSingleFile, kIndexFile);
  }
  if (pickled) {
    fail(ErrorKind::bad_input,
         "{}: has pytorch_model files, but only safetensors are read: convert them, or get them with "
         "tools/fetch_model",
         dir.string());
  }
  fail(ErrorKind::bad_input,
       "{}: has no weights ({} or {}): get them with tools/fetch_model, or run with --random-weights",
       dir.string(), kSingleFile, kIndexFile);
}

// {tensor: file}, file names checked to stay inside the folder.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const MappedFile file(path);
  const nlohmann::json index = parse_json_object(
      {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path.string());
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty())
    fail(ErrorKind::bad_input, "{}: weight_map is missing, empty or not an object", path.string());
  std::map<std::string, std::string> files;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string())
      fail(ErrorKind::bad_input, "{}: the file of '{}' is not a text", path.string(), tensor);
    const auto& name = shard.get_ref<const std::string&>();
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      fail(ErrorKind::bad_input, "{}: '{}' is not the name of a file in the same folder", path.string(),
           name);
    }
    files.emplace(tensor, name);
  }
  return files;
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& model_dir) : dir_(model_dir) {
  if (fs::exists(dir_ / kSingleFile)) {
    open_single(kSingleFile);
  } else if (fs::exists(dir_ / kIndexFile)) {
    open_shards(dir_ / kIndexFile);
  } else {
    fail_without_weights(dir_);
  }
}

void Checkpoint::open_single(const std::string& file) {
  files_.push_back(file);
  mapped_.emplace_back(dir_ / file);
  tensors_ = read_safetensors(mapped_.back().bytes(), (dir_ / file).string());
  for (std::size_t i = 0; i < tensors_.size(); ++i) places_.emplace(tensors_[i].name, i);
}

void Checkpoint::open_shards(const fs::path& index) {
  const auto file_of = read_index(index);
  for (const auto& [tensor, file] : file_of) files_.push_back(file);
  std::sort(files_.begin(), files_.end());
  files_.erase(std::unique(files_.begin(), files_.end()), files_.end());

  for (const std::string& file : files_) {
    if (!fs::exists(dir_ / file)) {
      fail(ErrorKind::bad_input,
           "{}: the shard {} is missing (the checkpoint has {} of them): fetch it again", index.string(),
           file, files_.size());
    }
  }
  for (const std::string& file : files_) {
    mapped_.emplace_back(dir_ / file);
    for (StoredTensor& tensor : read_safetensors(mapped_.back().bytes(), (dir_ / file).string())) {
      const auto entry = file_of.find(tensor.name);
      if (entry == file_of.end()) {
        outside_index_.push_back(tensor.name);
      } else if (entry->second == file) {
        places_.emplace(tensor.name, tensors_.size());
        tensors_.push_back(std::move(tensor));
      }
    }
  }
  for (const auto& [tensor, file] : file_of) {
    if (!places_.contains(tensor)) {
      fail(ErrorKind::bad_input, "{}: tensor '{}' is not in {}, where the index says it is", index.string(),
           tensor, file);
    }
  }
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto place = places_.find(std::string(name));
  return place == places_.end() ? nullptr : &tensors_[place->second];
}

bool Checkpoint::is_outside_index(std::string_view name) const {
  return std::find(outside_index_.begin(), outside_index_.end(), name) != outside_index_.end();
}

}  // namespace attn
