// PG-19: the books of a split in a folder, their titles, and when the published word count holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/enum_names.h"

namespace attn {

// The train split has no list here: it is 28,602 books, all the others of the metadata.
enum class Pg19Split : unsigned char { validation, test };
inline constexpr auto kPg19SplitNames =
    name_table<Pg19Split>({{Pg19Split::validation, "validation"}, {Pg19Split::test, "test"}});

struct Pg19File {
  std::int32_t book = 0;
  std::int32_t bytes = 0;  // of the published text, decompressed
};

struct Pg19SplitFacts {
  Pg19Split split;
  std::span<const Pg19File> files;
  std::int64_t words;  // published, of all its books together
};
const Pg19SplitFacts& facts_of(Pg19Split split);

struct Pg19Books {
  std::vector<std::filesystem::path> files;  // in the order of the split
  std::vector<std::int32_t> missing;         // books of the split that the folder lacks
};
// The books of the split: ID.txt or ID.txt.zst in the folder's subfolder of the split's name if there is one,
// else in the folder itself; others there are no part of it. Error{bad_input}: no folder, none of the books.
Pg19Books find_pg19_books(const std::filesystem::path& folder, Pg19Split split);

// The published number of words, if every book of the split was read and each has its published size; else
// nothing: that number belongs to exactly those texts. `read`: the books and their bytes as they were read.
std::optional<std::int64_t> published_words(Pg19Split split, std::span<const Pg19File> read);
// "10146.txt.zst" -> 10146; nothing for what is no book's file.
std::optional<std::int32_t> pg19_book_of(std::string_view file_name);

struct Pg19Title {
  std::int32_t book = 0;
  std::string title;
  std::optional<std::int32_t> year;  // nothing where the field is empty
  std::string url;
};
// metadata.csv: rows of book, title, year, address, quoted as RFC 4180 says where they need it; a first row
// whose first field is no number is a heading. Error{bad_input}, naming `source` and the line: another number
// of fields, no number where one belongs, a book twice, a quote that does not end.
std::vector<Pg19Title> parse_pg19_metadata(std::string_view csv, std::string_view source);

// Words between white space, as Python's str.split() finds them. `text` is valid UTF-8.
std::int64_t count_words(std::string_view text);

}  // namespace attn
