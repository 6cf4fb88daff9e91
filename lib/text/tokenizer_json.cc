// tokenizer.json to BpeDefinition, component by component.
#include "lib/text/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/text/json_fields.h"

namespace attn {

namespace {

using nlohmann::json;

[[noreturn]] void refuse_type(const JsonFields& at, std::string_view type, std::string_view supported) {
  fail(ErrorKind::unsupported, "{}: {} of type '{}' is not supported; supported: {}", at.source(), at.where(),
       type, supported);
}

// The options of ByteLevel that change offsets alone, in a place where they have no meaning for ids or text.
void pass_byte_level(JsonFields& fields) {
  fields.get_bool("add_prefix_space", false);
  fields.get_bool("trim_offsets", false);
  fields.get_bool("use_regex", true);
  fields.finish();
}

const json& array_of(JsonFields& fields, const char* key) {
  const json& value = fields.get(key);
  if (!value.is_array())
    fail(ErrorKind::bad_input, "{}: '{}' is not a list", fields.source(), fields.path(key));
  return value;
}

std::string element(std::string_view list, std::size_t i) { return fmt::format("{}[{}]", list, i); }

// True for NFC.
bool read_normalizer(const json& value, const std::string& source, const std::string& where) {
  JsonFields fields(value, source, where);
  const std::string type = fields.get_string("type");
  if (type == "NFC") {
    fields.finish();
    return true;
  }
  if (type != "Sequence") refuse_type(fields, type, "NFC, or none");
  const json& parts = array_of(fields, "normalizers");
  fields.finish();
  bool nfc = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string at = element(fields.path("normalizers"), i);
    JsonFields part(parts[i], source, at);
    const std::string part_type = part.get_string("type");
    if (part_type != "NFC") refuse_type(part, part_type, "NFC, or none");
    part.finish();
    nfc = true;
  }
  return nfc;
}

// Returns use_regex.
bool read_byte_level_splitter(JsonFields& fields) {
  if (fields.get_bool("add_prefix_space")) {
    fail(ErrorKind::unsupported, "{}: '{}' = true is not supported: decoding would not give the text back",
         fields.source(), fields.path("add_prefix_space"));
  }
  fields.get_bool("trim_offsets", true);
  const bool use_regex = fields.get_bool("use_regex", true);
  fields.finish();
  return use_regex;
}

SplitPattern read_split(JsonFields& fields) {
  JsonFields pattern(fields.get("pattern"), fields.source(), fields.path("pattern"));
  if (!pattern.find("Regex")) {
    fail(ErrorKind::unsupported, "{}: '{}' that is not a 'Regex' is not supported", fields.source(),
         fields.path("pattern"));
  }
  const std::string regex = pattern.get_string("Regex");
  pattern.finish();
  const auto known = kSplitPatterns.find(regex);
  if (!known) {
    fail(ErrorKind::unsupported,
         "{}: the split pattern '{}' is not supported; supported are GPT-2's and LLaMA-3's, written exactly "
         "so: {}",
         fields.source(), regex, kSplitPatterns.list());
  }
  const std::string behavior = fields.get_string("behavior");
  if (behavior != "Isolated") {
    fail(ErrorKind::unsupported, "{}: '{}' = '{}' is not supported; supported: Isolated", fields.source(),
         fields.path("behavior"), behavior);
  }
  fields.refuse("invert");
  fields.finish();
  return *known;
}

SplitPattern read_pre_tokenizer(const json& value, const std::string& source) {
  constexpr std::string_view kSupported = "ByteLevel, or a Sequence of Split and ByteLevel (LLaMA-3's)";
  JsonFields fields(value, source, "pre_tokenizer");
  const std::string type = fields.get_string("type");
  if (type == "ByteLevel") {
    if (!read_byte_level_splitter(fields)) {
      fail(ErrorKind::unsupported,
           "{}: pre_tokenizer ByteLevel with 'use_regex' = false and no Split is not supported", source);
    }
    return SplitPattern::gpt2;
  }
  if (type != "Sequence") refuse_type(fields, type, kSupported);
  const json& parts = array_of(fields, "pretokenizers");
  fields.finish();
  if (parts.size() != 2) {
    fail(ErrorKind::unsupported, "{}: a pre_tokenizer Sequence of {} parts is not supported; supported: {}",
         source, parts.size(), kSupported);
  }
  JsonFields split(parts[0], source, element("pre_tokenizer.pretokenizers", 0));
  JsonFields bytes(parts[1], source, element("pre_tokenizer.pretokenizers", 1));
  const std::string split_type = split.get_string("type"), bytes_type = bytes.get_string("type");
  if (split_type != "Split") refuse_type(split, split_type, kSupported);
  if (bytes_type != "ByteLevel") refuse_type(bytes, bytes_type, kSupported);
  const SplitPattern pattern = read_split(split);
  if (read_byte_level_splitter(bytes)) {
    fail(ErrorKind::unsupported, "{}: '{}' = true behind a Split is not supported: it would split twice",
         source, bytes.path("use_regex"));
  }
  return pattern;
}

// The content behind a SpecialToken of a template.
std::string template_token(const json& special_tokens, const std::string& name, const JsonFields& at) {
  const auto found = special_tokens.find(name);
  if (found == special_tokens.end()) {
    fail(ErrorKind::bad_input, "{}: {} names '{}', which its special_tokens lack", at.source(), at.where(),
         name);
  }
  JsonFields token(*found, at.source(), at.path("special_tokens"));
  token.find("id");
  token.find("ids");
  const json& contents = array_of(token, "tokens");
  token.finish();
  if (contents.size() != 1 || !contents[0].is_string()) {
    fail(ErrorKind::unsupported, "{}: {}: the special token '{}' of {} tokens is not supported", at.source(),
         at.where(), name, contents.size());
  }
  return contents[0].get<std::string>();
}

// encode() adds no special tokens; the template tells which ones a model expects around a text.
void read_template(JsonFields& fields, BpeDefinition& definition) {
  const json& parts = array_of(fields, "single");
  fields.find("pair");  // two texts at once: never asked for here
  const json& special_tokens = fields.get("special_tokens");
  fields.finish();
  bool text_seen = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    JsonFields part(parts[i], fields.source(), element(fields.path("single"), i));
    if (const json* sequence = part.find("Sequence")) {
      if (text_seen) fail(ErrorKind::unsupported, "{}: {} repeats the text", fields.source(), part.where());
      const JsonFields must_be_an_object(*sequence, fields.source(), part.path("Sequence"));
      text_seen = true;
    } else {
      JsonFields token(part.get("SpecialToken"), fields.source(), part.path("SpecialToken"));
      std::optional<std::string>& place = text_seen ? definition.eos : definition.bos;
      if (place) {
        fail(ErrorKind::unsupported, "{}: {}: two special tokens on one side of the text are not supported",
             fields.source(), fields.where());
      }
      place = template_token(special_tokens, token.get_string("id"), fields);
      token.find("type_id");
      token.finish();
    }
    part.finish();
  }
  if (!text_seen) fail(ErrorKind::bad_input, "{}: {} has no text in it", fields.source(), fields.where());
}

