// ReadAhead: order, bounds, errors, early ends, and a data set that is larger than the memory allowed.
#include "lib/text/read_ahead.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include "lib/core/error.h"
#include "lib/text/bpe_tokenizer.h"
#include "lib/text/document.h"
#include "lib/text/tokenizer_json.h"
#include "tests/catch.h"
#include "tests/text/text_test_data.h"

// A sanitizer's own memory leaves no room for a limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ATTN_TEST_SANITIZED 1
#else
#define ATTN_TEST_SANITIZED 0
#endif

using namespace attn;
using attn::test::Ids;
using attn::test::TemporaryFolder;

namespace {

void pause(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

ReadAhead<int>::Make count_to(int end, std::shared_ptr<std::atomic<int>> made, int failing = -1) {
  return [=, next = 0]() mutable -> std::optional<int> {
    if (next == failing) throw std::runtime_error("at " + std::to_string(next));
    if (next == end) return std::nullopt;
    ++*made;
    return next++;
  };
}

std::size_t one(const int&) { return 1; }

// JSON lines of 64 KiB, `bytes` of text in all, as one zstd stream.
void write_large_set(const std::filesystem::path& path, std::int64_t bytes) {
  std::string text;
  while (text.size() < (std::size_t{1} << 16)) text += "the cat sat on the mat and said that it was late. ";
  const std::string line = "{\"text\": \"" + text + "\", \"meta\": {\"pile_set_name\": \"Cats\"}}\n";
  const std::unique_ptr<ZSTD_CStream, decltype(&ZSTD_freeCStream)> stream(ZSTD_createCStream(),
                                                                          &ZSTD_freeCStream);
  std::ofstream file(path, std::ios::binary);
  std::vector<char> packed(ZSTD_CStreamOutSize());
  for (std::int64_t written = 0; written < bytes; written += static_cast<std::int64_t>(text.size())) {
    const bool last = written + static_cast<std::int64_t>(text.size()) >= bytes;
    ZSTD_inBuffer input{line.data(), line.size(), 0};
    for (std::size_t left = 1; input.pos < input.size || (last && left > 0);) {
      ZSTD_outBuffer output{packed.data(), packed.size(), 0};
      left = ZSTD_compressStream2(stream.get(), &output, &input, last ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(left)) throw std::runtime_error("zstd");
      file.write(packed.data(), static_cast<std::streamsize>(output.pos));
    }
  }
}

struct Encoded {
  std::string name, text;
  Ids ids;
};

// Reads and encodes the set ahead of a consumer that starts late, in a child process that may take
// `limit_bytes` more than it has; its exit code: 0 all read, 1 not enough memory, 2 anything else.
int read_in_child(const std::filesystem::path& path, const Tokenizer& tokenizer, rlim_t limit_bytes,
                  std::size_t queue_bytes, std::int64_t expected_bytes) {
  const pid_t child = fork();
  if (child < 0) return 2;
  if (child == 0) {
    int code = 2;
    try {
      std::ifstream status("/proc/self/status");
      rlim_t has = 0;
      for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmData:", 0) == 0) has = static_cast<rlim_t>(std::stoull(line.substr(7))) << 10;
      }
      const rlimit limit{has + limit_bytes, has + limit_bytes};
      if (limit_bytes > 0 && (has == 0 || setrlimit(RLIMIT_DATA, &limit) != 0)) _exit(2);
      DocumentReader reader(path);
      ReadAhead<Encoded> ahead(
          [&]() -> std::optional<Encoded> {
            auto document = reader.next();
            if (!document) return std::nullopt;
            Ids ids = tokenizer.encode(document->text);
            return Encoded{std::move(document->name), std::move(document->text), std::move(ids)};
          },
          [](const Encoded& item) { return item.text.size() + item.ids.size() * sizeof(TokenId); },
          queue_bytes);
      // A consumer that is slower than the reader: without a bound all of the set would wait here.
      const auto begin = std::chrono::steady_clock::now();
      while (ahead.peak_size() < queue_bytes / 2 &&
             std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
        pause(1);
        if (ahead.ended()) break;
      }
      std::int64_t bytes = 0;
      while (const auto item = ahead.next()) bytes += static_cast<std::int64_t>(item->text.size());
      code = bytes >= expected_bytes && ahead.peak_size() <= queue_bytes ? 0 : 2;
    } catch (const std::bad_alloc&) {
      code = 1;
    } catch (...) {
      code = 2;
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

}  // namespace

TEST_CASE("read ahead: all items come in their order and the end stays the end") {
  for (const std::size_t size : {0, 1, 3, 1000}) {
    const auto made = std::make_shared<std::atomic<int>>(0);
    ReadAhead<int> ahead(count_to(500, made), one, size);
    for (int i = 0; i < 500; ++i) REQUIRE(ahead.next() == i);
    CHECK_FALSE(ahead.next());
    CHECK_FALSE(ahead.next());
    CHECK(ahead.peak_size() <= std::max<std::size_t>(size, 1));
  }
}

TEST_CASE("read ahead: runs ahead up to its bound and no further") {
  const auto made = std::make_shared<std::atomic<int>>(0);
  ReadAhead<int> ahead(count_to(1000, made), one, 10);
  for (int i = 0; i < 2000 && *made < 11; ++i) pause(1);
  pause(20);
  CHECK(*made == 11);  // ten wait and one is in the hand
  CHECK(ahead.next() == 0);
  for (int i = 0; i < 2000 && *made < 12; ++i) pause(1);
  CHECK(*made == 12);
  CHECK(ahead.peak_size() == 10);
}

TEST_CASE("read ahead: sizes count and an item beyond the bound goes through alone") {
  int next = 0;
  const std::vector<int> sizes = {3, 4, 100, 1, 5, 200, 300};
  ReadAhead<int> ahead(
      [&]() -> std::optional<int> {
        if (next == static_cast<int>(sizes.size())) return std::nullopt;
        return sizes[static_cast<std::size_t>(next++)];
      },
      [](const int& size) { return static_cast<std::size_t>(size); }, 8);
  for (const int size : sizes) CHECK(ahead.next() == size);
  CHECK_FALSE(ahead.next());
  CHECK(ahead.peak_size() == 300);  // one alone
}

TEST_CASE("read ahead: an error comes to the consumer behind what was made before it") {
  const auto made = std::make_shared<std::atomic<int>>(0);
  ReadAhead<int> ahead(count_to(10, made, 3), one, 100);
  for (int i = 0; i < 3; ++i) CHECK(ahead.next() == i);
  for (int again = 0; again < 2; ++again) CHECK_THROWS_AS(ahead.next(), std::runtime_error);
}

TEST_CASE("read ahead: a bad line of a data set reaches the consumer with file and line") {
  const TemporaryFolder folder;
  const auto path = folder.write("set.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"c\n");
  DocumentReader reader(path);
  ReadAhead<Document> ahead([&] { return reader.next(); },
                            [](const Document& document) { return document.text.size(); }, 1 << 20);
  CHECK(ahead.next()->text == "a");
  CHECK(ahead.next()->text == "b");
  try {
    ahead.next();
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(std::string(e.what()).find(path.string() + ":3") != std::string::npos);
  }
}

TEST_CASE("read ahead: leaving early ends the thread wherever it is") {
  for (int taken = 0; taken < 20; ++taken) {
    for (const std::size_t size : {1, 1000000}) {
      const auto made = std::make_shared<std::atomic<int>>(0);
      {
        ReadAhead<int> ahead(count_to(1 << 30, made), one, size);
        for (int i = 0; i < taken; ++i) REQUIRE(ahead.next() == i);
      }
      const int then = *made;
      CHECK(then >= taken);
      pause(1);
      CHECK(*made == then);
    }
  }
  const auto made = std::make_shared<std::atomic<int>>(0);
  const ReadAhead<int> unread(count_to(5, made, 2), one, 1);  // an error that nobody asks for
}

TEST_CASE("read ahead: a compressed set is read in a quarter of its size") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "set.jsonl.zst";
  constexpr std::int64_t kMiB = 1 << 20, kBytes = (ATTN_TEST_SANITIZED ? 4 : 128) * kMiB;
  write_large_set(path, kBytes);
  CHECK(std::filesystem::file_size(path) < 1 << 20);
  const BpeTokenizer tokenizer(
      parse_tokenizer_json(test::small_tokenizer_json({{"t", "h"}, {"th", "e"}, {"a", "t"}}), "small"));
  tokenizer.encode("warm");  // its cache belongs to the parent
  if (ATTN_TEST_SANITIZED) {
    CHECK(read_in_child(path, tokenizer, 0, 1 * kMiB, kBytes) == 0);
    return;
  }
  CHECK(read_in_child(path, tokenizer, 32 * kMiB, 8 * kMiB, kBytes) == 0);
  // The limit is one: a queue without a bound runs into it.
  CHECK(read_in_child(path, tokenizer, 32 * kMiB, std::size_t{1} << 40, kBytes) == 1);
}
