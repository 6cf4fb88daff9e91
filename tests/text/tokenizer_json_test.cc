// What tokenizer files may say, what is refused by name, and damaged files.
#include "lib/text/tokenizer_json.h"

#include <memory>
#include <string>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/text/bpe_tokenizer.h"
#include "lib/text/pretokenize.h"
#include "tests/catch.h"
#include "tests/text/text_test_data.h"

using namespace attn;
using attn::test::Ids;
using attn::test::small_tokenizer_json;

namespace {

std::unique_ptr<Tokenizer> make(const std::string& json) {
  return std::make_unique<BpeTokenizer>(parse_tokenizer_json(json, "some/tokenizer.json"));
}

const std::vector<std::pair<std::string, std::string>> kMerges = {{"a", "b"}, {"ab", "c"}};

// The message must name the file and hold `part`.
void check_refused(const std::string& json, ErrorKind kind, const std::string& part) {
  INFO(part);
  try {
    make(json);
    FAIL("accepted");
  } catch (const Error& e) {
    const std::string message = e.what();
    INFO(message);
    CHECK(e.kind() == kind);
    CHECK(message.find("some/tokenizer.json") != std::string::npos);
    CHECK(message.find(part) != std::string::npos);
  }
}

void check_changed_refused(const std::string& changes, ErrorKind kind, const std::string& part) {
  check_refused(small_tokenizer_json(kMerges, changes), kind, part);
}

std::string replaced(std::string text, const std::string& old, const std::string& with) {
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), with);
}

const std::string kSplitLlama3 = R"JSON({"type": "Split", "pattern": {"Regex":
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
  "behavior": "Isolated", "invert": false})JSON";
const std::string kBytesOnly =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})";

// A pre_tokenizer for a merge patch; the patch must remove the keys of the one it replaces.
std::string sequence_of(const std::string& parts) {
  return R"({"pre_tokenizer": {"type": "Sequence", "add_prefix_space": null, "trim_offsets": null, "use_regex": null,
             "pretokenizers": [)" +
         parts + "]}}";
}

}  // namespace

TEST_CASE("tokenizer.json of LLaMA-3: split pattern, ignore_merges and the template's tokens") {
  const std::string specials = R"(, "added_tokens": [
    {"id": 400, "content": "<|begin_of_text|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 401, "content": "<|end_of_text|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
    "model": {"ignore_merges": true}, "post_processor": {"type": "Sequence", "add_prefix_space": null, "trim_offsets": null, "use_regex": null,
    "processors": [{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
      {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
       "pair": [], "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [400], "tokens": ["<|begin_of_text|>"]}}}]}})";
  std::string changes = sequence_of(kSplitLlama3 + "," + kBytesOnly);
  changes.replace(changes.size() - 1, 1, specials);
  const auto tokenizer = make(small_tokenizer_json({{"1", "2"}, {"12", "3"}, {"123", "4"}}, changes));
  CHECK(tokenizer->encode("1234") ==
        Ids{257, '4'});  // split after three digits: the third merge never applies
  CHECK(tokenizer->encode("<|begin_of_text|>12") == Ids{400, 256});
  CHECK(tokenizer->bos() == 400);
  CHECK(tokenizer->eos() == 401);
}

TEST_CASE("tokenizer.json: merges as strings or as pairs are the same") {
  const std::string strings = small_tokenizer_json(kMerges);
  const std::string pairs =
      replaced(strings, R"("merges":["a b","ab c"])", R"("merges":[["a","b"],["ab","c"]])");
  CHECK(make(strings)->encode("abcab") == Ids{257, 256});
  CHECK(make(pairs)->encode("abcab") == Ids{257, 256});
}

TEST_CASE("tokenizer.json: harmless variants are accepted") {
  for (
      const char* changes :
      {R"({"normalizer": {"type": "Sequence", "normalizers": []}})",
       R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]}})",
       R"({"post_processor": null})",
       R"({"model": {"dropout": 0.0, "continuing_subword_prefix": "", "end_of_word_suffix": "", "unk_token": "a"}})",
       R"({"pre_tokenizer": {"use_regex": null}})",
       R"({"model": {"ignore_merges": null, "byte_fallback": null}})", R"({"added_tokens": null})"}) {
    INFO(changes);
    CHECK(make(small_tokenizer_json(kMerges, changes))->encode("abc") == Ids{257});
  }
}

TEST_CASE("tokenizer.json: what we do not implement is refused by name") {
  const auto refused = [](const std::string& changes, const std::string& part) {
    check_changed_refused(changes, ErrorKind::unsupported, part);
  };
  refused(R"({"model": {"type": "WordPiece"}})", "WordPiece");
  refused(R"({"model": {"type": "Unigram"}})", "Unigram");
  refused(R"({"model": {"dropout": 0.1}})", "model.dropout");
  refused(R"({"model": {"byte_fallback": true}})", "model.byte_fallback");
  refused(R"({"model": {"end_of_word_suffix": "</w>"}})", "</w>");
  refused(R"({"model": {"continuing_subword_prefix": "##"}})", "##");
  refused(R"({"model": {"new_option": 1}})", "model.new_option");
  refused(R"({"model": {"unk_token": "a", "vocab": {"b": null}}})", "unk_token");
  refused(R"({"truncation": {"max_length": 512}})", "truncation");
  refused(R"({"padding": {"strategy": "BatchLongest"}})", "padding");
  refused(R"({"version": "2.0"})", "2.0");
  refused(R"({"surprise": 1})", "surprise");
  refused(R"({"normalizer": {"type": "NFKC"}})", "NFKC");
  refused(R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}})",
          "Lowercase");
  refused(R"({"pre_tokenizer": null})", "pre_tokenizer");
  refused(R"({"pre_tokenizer": {"type": "Metaspace"}})", "Metaspace");
  refused(R"({"pre_tokenizer": {"add_prefix_space": true}})", "add_prefix_space");
  refused(R"({"pre_tokenizer": {"use_regex": false}})", "use_regex");
  refused(R"({"pre_tokenizer": {"more": 1}})", "pre_tokenizer.more");
  refused(R"({"decoder": null})", "decoder");
  refused(R"({"decoder": {"type": "WordPiece"}})", "WordPiece");
  refused(R"({"post_processor": {"type": "RobertaProcessing"}})", "RobertaProcessing");
  refused(sequence_of(kBytesOnly), "Sequence of 1");
  refused(sequence_of(kSplitLlama3 + R"(, {"type": "Digits"})"), "Digits");
  refused(sequence_of(
              R"({"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated", "invert": false},)" +
              kBytesOnly),
          R"(\w+)");
  refused(sequence_of(
              R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": false},)" +
              kBytesOnly),
          "pattern");
  refused(sequence_of(replaced(kSplitLlama3, "Isolated", "Removed") + "," + kBytesOnly), "Removed");
  refused(sequence_of(replaced(kSplitLlama3, "\"invert\": false", "\"invert\": true") + "," + kBytesOnly),
          "invert");
  refused(
      sequence_of(kSplitLlama3 + "," + replaced(kBytesOnly, R"("use_regex": false)", R"("use_regex": true)")),
      "use_regex");
}

