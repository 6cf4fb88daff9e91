// Data sets: from a name, file or folder to the texts that are scored, with their fingerprint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/attnppl/options.h"
#include "lib/core/sha256.h"
#include "lib/eval/protocols.h"
#include "lib/text/document.h"
#include "lib/text/pg19.h"

namespace attn {

struct Dataset {
  std::string
      name;  // as records show it: "wikitext", "pg19/10146.txt.zst", "pg19/test", or as the user gave it
  std::vector<std::filesystem::path> files;      // that are there, in the order in which they are read
  ReadOptions reading{};                         // which of their documents, and their line ends
  std::int64_t max_chars = 0;                    // of each document, Unicode characters; 0: all
  std::int64_t max_lines = 0;                    // of all documents together; 0: all
  std::optional<Pg19Split> pg19_split{};         // the files are the books of this split that are there
  std::map<std::int32_t, std::string> titles{};  // of PG-19's books, where a metadata.csv is beside them
  std::vector<std::string>
      notes{};  // what must be said: books that are missing, titles that could not be read
};

// Throws Error{bad_input} for what is not there; for wikitext and pg19 the message names
// tools/fetch_datasets. legacy-rows reads WikiText's `.tokens` form, as the system that it imitates does,
// every other protocol its raw text.
Dataset find_dataset(const PplOptions& options, Protocol protocol);

// The documents of a data set after its limits, and what was read of them so far. The data set must outlive
// it.
class DatasetTexts {
 public:
  explicit DatasetTexts(const Dataset& dataset);
  std::optional<Document> next();
  std::int64_t documents() const { return documents_; }
  // Of the texts handed out, end to end. Call it once, last.
  std::string sha256() { return sha_.finish(); }
  // The published number of words of PG-19's split: only if exactly its texts were handed out, uncut.
  std::optional<std::int64_t> published_words() const;
  // To be asked at the end: that CRLF line ends were kept, and whose words are counted where PG-19's split
  // has a published number.
  std::vector<std::string> notes() const;

 private:
  const Dataset& dataset_;
  DocumentReader reader_;
  std::int64_t documents_ = 0, lines_ = 0;
  std::vector<Pg19File> books_;  // as they were read, before any cut
  bool cut_ = false;             // a limit took something away
  Sha256 sha_;
};

// The first `count` characters of UTF-8, and the first `count` lines with their line ends.
std::string_view first_chars(std::string_view text, std::int64_t count);
std::string_view first_lines(std::string_view text, std::int64_t count);

}  // namespace attn
