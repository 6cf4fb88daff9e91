// Each protocol against a plain transcription of what its source does, on losses that are made up: a loss is
// a function of the token and of how many ids it saw, so a wrong window, weight or count changes the figure.
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/rng.h"
#include "lib/core/text_file.h"
#include "lib/eval/moments.h"
#include "lib/eval/protocols.h"
#include "lib/eval/wikitext_pages.h"
#include "lib/results/value.h"
#include "tests/catch.h"
#include "tests/eval/letter_tokenizer.h"
#include "tests/eval/read_all.h"

using namespace attn;

namespace {

const std::filesystem::path kData = std::filesystem::path(ATTN_SOURCE_DIR) / "../shared/data";
constexpr TokenId kBos = 0;  // no letter's id

class BosTokenizer : public LetterTokenizer {
 public:
  using LetterTokenizer::LetterTokenizer;
  std::optional<TokenId> bos() const override { return kBos; }
};
const LetterTokenizer kTokenizer(128);
const BosTokenizer kBosTokenizer(128);

TextSource one_text(std::string text) {
  return [text = std::move(text), done = false]() mutable -> std::optional<Document> {
    if (done) return std::nullopt;
    done = true;
    return Document{"text", text};
  };
}

std::string letters(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>('a' + (i * 7 + i / 5) % 26);
  return text;
}

// The loss of token `target` of the text (without BOS) after `seen` ids, of which the first may be BOS.
double loss(std::int64_t target, std::int64_t seen, bool bos) {
  return 2 + std::sin(static_cast<double>(target)) + 1.0 / static_cast<double>(seen) + (bos ? 0.25 : 0);
}

PerplexityResult score(const ReadPlan& plan) {
  std::vector<double> losses;
  return sum_losses(plan.passages, plan.estimator, [&](const Passage& passage, const Window& window) {
    CHECK(static_cast<std::int64_t>(fed_ids(passage, window).size()) == window.tokens());
    losses.clear();
    for (std::int64_t token = window.first_scored; token < window.end; ++token)
      losses.push_back(loss(token, token - window.begin + (window.bos ? 1 : 0), window.bos));
    return std::span<const double>(losses);
  });
}

PlanOptions options(std::int64_t context, std::int64_t stride) {
  PlanOptions out;
  out.context = context;
  out.stride = stride;
  return out;
}

ReadPlan plan(Protocol protocol, int tokens, const PlanOptions& asked,
              const Tokenizer& tokenizer = kTokenizer) {
  return read_all(protocol, one_text(letters(tokens)), tokenizer, asked);
}

// A weighted sum with its weights, as the sources accumulate them.
struct Expected {
  double sum = 0, weight = 0;
  std::int64_t scored = 0, windows = 0;
  void window(std::vector<double> losses, double weigh) {
    double total = 0;
    for (const double value : losses) total += value;
    sum += weigh * total / static_cast<double>(losses.size());
    weight += weigh;
    scored += static_cast<std::int64_t>(losses.size());
    ++windows;
  }
};

void check(const ReadPlan& plan, const PerplexityResult& result, const Expected& expected) {
  CHECK(plan.tokens_scored == expected.scored);
  CHECK(result.tokens_scored == expected.scored);
  CHECK(plan.windows == expected.windows);
  CHECK(result.weight_sum == Approx(expected.weight).epsilon(1e-14));
  CHECK(*result.log_perplexity == Approx(expected.sum / expected.weight).epsilon(1e-13));
}

}  // namespace

