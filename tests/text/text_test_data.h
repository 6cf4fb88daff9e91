// The real tokenizers and texts beside the checkout, and small tokenizers made on the spot.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lib/text/token.h"

namespace attn::test {

inline std::filesystem::path data_path(const std::string& name) {
  return std::filesystem::path(ATTN_SOURCE_DIR) / "../shared/data" / name;
}

using Ids = std::vector<TokenId>;

// A folder for one test case, removed with it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Writes a file into it and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& bytes) const;

 private:
  std::filesystem::path path_;
};

// A complete tokenizer.json with the 256 single bytes (the id of byte b is b) and merges over them: token 256
// + i is what merge i makes. `changes` is a JSON merge patch (RFC 7386) on top: it sets, replaces or, with
// null, removes.
std::string small_tokenizer_json(const std::vector<std::pair<std::string, std::string>>& merges,
                                 const std::string& changes = "{}");

}  // namespace attn::test

#define REQUIRE_TEST_DATA(name)                                        \
  do {                                                                 \
    if (!std::filesystem::exists(attn::test::data_path(name))) {       \
      ATTN_SKIP("../shared/data/" name " is not beside the checkout"); \
    }                                                                  \
  } while (false)
