// Small tokenizers and folders for the tests of the text room.
#include "tests/text/text_test_data.h"

#include <fstream>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "lib/text/byte_symbols.h"

namespace attn::test {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "attn_text_test_XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  path_ = name;
}

std::filesystem::path TemporaryFolder::write(const std::string& name, const std::string& bytes) const {
  std::filesystem::create_directories((path_ / name).parent_path());
  std::ofstream(path_ / name, std::ios::binary) << bytes;
  return path_ / name;
}

std::string small_tokenizer_json(const std::vector<std::pair<std::string, std::string>>& merges,
                                 const std::string& changes) {
  nlohmann::json file = nlohmann::json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false}})");
  const ByteSymbols symbols;
  nlohmann::json& model = file["model"];
  for (int byte = 0; byte < 256; ++byte)
    model["vocab"][symbols.of_byte(static_cast<std::uint8_t>(byte))] = byte;
  int id = 256;
  model["merges"] = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    model["vocab"][left + right] = id++;
    model["merges"].push_back(left + " " + right);
  }
  file.merge_patch(nlohmann::json::parse(changes));
  return file.dump();
}

}  // namespace attn::test