TEST_CASE("full with BOS scores the first token too and each id once") {
  for (const auto& [tokens, context, stride] :
       {std::array{1, 8, 4}, {7, 8, 4}, {8, 8, 4}, {9, 8, 8}, {40, 8, 1}, {41, 16, 5}, {64, 16, 16}}) {
    for (const BosRule rule : {BosRule::none, BosRule::first, BosRule::each}) {
      CAPTURE(tokens, context, stride, kBosRuleNames.name(rule));
      PlanOptions asked = options(context, stride);
      asked.bos = rule;
      const ReadPlan made = plan(Protocol::full, tokens, asked, kBosTokenizer);
      CHECK(made.tokens == tokens);
      CHECK(made.tokens_scored == (rule == BosRule::none ? tokens - 1 : tokens));
      std::int64_t next = rule == BosRule::none ? 1 : 0;
      for (const Passage& passage : made.passages) {
        for (std::size_t w = 0; w < passage.windows.size(); ++w) {
          const Window& window = passage.windows[w];
          CHECK(window.first_scored == next);
          CHECK(window.tokens() <= context);
          const bool bos = rule == BosRule::each || (rule == BosRule::first && w == 0);
          CHECK(window.bos == bos);
          CHECK((fed_ids(passage, window).front() == kBos) == bos);
          CHECK(window.first_scored - window.begin + (bos ? 1 : 0) >= 1);
          next = window.end;
        }
      }
      CHECK((tokens == 1 || next == tokens));
    }
  }
  PlanOptions each = options(16, 8);
  each.bos = BosRule::each;
  // 15 ids a window beside BOS, 8 of them new: 15, 23, 31, 39, 40.
  CHECK(plan(Protocol::full, 40, each, kBosTokenizer).windows == 5);
  CHECK_THROWS_AS(plan(Protocol::full, 40, each, kTokenizer), Error);  // it names no BOS
}

TEST_CASE("hf-strided weighs the windows as the script does") {
  for (const auto& [tokens, context, stride] : {std::array{64, 16, 8},
                                                {61, 16, 8},
                                                {64, 16, 16},
                                                {65, 16, 16},
                                                {65, 16, 15},
                                                {12, 16, 8},
                                                {17, 16, 8}}) {
    CAPTURE(tokens, context, stride);
    Expected labels, windows;
    double sum = 0;
    int previous = 0;
    for (int begin = 0; begin < tokens; begin += stride) {
      const int end = std::min(begin + context, tokens);
      const int target_length = end - previous;
      std::vector<double> losses;  // of the labels that are left after -100 and the shift
      for (int i = std::max(1, end - begin - target_length); i < end - begin; ++i)
        losses.push_back(loss(begin + i, i, false));
      for (const double value : losses) sum += value;
      if (!losses.empty()) {
        labels.window(losses, target_length - 1);
        windows.window(losses, 1);
      }
      previous = end;
      if (end == tokens) break;
    }
    PlanOptions asked = options(context, stride);
    asked.text = TextForm::as_is;
    const ReadPlan current = plan(Protocol::hf_strided, tokens, asked);
    check(current, score(current), labels);
    CHECK(current.estimator == Estimator::labels);
    asked.estimator = Estimator::windows;
    const ReadPlan old = plan(Protocol::hf_strided, tokens, asked);
    check(old, score(old), windows);
    asked.estimator = Estimator::tokens;
    const PerplexityResult by_token = score(plan(Protocol::hf_strided, tokens, asked));
    CHECK(*by_token.log_perplexity == Approx(sum / static_cast<double>(labels.scored)).epsilon(1e-13));
  }
  // With overlap all ids but the first are scored; without, the first of each window is not.
  CHECK(plan(Protocol::hf_strided, 64, options(16, 8)).tokens_scored == 63);
  CHECK(plan(Protocol::hf_strided, 64, options(16, 16)).tokens_scored == 60);
}

TEST_CASE("hf-strided joins the rows of a text and may begin with BOS") {
  const std::string text = " \n = A = \n\nlast";
  const auto ids = [&](std::optional<TextForm> form) {
    PlanOptions asked = options(8, 4);
    asked.text = form;
    return read_all(Protocol::hf_strided, one_text(text), kTokenizer, asked).passages.at(0).ids;
  };
  CHECK(ids(std::nullopt) == kTokenizer.encode("\n\n = A = \n\n\n\n\nlast"));
  CHECK(ids(TextForm::rows) == kTokenizer.encode(" = A = \nlast"));
  CHECK(ids(TextForm::as_is) == kTokenizer.encode(text));
  PlanOptions with_bos = options(16, 8);
  with_bos.bos = BosRule::first;
  const ReadPlan made = plan(Protocol::hf_strided, 40, with_bos, kBosTokenizer);
  CHECK(made.tokens_scored == 40);
  CHECK(made.windows == 5);  // of 41 ids: ends 16, 24, 32, 40, 41
  CHECK(made.passages[0].windows[0] == Window{0, 15, 0, true});
  CHECK(made.passages[0].windows[1] == Window{7, 23, 15});
}

