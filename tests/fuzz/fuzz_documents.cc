// libFuzzer: any bytes as a data-set file, a JSON line and names give documents or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <unistd.h>

#include "lib/core/error.h"
#include "lib/text/document.h"
#include "lib/text/document_selection.h"
#include "lib/text/pg19.h"
#include "lib/text/tokenizer.h"

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
  const std::int64_t words = attn::count_words(text);
  check(words >= 0 && words <= static_cast<std::int64_t>(text.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const char* extension : {".txt", ".jsonl", ".txt.zst", ".jsonl.zst"}) read_as_file(bytes, extension);
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