void read_post_processor(const json& value, const std::string& source, const std::string& where,
                         BpeDefinition& definition) {
  JsonFields fields(value, source, where);
  const std::string type = fields.get_string("type");
  if (type == "ByteLevel") {
    pass_byte_level(fields);
  } else if (type == "TemplateProcessing") {
    read_template(fields, definition);
  } else if (type == "Sequence" && where == "post_processor") {
    const json& parts = array_of(fields, "processors");
    fields.finish();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      read_post_processor(parts[i], source, element(fields.path("processors"), i), definition);
    }
  } else {
    refuse_type(fields, type, "ByteLevel, TemplateProcessing, a Sequence of both, or none");
  }
}

void read_decoder(const json* value, const std::string& source) {
  if (!value) fail(ErrorKind::unsupported, "{}: no 'decoder' is not supported; supported: ByteLevel", source);
  JsonFields fields(*value, source, "decoder");
  const std::string type = fields.get_string("type");
  if (type != "ByteLevel") refuse_type(fields, type, "ByteLevel");
  pass_byte_level(fields);
}

std::pair<std::string, std::string> read_merge(const json& value, std::size_t rank,
                                               const std::string& source) {
  if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
    return {value[0].get<std::string>(), value[1].get<std::string>()};
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  fail(ErrorKind::bad_input, "{}: model.merges[{}] is not a pair of tokens", source, rank);
}

void read_vocabulary(const json& vocab, const std::string& source, const std::string& where,
                     BpeDefinition& definition) {
  if (!vocab.is_object()) fail(ErrorKind::bad_input, "{}: {} is not an object of token: id", source, where);
  definition.vocab.reserve(vocab.size());
  for (auto it = vocab.begin(); it != vocab.end(); ++it) {
    const bool in_range =
        it->is_number_integer() && (!it->is_number_unsigned() || it->get<std::uint64_t>() < 1ULL << 62);
    if (!in_range) {
      fail(ErrorKind::bad_input, "{}: {}: the id of '{}' is not a whole number in range", source, where,
           it.key());
    }
    definition.vocab.emplace_back(it.key(), it->get<std::int64_t>());
  }
}