TEST_CASE("lm-eval rolls disjoint windows and fills up the last") {
  for (const auto& [tokens, context] : {std::array{5, 8}, {8, 8}, {9, 8}, {16, 8}, {21, 8}, {1, 8}}) {
    CAPTURE(tokens, context);
    Expected expected;
    // get_rolling_token_windows with context_len 1, then make_disjoint_window.
    const int first = std::min(context, tokens);
    std::vector<double> losses;
    for (int i = 0; i < first; ++i) losses.push_back(loss(i, i + 1, true));
    expected.window(losses, static_cast<double>(losses.size()));
    for (int predicted = first; predicted < tokens;) {
      const int length = std::min(tokens - predicted, context);
      const int end = predicted + length;
      const int kept = context - (length - 1);  // ids of context after the cut
      losses.clear();
      for (int i = 0; i < length; ++i) losses.push_back(loss(predicted + i, kept + i, false));
      expected.window(losses, static_cast<double>(length));
      predicted = end;
    }
    const ReadPlan made = plan(Protocol::lm_eval, tokens, options(context, context), kBosTokenizer);
    const PerplexityResult result = score(made);
    check(made, result, expected);
    CHECK(made.tokens_scored == tokens);
    for (const Window& window : made.passages[0].windows) CHECK(window.tokens() <= context);
    CHECK(made.bos_id == kBos);
    // Of the page, one word without white space.
    CHECK(result.words_scored == 1);
    CHECK(result.bytes_scored == tokens);
    CHECK(*result.word_perplexity == Approx(std::exp(result.nll_sum)).epsilon(1e-13));
    CHECK(*result.bits_per_byte == Approx(result.nll_sum / tokens / std::log(2.0)).epsilon(1e-13));
  }
}

TEST_CASE("llama.cpp scores the second half of each chunk without its first id") {
  for (const auto& [tokens, context] : {std::array{16, 8}, {23, 8}, {24, 8}, {50, 9}}) {
    for (const bool bos : {false, true}) {
      CAPTURE(tokens, context, bos);
      Expected expected;
      const int all = tokens + (bos ? 1 : 0);  // BOS before the text
      const int half = context / 2;
      for (int chunk = 0; chunk < all / context; ++chunk) {
        std::vector<double> losses;
        for (int i = half; i < context - 1; ++i)  // the row of id i predicts id i + 1
          losses.push_back(loss(chunk * context + i + 1 - (bos ? 1 : 0), i + 1, bos));
        CHECK(static_cast<int>(losses.size()) == context - half - 1);
        expected.window(losses, static_cast<double>(losses.size()));
      }
      PlanOptions asked = options(context, context);
      asked.bos = bos ? BosRule::each : BosRule::none;
      const ReadPlan made = plan(Protocol::llama_cpp, tokens, asked, kBosTokenizer);
      check(made, score(made), expected);
      for (const Window& window : made.passages[0].windows) {
        const auto fed = fed_ids(made.passages[0], window);
        CHECK(static_cast<int>(fed.size()) == context);
        CHECK((fed[0] == kBos) == bos);  // replaced, not inserted
      }
    }
  }
  CHECK_THROWS_AS(plan(Protocol::llama_cpp, 15, options(8, 8)), Error);
}

