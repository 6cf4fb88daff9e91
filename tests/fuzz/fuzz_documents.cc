// libFuzzer: any bytes as a data-set file, PG-19's metadata, a JSON line, names and rows give documents or an
// Error.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <unistd.h>

#include "lib/core/error.h"
#include "lib/eval/protocols.h"
#include "lib/eval/wikitext_pages.h"
#include "lib/text/document.h"
#include "lib/text/document_selection.h"
#include "lib/text/pg19.h"

namespace {

void check(bool truth) {
  if (!truth) std::abort();
}

// What it does, or an Error of bad input; anything else is a fault.
template <typename Body>
void allow_bad_input(const Body& body) {
  try {
    body();
  } catch (const attn::Error& e) {
    check(e.kind() == attn::ErrorKind::bad_input);
  }
}

void read_as_file(std::string_view bytes, const char* extension) {
  static const std::string stem = "/tmp/attn_fuzz_documents_" + std::to_string(getpid());
  const std::string path = stem + extension;
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  check(file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
  std::fclose(file);
  allow_bad_input([&] {
    attn::DocumentReader reader(path, {{}, attn::LineEnds::lf});
    while (const auto document = reader.next()) check(!attn::find_invalid_utf8(document->text));
    check(!reader.line_end_warning());
  });
  std::remove(path.c_str());
}

void check_text(const std::string& text) {
  std::string unified = text;
  const std::int64_t line_ends = attn::unify_line_ends(unified);
  check(unified.size() + static_cast<std::size_t>(line_ends) == text.size());
  std::string rows;
  for (const std::string_view row : attn::text_rows(text)) rows += row;
  check(rows.size() <= text.size());
  const std::int64_t words = attn::count_words(text);
  check(words >= 0 && words <= static_cast<std::int64_t>(text.size()));
  std::int64_t page_words = 0;
  for (const std::string& page : attn::wikitext_pages(text)) {
    page_words += attn::count_words(page);
    attn::wikitext_counts(page);
    check(!attn::find_invalid_utf8(attn::wikitext_detokenize(page)));
  }
  check(page_words == words);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const char* extension : {".txt", ".jsonl", ".txt.zst", ".jsonl.zst"}) read_as_file(bytes, extension);
  allow_bad_input([&] {
    for (const attn::Pg19Title& title : attn::parse_pg19_metadata(bytes, "fuzz")) check(title.book >= 0);
  });
  attn::pg19_book_of(bytes);
  allow_bad_input([&] { attn::text_of_json_line(std::string(bytes), true, "fuzz:1"); });
  if (!attn::find_invalid_utf8(bytes)) check_text(std::string(bytes));
  const std::string name(bytes.substr(0, bytes.find('\0')));
  for (const std::string& shorter : attn::shorter_names(name)) check(shorter.size() < name.size());
  if (!name.empty()) {
    attn::DocumentSelection selection({name});
    check(selection.takes(name) && selection.exhausted());
    selection.require_all("fuzz");
  }
  return 0;
}
