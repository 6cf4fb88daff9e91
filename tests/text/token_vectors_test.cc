// Real tokenizers against ids that other programs made: every vector of ../shared/data/token-vectors.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lib/core/rng.h"
#include "lib/core/text_file.h"
#include "lib/text/document.h"
#include "lib/text/tokenizer.h"
#include "lib/text/unicode.h"
#include "lib/text/utf8.h"
#include "tests/catch.h"
#include "tests/text/text_test_data.h"

using namespace attn;
using attn::test::data_path;
using attn::test::Ids;
using nlohmann::json;

namespace {

using TokenizerPtr = std::unique_ptr<Tokenizer>;

constexpr EncodeOptions kPlainText{.parse_special = false};

std::string read_data(const std::string& name) { return read_text_file(data_path(name)); }
json read_json(const std::string& name) { return json::parse(read_data(name)); }
TokenizerPtr gpt2() { return load_tokenizer(data_path("tokenizers/gpt2")); }
TokenizerPtr neox() { return load_tokenizer(data_path("tokenizers/pythia")); }

// The folder has all three files; the older pair alone is used where tokenizer.json is not.
TokenizerPtr gpt2_from_pair(const test::TemporaryFolder& folder) {
  for (const char* name : {"encoder.json", "vocab.bpe"}) {
    std::filesystem::copy_file(data_path("tokenizers/gpt2") / name, folder.path() / name);
  }
  return load_tokenizer(folder.path());
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos;
       begin = end + separator.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// Numbers in a line, whatever stands between them.
Ids numbers(const std::string& line) {
  Ids ids;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] < '0' || line[i] > '9') {
      ++i;
      continue;
    }
    std::size_t length = 0;
    ids.push_back(std::stoi(line.substr(i), &length));
    i += length;
  }
  return ids;
}

// What the datasets library gives of a wikitext file, joined with "\n\n": a line is "" if blank, else it
// keeps its line end.
std::string hf_join(const std::string& text) {
  std::string joined;
  std::vector<std::string> lines = split(text, "\n");
  lines.pop_back();  // behind the last line end
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) joined += "\n\n";
    const bool blank = lines[i].find_first_not_of(' ') == std::string::npos;
    if (!blank) joined += lines[i] + "\n";
  }
  return joined;
}

std::string golden_text(const std::string& name) {
  if (name == "wikitext-2/wiki.test.raw#hf_join_nn") return hf_join(read_data("wikitext-2/wiki.test.raw"));
  return std::filesystem::exists(data_path(name)) ? read_data(name) : read_data(name + ".zst");
}

void check_goldens(const Tokenizer& tokenizer, const std::string& column, bool nfc) {
  const UnicodeTable unicode;
  const json golden = read_json("token-vectors/golden/counts_and_hashes.json");
  CHECK(golden["files"].size() >= 5);
  for (const auto& [name, expected] : golden["files"].items()) {
    INFO(name);
    const std::string text = golden_text(name);
    REQUIRE(text.size() == expected["bytes"].get<std::size_t>());
    const Ids ids = tokenizer.encode(text, kPlainText);
    CHECK(ids.size() == expected[column]["n"].get<std::size_t>());
    CHECK(token_stream_sha256(ids) == expected[column]["sha256_u32le"].get<std::string>());
    const bool decodes = tokenizer.decode(ids) == (nfc ? unicode.nfc(text) : text);
    CHECK(decodes);
  }
}

void check_id_file(const Tokenizer& tokenizer, const std::string& name) {
  const std::string bytes = read_data(name);
  const Ids ids = tokenizer.encode(read_data("wikitext-2/wiki.test.raw"));
  REQUIRE(ids.size() == bytes.size() / 2);
  std::size_t different = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto low = static_cast<unsigned char>(bytes[2 * i]),
               high = static_cast<unsigned char>(bytes[2 * i + 1]);
    if (ids[i] != (low | high << 8)) ++different;
  }
  CHECK(different == 0);
}

void check_llama_cpp(const Tokenizer& tokenizer, const std::string& name) {
  const auto texts =
      split(read_data("token-vectors/llama.cpp/" + name + ".gguf.inp"), "\n__ggml_vocab_test__\n");
  const auto lines = split(read_data("token-vectors/llama.cpp/" + name + ".gguf.out"), "\n");
  REQUIRE(texts.size() == lines.size());
  CHECK(texts.size() > 40);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    INFO(texts[i]);
    CHECK(tokenizer.encode(texts[i], kPlainText) == numbers(lines[i]));
  }
}