TEST_CASE("the error of llama.cpp is the first order error of independent tokens") {
  const ReadPlan made = plan(Protocol::llama_cpp, 240, options(8, 8));
  const PerplexityResult result = score(made);
  double nll = 0, nll2 = 0;
  std::int64_t count = 0;
  for (const Window& window : made.passages[0].windows) {
    for (std::int64_t token = window.first_scored; token < window.end; ++token, ++count) {
      const double value = loss(token, token - window.begin, false);
      nll += value;
      nll2 += value * value;
    }
  }
  const auto n = static_cast<double>(count);
  const double error = std::sqrt((nll2 / n - nll / n * (nll / n)) / (n - 1));
  CHECK(*result.standard_error == Approx(error * *result.perplexity).epsilon(1e-10));
}

TEST_CASE("legacy-window scores the end of the text twice and counts a label too many") {
  for (const auto& [tokens, context, stride] :
       {std::array{64, 16, 8}, {61, 16, 8}, {61, 16, 16}, {12, 16, 8}, {34, 16, 15}}) {
    CAPTURE(tokens, context, stride);
    Expected expected;
    for (int begin = 0; begin < tokens - 1; begin += stride) {
      const int end = std::min(begin + context, tokens);
      const int labels = begin == 0 ? end - begin : std::min(stride, end - begin);
      std::vector<double> losses;
      for (int i = std::max(1, end - begin - labels); i < end - begin; ++i)
        losses.push_back(loss(begin + i, i, false));
      expected.window(losses, labels);
      if (end >= tokens) break;
    }
    const ReadPlan made = plan(Protocol::legacy_window, tokens, options(context, stride));
    check(made, score(made), expected);
  }
  // The counts of the run that this protocol was read from: 33,828 ids gave num_tokens 34304.
  const ReadPlan book = plan(Protocol::legacy_window, 33828, options(1024, 512));
  CHECK(book.windows == 66);
  CHECK(book.tokens_scored == 34303);
  CHECK(score(book).weight_sum == 34304);
  CHECK(book.passages[0].windows[65] == Window{33280, 33828, 33316});
}

TEST_CASE("a protocol refuses what it does not have") {
  const auto refused = [](Protocol protocol, const auto& change) {
    PlanOptions asked = options(16, 8);
    change(asked);
    CHECK_THROWS_AS(plan(protocol, 64, asked, kBosTokenizer), Error);
  };
  refused(Protocol::lm_eval, [](PlanOptions& o) { o.bos = BosRule::each; });
  refused(Protocol::hf_strided, [](PlanOptions& o) { o.bos = BosRule::each; });
  refused(Protocol::llama_cpp, [](PlanOptions& o) { o.bos = BosRule::first; });
  refused(Protocol::legacy_rows, [](PlanOptions& o) { o.bos = BosRule::first; });
  refused(Protocol::full, [](PlanOptions& o) { o.estimator = Estimator::windows; });
  refused(Protocol::lm_eval, [](PlanOptions& o) { o.text = TextForm::rows; });
  refused(Protocol::legacy_window, [](PlanOptions& o) { o.context = 15; });
  refused(Protocol::llama_cpp, [](PlanOptions& o) { o.context = o.stride = 2; });
}

TEST_CASE("words and bytes are counted where a word begins in a scored token") {
  class Plain : public LetterTokenizer {
   public:
    using LetterTokenizer::LetterTokenizer;
    std::string decode(std::span<const TokenId> ids) const override { return {ids.begin(), ids.end()}; }
  };
  const Plain tokenizer(128);
  Passage passage{"text", {}, {}};
  for (const char c : std::string("ab cd\n ef  gh i")) passage.ids.push_back(c);
  passage.windows = {{0, 4, 1}, {2, 7, 4}, {8, 12, 9}, {8, 15, 12}};  // b_c d\n_ then f__g after e, then h_i
  const auto zero = [](const Passage&, const Window& window) {
    static const std::vector<double> losses(16, 0.5);
    return std::span(losses).first(static_cast<std::size_t>(window.scored()));
  };
  passage.window_counts = count_scored_text(passage, tokenizer);
  const PerplexityResult result = sum_losses({&passage, 1}, Estimator::tokens, zero);
  CHECK(result.bytes_scored == 3 + 3 + 3 + 3);
  CHECK(result.words_scored == 1 + 0 + 1 + 1);  // cd, gh, i
  CHECK(*result.byte_perplexity == Approx(std::exp(0.5)));
  CHECK(*result.word_perplexity == Approx(std::exp(0.5 * 12 / 3)));
}

