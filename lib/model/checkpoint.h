// Checkpoint: all tensors of a model's folder, in one safetensors file or in shards with an index.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/core/mapped_file.h"
#include "lib/model/safetensors.h"

namespace attn {

class Checkpoint {
 public:
  // Opens model.safetensors, else the shards that model.safetensors.index.json names, and checks every
  // header. Throws Error{bad_input}: neither is there, a shard is missing, a tensor is not in the shard that
  // the index names, and what read_safetensors refuses.
  explicit Checkpoint(const std::filesystem::path& model_dir);

  const StoredTensor* find(std::string_view name) const;  // null when not there
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const std::vector<std::string>& files() const { return files_; }  // names inside the folder
  const std::filesystem::path& dir() const { return dir_; }
  // In a shard, but left out of the index.
  bool is_outside_index(std::string_view name) const;

 private:
  void open_single(const std::string& file);
  void open_shards(const std::filesystem::path& index);

  std::filesystem::path dir_;
  std::vector<std::string> files_;
  std::vector<MappedFile> mapped_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, std::size_t> places_;  // in tensors_
  std::vector<std::string> outside_index_;
};

}  // namespace attn
