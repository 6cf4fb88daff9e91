// attnppl from options to records.
#include "apps/attnppl/run.h"

#include <algorithm>
#include <cstdio>

#include "apps/attnppl/print_case.h"
#include "apps/interrupt.h"
#include "apps/progress.h"
#include "lib/results/environment.h"
#include "lib/results/writer.h"

namespace attn {
namespace {

constexpr int kNonfiniteExitCode = 1;

int tokenize_only(const std::vector<PplCase>& cases, const Tokenizer& tokenizer) {
  for (const PplCase& ppl_case : cases) {
    CaseText text(ppl_case, tokenizer);
    while (text.next()) continue;
    const TextFacts facts = text.finish();
    for (const std::string& note : facts.notes) fmt::print(stderr, "attnppl: warning: {}\n", note);
    print_text(ppl_case, facts);
    const ReadTotals& totals = facts.totals;
    fmt::print("tokens {}\nsha256 {}\nbytes {}\nMB/s {:.2f}\n", totals.tokens, *totals.token_sha256,
               totals.text_bytes,
               totals.encode_seconds > 0
                   ? static_cast<double>(totals.text_bytes) / (totals.encode_seconds * 1e6)
                   : 0.0);
  }
  return 0;
}

std::unique_ptr<Tokenizer> require_tokenizer(const ModelSource& source) {
  if (!source.dir) {
    fail(ErrorKind::bad_input,
         "{}: no tokenizer of this model is on this machine; fetch it with tools/fetch_model {}, or name a "
         "folder that "
         "has one with --model",
         source.name, source.name);
  }
  return load_tokenizer(*source.dir);
}

// The exit code of a case, 0 if all is well.
int exit_code_of(const PplCaseResult& result) {
  int worst = 0;
  for (const PplVariantResult& variant : result.variants) {
    if (!variant.ran())
      worst = std::max(worst, exit_code(variant.failure_kind));
    else if (result.complete() && !variant.ok())
      worst = std::max(worst, kNonfiniteExitCode);
  }
  if (result.nonfinite) worst = std::max(worst, kNonfiniteExitCode);
  return worst;
}

class PplRun {
 public:
  PplRun(const PplOptions& options, Platform& platform, const Model& model, const Tokenizer& tokenizer,
         ResultWriter& writer, const PplRunFacts& facts)
      : options_(options),
        platform_(platform),
        model_(model),
        tokenizer_(tokenizer),
        writer_(writer),
        facts_(facts) {}

  // The exit code.
  int run(const PplCase& ppl_case) {
    CaseText text(ppl_case, tokenizer_);
    print_start(ppl_case, text.settings());
    std::fflush(stdout);
    const ScoringPlan plan = plan_scoring(options_.modes, {ForwardPath::prefill}, false);
    const PplCaseResult result = score(ppl_case, plan, text);
    require_tokens(ppl_case, result);
    PplRunFacts facts = facts_;
    add_notes(facts, result);
    for (std::size_t i = 0; i < result.variants.size(); ++i)
      writer_.append(make_record(options_, platform_, model_, ppl_case, result, i, facts));
    print_variants(result);
    print_divergences(result);
    if (is_legacy(ppl_case.protocol)) print_system_b(options_, model_, ppl_case, result);
    print_end(ppl_case, result);
    std::fflush(stdout);
    if (result.source_error) throw Error(*result.source_error);
    return exit_code_of(result);
  }

 private:
  PplCaseResult score(const PplCase& ppl_case, const ScoringPlan& plan, CaseText& text) {
    // How much there is to feed is not known before the end of the text, but for a limit.
    const std::int64_t limit = ppl_case.plan_options.max_tokens;
    Progress progress(static_cast<double>(limit));
    ScoreHooks hooks;
    hooks.stop = [] { return interrupted(); };
    std::int64_t scored = 0;
    hooks.on_window = [&](const WindowLosses& window) {
      if (window.variant == 0) scored += static_cast<std::int64_t>(window.losses.size());
    };
    hooks.on_batch = [&](std::int64_t) {
      progress.update(static_cast<double>(scored), fmt::format("{} tokens scored", scored));
    };
    return score_case(platform_, {&model_, nullptr}, ppl_case, plan, options_.batch_size, text, hooks);
  }

  static void require_tokens(const PplCase& ppl_case, const PplCaseResult& result) {
    if (!result.any_ran() || result.text.totals.tokens_scored > 0 || result.stopped) return;
    if (result.source_error) throw Error(*result.source_error);
    fail(ErrorKind::bad_input, "data set {}: no text of two tokens or more, so there is nothing to score",
         ppl_case.dataset.name);
  }

  void add_notes(PplRunFacts& facts, const PplCaseResult& result) const {
    const auto warn = [&](const std::string& note) {
      fmt::print(stderr, "attnppl: warning: {}\n", note);
      facts.notes.push_back(note);
    };
    for (const std::string& note : result.text.notes) warn(note);
    if (const auto past = context_warning(model_.config, static_cast<int>(result.longest));
        past && model_.config.position == PositionKind::rotary)
      warn(*past);
  }

  const PplOptions& options_;
  Platform& platform_;
  const Model& model_;
  const Tokenizer& tokenizer_;
  ResultWriter& writer_;
  const PplRunFacts& facts_;
};

}  // namespace

int run_ppl(PplOptions options) {
  PplRunFacts facts;
  facts.notes = settle(options);
  const ModelSource source = find_model(model_name(options.model));
  for (const std::string& note : facts.notes) fmt::print("note: {}\n", note);
  if (options.tokenize_only) return tokenize_only(make_cases(options, nullptr), *require_tokenizer(source));

  const ModelConfig config = source_config(source);
  std::vector<PplCase> cases = make_cases(options, &config);
  const auto tokenizer = require_tokenizer(source);
  if (tokenizer->vocab_size() > config.vocab) {
    fail(ErrorKind::bad_input,
         "{}: the tokenizer has {} ids, but the model's embedding has {} rows; they do not belong together",
         source.dir->string(), tokenizer->vocab_size(), config.vocab);
  }
  ResultWriter writer(options.out, "attnppl.jsonl");
  Platform platform = open_platform(options.model);
  const Model model = open_model(options.model, platform);
  print_model(model, platform);
  if (options.batch_size.value_or(1) > 1 && !platform.device->records()) {
    facts.notes.emplace_back(
        "--batch-size changes nothing on the CPU, which feeds each window alone: the figures are the same "
        "bits");
    fmt::print("note: {}\n", facts.notes.back());
  }
  const DeviceInfo device = platform.device->info();
  facts.environment = environment_fields(
      {options.argv, device.description, device.threads, {{"matrix_products", device.libraries}}});

  catch_interrupts();
  int worst = 0;
  PplRun run(options, platform, model, *tokenizer, writer, facts);
  for (const PplCase& ppl_case : cases) {
    worst = std::max(worst, run.run(ppl_case));
    if (interrupted()) {
      fmt::print(stderr, "attnppl: interrupted; {} is valid and holds what was scored\n",
                 writer.path().string());
      return kInterruptedExitCode;
    }
  }
  fmt::print("records: {}\n", writer.path().string());
  return worst;
}

}  // namespace attn