TEST_CASE("an unfinished page has no figures per word") {
  const ReadPlan made = plan(Protocol::lm_eval, 30, options(8, 8), kBosTokenizer);
  const std::vector<double> losses(8, 1.0);
  const PerplexityResult result = sum_losses(
      made.passages, made.estimator, [&](const Passage&, const Window&) { return std::span(losses); }, 2);
  CHECK(result.tokens_scored == 16);
  CHECK(result.perplexity.has_value());
  CHECK_FALSE(result.word_perplexity.has_value());
  CHECK_FALSE(result.bits_per_byte.has_value());
}

TEST_CASE("the block bootstrap sees that neighbours are alike") {
  std::vector<double> alike, shuffled;
  for (int i = 0; i < 4096; ++i) alike.push_back(std::sin(i / 200.0) + std::sin(i * 12.9898));
  shuffled = alike;
  for (std::size_t i = shuffled.size(); i-- > 1;)
    std::swap(shuffled[i], shuffled[random_bits(7, 0, i) % (i + 1)]);
  RunningMoments moments;
  for (const double value : alike) moments.add(value);
  const double independent = std::sqrt(moments.variance() / 4096);
  const auto of_alike = block_bootstrap(alike, {});
  const auto of_shuffled = block_bootstrap(shuffled, {});
  REQUIRE(of_alike.has_value());
  CHECK(of_alike->block == 64);
  CHECK(of_alike->error > 3 * independent);
  CHECK(of_shuffled->error == Approx(independent).epsilon(0.15));
  CHECK(block_bootstrap(alike, {})->error == of_alike->error);  // the same numbers every time
  CHECK(block_bootstrap(alike, {}, 1000, 2)->error != of_alike->error);
  const std::vector<double> threes(alike.size(), 3.0);
  CHECK(block_bootstrap(alike, threes)->error == Approx(of_alike->error).epsilon(1e-12));
  CHECK_FALSE(block_bootstrap(std::span(alike).first(1), {}).has_value());
  CHECK(block_bootstrap(threes, {})->error == 0);
}

TEST_CASE("pages of WikiText begin at headings of the first level") {
  const auto pages = wikitext_pages(" \n = One = \n \n text \n = = Part = = \n more \n = Two = \n last \n");
  REQUIRE(pages.size() == 2);
  CHECK(pages[0] == " = One = \n \n text \n = = Part = = \n more ");
  CHECK(pages[1] == " = Two = \n last \n");
  CHECK(wikitext_pages("before\n = One = \nx").size() == 2);
  CHECK(wikitext_pages(" = One = \r\nx") == wikitext_pages(" = One = \nx"));
  CHECK(wikitext_pages("no heading").size() == 1);
  const TextCounts counts = wikitext_counts(" = Robert = \n a b ");
  CHECK(counts.words == 7);  // with the empty ones at both ends
  CHECK(counts.bytes == 18);
}

TEST_CASE("WikiText is de-tokenised as the harness does") {
  CHECK(wikitext_detokenize("the boys ' dog , 1 @,@ 000 @.@ 5 well @-@ known : yes ! ( a b ) [ c ] { d }") ==
        "the boys' dog, 1,000.5 well-known: yes! (a b) [c] {d}");
  CHECK(wikitext_detokenize(" = = Part = = \n \" so \" it 's N 5 \xc2\xb0 C \n next") ==
        " == Part ==\n\"so\" it's 1 5\xc2\xb0"
        "C\nnext");
  CHECK(wikitext_detokenize("a ' b \n c ' d") == "a 'b\nc' d");  // across lines
  CHECK(wikitext_detokenize("x /' 7/ y") == "x /'[0-9]/ y");
  CHECK(wikitext_detokenize("( open") == "( open");
}