void read_model(const json& value, const std::string& source, BpeDefinition& definition) {
  JsonFields fields(value, source, "model");
  const std::string type = fields.get_string("type");
  if (type != "BPE") refuse_type(fields, type, "BPE");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
    fields.refuse(key);
  }
  definition.has_unknown_token = fields.find("unk_token") != nullptr;
  fields.get_bool("fuse_unk", false);  // says how unknown tokens are counted; BpeTokenizer allows none
  definition.ignore_merges = fields.get_bool("ignore_merges", false);
  read_vocabulary(fields.get("vocab"), source, "model.vocab", definition);
  const json& merges = array_of(fields, "merges");
  fields.finish();
  definition.merges.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    definition.merges.push_back(read_merge(merges[rank], rank, source));
  }
}

AddedToken read_added_token(const json& value, const std::string& source, std::size_t i) {
  JsonFields fields(value, source, element("added_tokens", i));
  AddedToken token;
  const std::int64_t id = fields.get_int("id");
  if (id < 0 || id > std::numeric_limits<TokenId>::max()) {
    fail(ErrorKind::bad_input, "{}: '{}' = {} is out of range", source, fields.path("id"), id);
  }
  token.id = static_cast<TokenId>(id);
  token.content = fields.get_string("content");
  token.special = fields.get_bool("special");
  token.normalized = fields.get_bool("normalized");
  token.single_word = fields.get_bool("single_word");
  token.lstrip = fields.get_bool("lstrip");
  token.rstrip = fields.get_bool("rstrip");
  fields.finish();
  return token;
}

}  // namespace

BpeDefinition parse_tokenizer_json(std::string_view text, const std::string& source) {
  const json file = parse_json_text(text, source);
  JsonFields fields(file, source, "");
  BpeDefinition definition;
  definition.source = source;
  if (const std::string version = fields.get_string("version"); version != "1.0") {
    fail(ErrorKind::unsupported, "{}: 'version' = '{}' is not supported; supported: 1.0", source, version);
  }
  fields.refuse("truncation");
  fields.refuse("padding");
  if (fields.find("added_tokens")) {
    const json& tokens = array_of(fields, "added_tokens");
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      definition.added_tokens.push_back(read_added_token(tokens[i], source, i));
    }
  }
  if (const json* normalizer = fields.find("normalizer")) {
    definition.nfc = read_normalizer(*normalizer, source, "normalizer");
  }
  const json* pre_tokenizer = fields.find("pre_tokenizer");
  if (!pre_tokenizer) {
    fail(ErrorKind::unsupported, "{}: no 'pre_tokenizer' is not supported; supported: ByteLevel", source);
  }
  const json* model = fields.find("model");
  if (!model) fail(ErrorKind::bad_input, "{}: 'model' is missing: is this a tokenizer.json?", source);
  // The model's type first: a file of another kind (WordPiece, Unigram) is told so, not by its pre-tokenizer.
  read_model(*model, source, definition);
  definition.split = read_pre_tokenizer(*pre_tokenizer, source);
  if (const json* post = fields.find("post_processor")) {
    read_post_processor(*post, source, "post_processor", definition);
  }
  read_decoder(fields.find("decoder"), source);
  fields.finish();
  return definition;
}

BpeDefinition parse_vocab_and_merges(std::string_view vocab, const std::string& vocab_source,
                                     std::string_view merges, const std::string& merges_source) {
  BpeDefinition definition;
  definition.source = vocab_source;
  read_vocabulary(parse_json_text(vocab, vocab_source), vocab_source, "the file", definition);
  if (const auto bad = find_invalid_utf8(merges)) {
    fail(ErrorKind::bad_input, "{}: is not UTF-8 text at byte {}", merges_source, *bad);
  }
  std::size_t line_number = 0;
  while (!merges.empty()) {
    const std::size_t end = merges.find('\n');
    const std::string_view line = merges.substr(0, end);
    merges.remove_prefix(end == std::string_view::npos ? merges.size() : end + 1);
    ++line_number;
    if (line.empty() || (line_number == 1 && line.substr(0, 8) == "#version")) continue;
    const std::size_t space = line.find(' ');
    if (space == 0 || space + 1 >= line.size() || space == std::string_view::npos ||
        line.find(' ', space + 1) != std::string_view::npos) {
      fail(ErrorKind::bad_input, "{}:{}: '{}' is not a pair of tokens with one space between", merges_source,
           line_number, line);
    }
    definition.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  if (definition.merges.empty()) fail(ErrorKind::bad_input, "{}: has no merges", merges_source);
  for (const auto& [token, id] : definition.vocab) {
    if (token != "<|endoftext|>" || id < 0 || id > std::numeric_limits<TokenId>::max()) continue;
    AddedToken end_of_text;
    end_of_text.content = token;
    end_of_text.id = static_cast<TokenId>(id);
    end_of_text.special = true;
    definition.added_tokens.push_back(end_of_text);
  }
  return definition;
}

}  // namespace attn