TEST_CASE("tokenizer.json: contradictions are bad input with the file's name") {
  const auto bad = [](const std::string& changes, const std::string& part) {
    check_changed_refused(changes, ErrorKind::bad_input, part);
  };
  const auto token = [](const std::string& id, const std::string& content) {
    return R"({"id": )" + id + R"(, "content": ")" + content +
           R"(", "special": true, "normalized": false, "single_word": false, "lstrip": false, "rstrip": false})";
  };
  bad(R"({"model": null})", "model");
  bad(R"({"model": []})", "model");
  bad(R"({"model": {"type": null}})", "model.type");
  bad(R"({"model": {"vocab": null}})", "model.vocab");
  bad(R"({"model": {"vocab": []}})", "vocab");
  bad(R"({"model": {"vocab": {"q": "1"}}})", "'q'");
  bad(R"({"model": {"vocab": {"q": 1.5}}})", "'q'");
  bad(R"({"model": {"vocab": {"q": -1}}})", "-1");
  bad(R"({"model": {"vocab": {"q": 18446744073709551615}}})", "'q'");
  bad(R"({"model": {"vocab": {"q": 2000000000}}})", "2000000000");
  bad(R"({"model": {"vocab": {"q": 5}}})", "id 5 is used twice");
  bad(R"({"model": {"merges": null}})", "model.merges");
  bad(R"({"model": {"merges": ["ab"]}})", "merges[0]");
  bad(R"({"model": {"merges": ["a b", "a b c"]}})", "merges[1]");
  bad(R"({"model": {"merges": [["a"]]}})", "merges[0]");
  bad(R"({"model": {"merges": [["a", 1]]}})", "merges[0]");
  bad(R"({"model": {"merges": ["a zz"]}})", "'zz'");
  bad(R"({"model": {"merges": ["b a"]}})", "'ba'");
  bad(R"({"model": {"merges": ["a b", "ab c", "a b"]}})", "twice");
  bad(R"({"model": {"dropout": 0, "fuse_unk": 3}})", "fuse_unk");
  bad(R"({"pre_tokenizer": 7})", "pre_tokenizer");
  bad(R"({"pre_tokenizer": {"add_prefix_space": null}})", "add_prefix_space");
  bad(R"({"added_tokens": {}})", "added_tokens");
  bad(R"({"added_tokens": [{"id": 300}]})", "added_tokens[0].content");
  bad(R"({"added_tokens": [)" + token("7", "new") + "]}", "id 7 is used twice");
  bad(R"({"added_tokens": [)" + token("300", "a") + "]}", "id 300, but");
  bad(R"({"added_tokens": [)" + token("300", "") + "]}", "empty");
  bad(R"({"added_tokens": [)" + token("-4", "new") + "]}", "-4");
  bad(R"({"added_tokens": [)" + token("4294967296", "new") + "]}", "4294967296");
  bad(R"({"added_tokens": [)" + token("300", "nn") + "," + token("301", "nn") + "]}", "there twice");
  bad(R"({"post_processor": {"type": "TemplateProcessing", "add_prefix_space": null, "trim_offsets": null, "use_regex": null,
          "single": [{"SpecialToken": {"id": "X", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {}}})",
      "'X'");
}