// Characters that tokenizers stumble over, and any others.
std::string random_text(std::uint64_t seed) {
  static const std::vector<std::string> kPieces = {" ",
                                                   "  ",
                                                   "   ",
                                                   "\n",
                                                   "\r\n",
                                                   "\t",
                                                   "'s",
                                                   "'S",
                                                   "'ll",
                                                   "'",
                                                   "a",
                                                   "the",
                                                   "The",
                                                   "0",
                                                   "12",
                                                   "3456",
                                                   "é",
                                                   "e\u0301",
                                                   "\u212b",
                                                   "\u00a0",
                                                   "\u3000",
                                                   "\u2028",
                                                   "ß",
                                                   "中文",
                                                   "한",
                                                   "\u1112\u1161\u11ab",
                                                   "🙂",
                                                   "👩\u200d⚕️",
                                                   "\u0300",
                                                   ".",
                                                   "...",
                                                   "<|",
                                                   "|>",
                                                   "<|endoftext|>",
                                                   "<|padding|>",
                                                   "_",
                                                   "Ġ",
                                                   "Ā",
                                                   "\u0345",
                                                   "½",
                                                   "\u0661",
                                                   "ﬁ",
                                                   std::string(1, '\0'),
                                                   "\x7f"};
  std::string text;
  const std::size_t length = random_bits(seed, 0, 0) % 40;
  for (std::size_t i = 1; i <= length; ++i) {
    const std::uint64_t bits = random_bits(seed, 1, i);
    if (bits % 4 == 0) {
      auto c = static_cast<char32_t>((bits >> 8) % 0x11000 * (bits & 16 ? 1 : 16));
      if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = U'x';
      append_utf8(text, c);
    } else {
      text += kPieces[(bits >> 8) % kPieces.size()];
    }
  }
  return text;
}

}  // namespace

TEST_CASE("GPT-2: wiki and books have the recorded ids with tokenizer.json") {
  REQUIRE_TEST_DATA("tokenizers/gpt2");
  const TokenizerPtr tokenizer = gpt2();
  check_goldens(*tokenizer, "gpt2", false);
  check_id_file(*tokenizer, "token-vectors/golden/wiki.test.raw.gpt2.u16le.bin");
}

TEST_CASE("GPT-2: wiki and books have the recorded ids with encoder.json and vocab.bpe") {
  REQUIRE_TEST_DATA("tokenizers/gpt2");
  const test::TemporaryFolder folder;
  const TokenizerPtr tokenizer = gpt2_from_pair(folder);
  check_goldens(*tokenizer, "gpt2", false);
  CHECK(tokenizer->vocab_size() == 50257);
  CHECK(tokenizer->bos() == 50256);
  CHECK(tokenizer->encode("a<|endoftext|>") == Ids{64, 50256});
}

TEST_CASE("GPT-NeoX: wiki and books have the recorded ids") {
  REQUIRE_TEST_DATA("tokenizers/pythia");
  const TokenizerPtr tokenizer = neox();
  check_goldens(*tokenizer, "neox", true);
  check_id_file(*tokenizer, "token-vectors/golden/wiki.test.raw.neox.u16le.bin");
}

TEST_CASE("GPT-2: the test plans of r50k") {
  REQUIRE_TEST_DATA("token-vectors/r50k");
  const test::TemporaryFolder folder;
  const TokenizerPtr of_json = gpt2(), of_pair = gpt2_from_pair(folder);
  std::size_t count = 0;
  for (const std::string& plan : split(read_data("token-vectors/r50k/TestPlans.txt"), "EncodingName: ")) {
    if (plan.compare(0, 10, "r50k_base\n") != 0) continue;  // the file has other encodings too
    const std::size_t begin = plan.find("Sample: ") + 8, end = plan.find("\nEncoded: [");
    REQUIRE(end != std::string::npos);
    const std::string text = plan.substr(begin, end - begin);
    const Ids expected = numbers(plan.substr(end + 10));
    INFO(text);
    CHECK(of_json->encode(text) == expected);
    CHECK(of_pair->encode(text) == expected);
    CHECK(of_json->decode(expected) == text);
    ++count;
  }
  CHECK(count >= 50);
}

TEST_CASE("GPT-2 and GPT-NeoX: the vocabulary tests of llama.cpp") {
  REQUIRE_TEST_DATA("token-vectors/llama.cpp");
  check_llama_cpp(*gpt2(), "gpt-2");
  check_llama_cpp(*neox(), "mpt");
}