TEST_CASE("id counts of published protocols come out of WikiText 2") {
  if (!std::filesystem::exists(kData)) ATTN_SKIP("../shared/data is not beside the checkout");
  const auto tokenizer = load_tokenizer(kData / "tokenizers/gpt2");
  const auto count = [&](const std::string& file, TextForm form) {
    PlanOptions asked = options(1024, 1024);
    asked.text = form;
    const std::string text = read_text_file(kData / "wikitext-2" / file);
    return read_all(Protocol::hf_strided, one_text(text), *tokenizer, asked);
  };
  const ReadPlan test = count("wiki.test.raw", TextForm::rows_nn);
  CHECK(test.tokens == 287644);
  CHECK(test.token_sha256 == "ef6af648320b73e3cb62461c48c8e4539aec4d10c751005e32d690977f0b9ccf");
  CHECK(test.windows == 281);
  CHECK(test.tokens_scored == 287644 - 281);
  CHECK(count("wiki.valid.raw", TextForm::as_is).tokens == 249887);
  CHECK(count("wiki.valid.raw", TextForm::rows).tokens == 247289);
  CHECK(count("wiki.valid.raw", TextForm::rows_nn).tokens == 251048);
  PlanOptions strided = options(1024, 512);
  const std::string text = read_text_file(kData / "wikitext-2/wiki.test.raw");
  CHECK(read_all(Protocol::hf_strided, one_text(text), *tokenizer, strided).tokens_scored == 287643);
}

TEST_CASE("lm-eval has the words bytes and ids of the harness in each of 62 pages") {
  if (!std::filesystem::exists(kData)) ATTN_SKIP("../shared/data is not beside the checkout");
  const Value golden =
      parse_json(read_text_file(kData / "reference/lm_eval/wikitext_docs.json"), "wikitext_docs.json");
  const auto& pages = *golden.fields()->find("docs")->array();
  const std::string text = read_text_file(kData / "wikitext-2/wiki.test.raw");
  for (const std::string family : {"gpt2", "pythia"}) {
    const auto tokenizer = load_tokenizer(kData / "tokenizers" / family);
    const ReadPlan made = read_all(Protocol::lm_eval, one_text(text), *tokenizer, options(2048, 1024));
    CHECK(made.bos_id == (family == "gpt2" ? 50256 : 0));
    REQUIRE(made.passages.size() == 62);
    std::int64_t words = 0, bytes = 0, detokenized = 0;
    for (std::size_t i = 0; i < 62; ++i) {
      const auto number = [&](const char* key) {
        return static_cast<std::int64_t>(*pages[i].fields()->find(key)->number());
      };
      CAPTURE(i, family);
      CHECK(made.passages[i].counts->words == number("words"));
      CHECK(made.passages[i].counts->bytes == number("bytes"));
      CHECK(static_cast<std::int64_t>(made.passages[i].ids.size()) ==
            number(family == "gpt2" ? "gpt2_tokens" : "neox_tokens"));
      words += made.passages[i].counts->words;
      bytes += made.passages[i].counts->bytes;
      detokenized += number("detok_bytes");
    }
    CHECK(words == 241335);
    CHECK(bytes == 1290527);
    CHECK(made.text_bytes == detokenized);
    CHECK(made.tokens_scored == made.tokens);
  }
}

TEST_CASE("llama.cpp has the chunks of WikiText 2 that its context implies") {
  if (!std::filesystem::exists(kData)) ATTN_SKIP("../shared/data is not beside the checkout");
  const auto tokenizer = load_tokenizer(kData / "tokenizers/gpt2");
  const std::string text = read_text_file(kData / "wikitext-2/wiki.test.raw");
  const ReadPlan made = read_all(Protocol::llama_cpp, one_text(text), *tokenizer, options(512, 512));
  CHECK(made.tokens == 286221);
  CHECK(made.windows == 559);
  CHECK(made.tokens_scored == 559 * 255);
}
