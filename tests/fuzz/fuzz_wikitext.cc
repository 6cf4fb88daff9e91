// libFuzzer: any UTF-8 as WikiText: rows and pages lose no word, and de-tokenised text stays UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/eval/protocols.h"
#include "lib/eval/wikitext_pages.h"
#include "lib/text/pg19.h"
#include "lib/text/tokenizer.h"

namespace {

void check(bool truth) {
  if (!truth) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (attn::find_invalid_utf8(text)) return 0;
  const std::int64_t words = attn::count_words(text);
  std::int64_t row_words = 0, page_words = 0;
  for (const std::string_view row : attn::text_rows(text)) {
    const std::int64_t of_row = attn::count_words(row);
    check(row.empty() || of_row > 0);  // a blank row is given as an empty one
    row_words += of_row;
  }
  check(row_words == words);
  for (const std::string& page : attn::wikitext_pages(text)) {
    const std::int64_t of_page = attn::count_words(page);
    page_words += of_page;
    const attn::TextCounts counts = attn::wikitext_counts(page);
    // White space at either end makes one more; an empty page is one word.
    check(counts.words >= of_page && counts.words <= of_page + 2);
    check(counts.bytes == static_cast<std::int64_t>(page.size()));
    check(!attn::find_invalid_utf8(attn::wikitext_detokenize(page)));
    check(!attn::find_invalid_utf8(attn::page_title(page)) && attn::page_title(page).size() <= page.size());
  }
  check(page_words == words);
  return 0;
}
