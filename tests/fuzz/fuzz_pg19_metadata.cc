// libFuzzer: any bytes as PG-19's metadata.csv give titles or an Error; titles written out again give
// themselves.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/error.h"
#include "lib/text/pg19.h"
#include "lib/text/tokenizer.h"

namespace {

void check(bool truth) {
  if (!truth) std::abort();
}

std::string quoted(const std::string& field) {
  std::string out = "\"";
  for (const char c : field) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  attn::pg19_book_of(bytes);
  std::vector<attn::Pg19Title> titles;
  try {
    titles = attn::parse_pg19_metadata(bytes, "fuzz");
  } catch (const attn::Error& e) {
    check(e.kind() == attn::ErrorKind::bad_input);
    return 0;
  }
  std::string csv;
  for (const attn::Pg19Title& title : titles) {
    check(title.book >= 0 && (!title.year || *title.year >= 0) && !attn::find_invalid_utf8(title.title));
    check(attn::pg19_book_of(std::to_string(title.book) + ".txt") == title.book);
    csv += std::to_string(title.book) + ',' + quoted(title.title) + ',' +
           (title.year ? std::to_string(*title.year) : "") + ',' + quoted(title.url) + "\r\n";
  }
  const std::vector<attn::Pg19Title> again = attn::parse_pg19_metadata(csv, "fuzz again");
  check(again.size() == titles.size());
  for (std::size_t i = 0; i < titles.size(); ++i) {
    check(again[i].book == titles[i].book && again[i].title == titles[i].title &&
          again[i].year == titles[i].year && again[i].url == titles[i].url);
  }
  return 0;
}
