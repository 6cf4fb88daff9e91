// Data sets: from a name, file or folder to the texts that are scored, with their fingerprint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/attnppl/options.h"
#include "lib/core/sha256.h"
#include "lib/eval/protocols.h"

namespace attn {

struct Dataset {
  std::string name;            // as records show it: "wikitext", "pg19/10146.txt.zst", or as the user gave it
  std::filesystem::path path;  // a file or folder that is there
  std::int64_t max_chars = 0;  // of each document, Unicode characters; 0: all
  std::int64_t max_lines = 0;  // of all documents together; 0: all
};

// Throws Error{bad_input} for what is not there; for wikitext and pg19 the message names
// tools/fetch_datasets. The legacy protocol reads WikiText's `.tokens` form, as the system that it imitates
// does, every other its raw text.
Dataset find_dataset(const PplOptions& options, Protocol protocol);

// The documents of a data set after its limits, and what was read of them so far.
class DatasetTexts {
 public:
  explicit DatasetTexts(const Dataset& dataset);
  std::optional<Document> next();
  std::int64_t documents() const { return documents_; }
  // Of the texts handed out, end to end. Call it once, last.
  std::string sha256() { return sha_.finish(); }

 private:
  const Dataset& dataset_;
  DocumentReader reader_;
  std::int64_t documents_ = 0, lines_ = 0;
  Sha256 sha_;
};

// The first `count` characters of UTF-8, and the first `count` lines with their line ends.
std::string_view first_chars(std::string_view text, std::int64_t count);
std::string_view first_lines(std::string_view text, std::int64_t count);

}  // namespace attn