TEST_CASE("tokenizer.json: a file cut off anywhere or with flipped bytes never gives more than an error") {
  const std::string whole =
      small_tokenizer_json({{"a", "b"}, {"ab", "c"}}, R"({"normalizer": {"type": "NFC"}})");
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 40) {
    CAPTURE(size);
    CHECK_THROWS_AS(make(whole.substr(0, size)), Error);
  }
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    std::string damaged = whole;
    damaged[random_bits(seed, 0, 0) % whole.size()] = static_cast<char>(random_bits(seed, 0, 1));
    try {
      const auto tokenizer = make(damaged);
      tokenizer->decode(tokenizer->encode("abc \u00e9"));
    } catch (const Error& e) {
      CHECK((e.kind() == ErrorKind::bad_input || e.kind() == ErrorKind::unsupported));
    }
  }
  check_refused("", ErrorKind::bad_input, "JSON");
  check_refused("[]", ErrorKind::bad_input, "object");
  check_refused(std::string(200000, '['), ErrorKind::bad_input, "JSON");
}

TEST_CASE("a vocabulary without some bytes loads and refuses texts that need them") {
  const auto tokenizer = make(small_tokenizer_json(kMerges, R"({"model": {"vocab": {"q": null}}})"));
  CHECK(tokenizer->encode("abc") == Ids{257});
  try {
    tokenizer->encode("abc q");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(std::string(e.what()).find("0x71") != std::string::npos);
  }
}

TEST_CASE("vocab.json and merges.txt: bad lines are named") {
  const std::string vocab = R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})";
  const auto load = [&](const std::string& merges) {
    return std::make_unique<BpeTokenizer>(parse_vocab_and_merges(vocab, "vocab.json", merges, "merges.txt"));
  };
  CHECK(load("#version: 0.2\na b\n")->encode("ab<|endoftext|>") == Ids{2, 3});
  CHECK(load("a b")->eos() == 3);
  for (const char* merges :
       {"", "#version: 0.2\n", "a b\nab\n", "a b\na  b\n", "a b\n a\n", "a b\nb \n", "a b\xff\n"}) {
    INFO(merges);
    CHECK_THROWS_AS(load(merges), Error);
  }
  const auto message = [&](const std::string& merges) -> std::string {
    try {
      load(merges);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(message("a b\nab\n").find("merges.txt:2") != std::string::npos);
  CHECK(message("a b\nb a\n").find("'ba'") != std::string::npos);
}

TEST_CASE("a model folder: which tokenizer files are looked for") {
  const test::TemporaryFolder folder;
  const auto message = [&] {
    try {
      load_tokenizer(folder.path());
    } catch (const Error& e) {
      CHECK((e.kind() == ErrorKind::bad_input || e.kind() == ErrorKind::unsupported));
      return std::string(e.what());
    }
    return std::string();
  };
  for (const char* name : {"tokenizer.json", "vocab.json", "encoder.json", "merges.txt", "vocab.bpe"}) {
    CHECK(message().find(name) != std::string::npos);
  }
  folder.write("tokenizer.model", "x");
  CHECK(message().find("tokenizer.model") != std::string::npos);
  folder.write("encoder.json", R"({"a": 0, "b": 1, "ab": 2})");
  CHECK(message().find("merges.txt") != std::string::npos);
  folder.write("vocab.bpe", "a b\n");
  CHECK(load_tokenizer(folder.path())->encode("ab") == Ids{2});
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  CHECK(message().find("Qwen2Tokenizer") != std::string::npos);
  folder.write("tokenizer.json", small_tokenizer_json({}));
  CHECK(load_tokenizer(folder.path())->encode("ab") == Ids{'a', 'b'});
  CHECK(load_tokenizer(folder.path() / "tokenizer.json")->encode("ab") == Ids{'a', 'b'});
  CHECK_THROWS_AS(load_tokenizer(folder.path() / "absent"), Error);
}