TEST_CASE("GPT-2 and GPT-NeoX: vectors of other suites") {
  REQUIRE_TEST_DATA("token-vectors/extracted");
  const TokenizerPtr gpt2_tokenizer = gpt2(), neox_tokenizer = neox();
  const auto check = [](const Tokenizer& tokenizer, const json& vectors, std::size_t at_least) {
    CHECK(vectors.size() >= at_least);
    for (const json& vector : vectors) {
      const auto text = vector["text"].get<std::string>();
      INFO(text);
      CHECK(tokenizer.encode(text) == vector["ids"].get<Ids>());
      CHECK(tokenizer.decode(vector["ids"].get<Ids>()) == text);
    }
  };
  check(*gpt2_tokenizer, read_json("token-vectors/extracted/tiktoken_gpt2.json"), 19);
  const json of_models = read_json("token-vectors/extracted/transformersjs_gpt2.json");
  for (const auto& [name, vectors] : of_models.items()) {
    INFO(name);
    check(*gpt2_tokenizer, vectors, 26);
  }
  check(*neox_tokenizer, read_json("token-vectors/extracted/neox_small.json"), 3);
  json rust = json::array();
  for (const json& vector : read_json("token-vectors/extracted/rust_tokenizers_gpt2.json")) {
    // The one that disagrees comes from a program that strips the space before a special token.
    if (vector["agrees_with_reference_bpe"].get<bool>()) rust.push_back(vector);
  }
  check(*gpt2_tokenizer, rust, 6);
}

TEST_CASE("GPT-NeoX: spaces and composed characters and special tokens") {
  REQUIRE_TEST_DATA("tokenizers/pythia");
  const TokenizerPtr tokenizer = neox();
  const auto spaces = [](std::size_t n) { return std::string(n, ' '); };
  const std::vector<std::pair<std::string, Ids>> table = {
      {"a b", {66, 270}},
      {"a  b", {66, 50276, 67}},
      {"a   b", {66, 50275, 67}},
      {"a    b", {66, 50274, 67}},
      {spaces(24) + "x", {50254, 89}},
      {spaces(25) + "x", {50254, 1269}},
      {spaces(26) + "x", {50254, 50276, 89}},
      {"a \n  b", {66, 2490, 50276, 67}},
      {"\n\n  x", {535, 50276, 89}},
      {"cafe\u0301", {68, 2320, 860}},
      {"caf\u00e9", {68, 2320, 860}},
      {"\u212b", {18221}},
      {"<|endoftext|>", {0}},
      {"a<|endoftext|>b", {66, 0, 67}},
      {"don't DON'T", {9903, 626, 24694, 8, 53}},
      {"x\u00a0y", {89, 575, 90}},
      {" ", {209}},
      {"  ", {50276}},
      {"", {}},
  };
  for (const auto& [text, ids] : table) {
    INFO("'" << text << "'");
    CHECK(tokenizer->encode(text) == ids);
  }
  CHECK(tokenizer->decode(Ids{66, 50276, 67, 0}) == "a  b<|endoftext|>");
  CHECK(tokenizer->vocab_size() == 50277);
  CHECK(tokenizer->bos() == 0);
  CHECK(tokenizer->eos() == 0);
  // As plain text the special token falls apart, and spaces beside it are still one token.
  const Ids plain = tokenizer->encode("a  <|endoftext|>", kPlainText);
  CHECK(plain.size() > 3);
  CHECK(plain[1] == 50276);
  CHECK(tokenizer->decode(plain) == "a  <|endoftext|>");
}

TEST_CASE("random texts: decoding gives the text back and both forms of GPT-2 agree") {
  REQUIRE_TEST_DATA("tokenizers/gpt2");
  const test::TemporaryFolder folder;
  const TokenizerPtr of_json = gpt2(), of_pair = gpt2_from_pair(folder), neox_tokenizer = neox();
  const UnicodeTable unicode;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = random_text(seed);
    INFO("seed " << seed << ": " << text);
    const Ids ids = of_json->encode(text);
    REQUIRE(of_json->decode(ids) == text);
    REQUIRE(of_pair->encode(text) == ids);
    for (const EncodeOptions& options : {EncodeOptions{}, kPlainText}) {
      const Ids neox_ids = neox_tokenizer->encode(text, options);
      const std::string decoded = neox_tokenizer->decode(neox_ids);
      REQUIRE(unicode.nfc(decoded) == unicode.nfc(text));
    }
    // Nothing is remembered from earlier texts that changes a result.
    REQUIRE(of_json->encode(text) == ids);
  }
}

TEST_CASE("a tokenizer of the Hugging Face library with few tokens loads in both forms") {
  REQUIRE_TEST_DATA("checkpoints/tiny-random-gpt2");
  const test::TemporaryFolder folder;
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer_config.json"}) {
    std::filesystem::copy_file(data_path("checkpoints/tiny-random-gpt2") / name, folder.path() / name);
  }
  const TokenizerPtr of_json = load_tokenizer(data_path("checkpoints/tiny-random-gpt2"));
  const TokenizerPtr of_pair = load_tokenizer(folder.path());
  const std::string text = read_data("tinyshakespeare.txt").substr(0, 20000);
  const Ids ids = of_json->encode(text);
  CHECK(ids == of_pair->encode(text));
  CHECK(of_json->decode(ids) == text);
  CHECK(of_json->vocab_size() == of_pair->vocab_size());
}
