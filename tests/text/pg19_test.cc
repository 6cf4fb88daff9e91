// PG-19: splits, books of a folder, metadata and words.
#include "lib/text/pg19.h"

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/text_file.h"
#include "lib/text/document.h"
#include "tests/catch.h"
#include "tests/text/text_test_data.h"

using namespace attn;
using attn::test::data_path;
using attn::test::TemporaryFolder;

namespace {

std::string message_of(const std::string& csv) {
  try {
    parse_pg19_metadata(csv, "metadata.csv");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("PG-19: the splits have their published sizes and share no book") {
  std::set<int> books;
  const auto bytes_of = [&](Pg19Split split) {
    std::int64_t bytes = 0;
    for (const Pg19File& file : facts_of(split).files) {
      CHECK(books.insert(file.book).second);
      bytes += file.bytes;
    }
    return bytes;
  };
  CHECK(facts_of(Pg19Split::test).files.size() == 100);
  CHECK(facts_of(Pg19Split::validation).files.size() == 50);
  CHECK(bytes_of(Pg19Split::test) == 41289101);
  CHECK(bytes_of(Pg19Split::validation) == 17733002);
  CHECK(facts_of(Pg19Split::test).words == 6966499);
  CHECK(facts_of(Pg19Split::validation).words == 3007061);
}

TEST_CASE("PG-19: the published word count belongs to exactly the published texts") {
  for (const Pg19Split split : {Pg19Split::test, Pg19Split::validation}) {
    const Pg19SplitFacts& facts = facts_of(split);
    std::vector<Pg19File> read(facts.files.rbegin(), facts.files.rend());
    CHECK(published_words(split, read) == facts.words);
    ++read[3].bytes;
    CHECK_FALSE(published_words(split, read));
    read[3] = read[4];
    CHECK_FALSE(published_words(split, read));
    read.pop_back();
    CHECK_FALSE(published_words(split, read));
  }
}

TEST_CASE("PG-19: a split takes its own books of a folder or of the subfolder with its name") {
  const TemporaryFolder folder;
  for (const char* name : {"2701.txt", "10356.txt.zst", "10146.txt", "metadata.csv", "1022.txt"})
    folder.write(name, "x");
  Pg19Books books = find_pg19_books(folder.path(), Pg19Split::test);
  CHECK(books.files ==
        std::vector<std::filesystem::path>{folder.path() / "10146.txt", folder.path() / "10356.txt.zst"});
  CHECK(books.missing.size() == 98);
  CHECK(find_pg19_books(folder.path(), Pg19Split::validation).files.size() == 1);
  folder.write("test/9931.txt", "y");
  books = find_pg19_books(folder.path(), Pg19Split::test);
  CHECK(books.files == std::vector<std::filesystem::path>{folder.path() / "test/9931.txt"});
  DocumentReader reader(books.files, "pg19 test", {});
  CHECK(reader.next()->name == "9931.txt");
  CHECK_FALSE(reader.next());
  CHECK_THROWS_AS(find_pg19_books(folder.path() / "test", Pg19Split::validation), Error);
  CHECK_THROWS_AS(find_pg19_books(folder.path() / "2701.txt", Pg19Split::test), Error);
  CHECK(pg19_book_of("10146.txt.zst") == 10146);
  CHECK(pg19_book_of("7.txt") == 7);
  for (const char* name : {"a.txt", "7", ".txt", "7.jsonl", "-7.txt", "99999999999.txt"})
    CHECK_FALSE(pg19_book_of(name));
}

TEST_CASE("PG-19: metadata with quotes and headings and either line end") {
  const auto titles = parse_pg19_metadata(
      "_id,short_book_title,publication_date,url\r\n"
      "5,\"Emma, a \"\"novel\"\"\nin two lines\",1815,http://a/5\r\n"
      "6,Caf\u00e9,,http://a/6",
      "metadata.csv");
  REQUIRE(titles.size() == 2);
  CHECK(titles[0].book == 5);
  CHECK(titles[0].title == "Emma, a \"novel\"\nin two lines");
  CHECK(titles[0].year == 1815);
  CHECK(titles[1].title == "Caf\u00e9");
  CHECK_FALSE(titles[1].year);
  CHECK(titles[1].url == "http://a/6");
  CHECK(parse_pg19_metadata("", "m").empty());
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(message_of("1,a,1900,u\n2,b,1901\n"), "metadata.csv:2: has 3 fields");
  has(message_of("1,a,1900,u\nx,b,1901,u\n"), "metadata.csv:2: 'x' is not the number");
  has(message_of("1,a,19x0,u\n"), "metadata.csv:1: '19x0' is not a year");
  has(message_of("1,\"a\nb\",1900,u\n1,c,1900,u\n"), "metadata.csv:3: the book 1 is there twice");
  has(message_of("1,\"a,1900,u\n"), "metadata.csv:1: a quote");
  has(message_of("1,\"a\"b,1900,u\n"), "metadata.csv:1: text behind");
  has(message_of("1,\xff,1900,u\n"), "offset 2");
}

TEST_CASE("PG-19: the books beside the checkout") {
  REQUIRE_TEST_DATA("pg19");
  const auto titles = parse_pg19_metadata(read_text_file(data_path("pg19/metadata.csv")), "metadata.csv");
  CHECK(titles.size() == 12);
  CHECK(titles[0].title == "Travels in Morocco Volume 2 by James Richardson");
  const Pg19Books books = find_pg19_books(data_path("pg19"), Pg19Split::test);
  CHECK(books.files.size() == 4);
  CHECK(books.missing.size() == 96);
  DocumentReader reader(books.files, "pg19", {{"10146"}, LineEnds::keep});
  const auto book = reader.next();
  REQUIRE(book);
  CHECK(count_words(book->text) == 43023);
  CHECK_FALSE(reader.next());
}

TEST_CASE("words are what stands between white space of any kind") {
  CHECK(count_words("") == 0);
  CHECK(count_words(" \n\t") == 0);
  CHECK(count_words("a") == 1);
  CHECK(count_words(" a  b\nc ") == 3);
  CHECK(count_words("a\u00a0b\u3000c\x1f"
                    "d\u200be") == 4);  // a zero width space is none
}
