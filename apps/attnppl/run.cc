// attnppl from options to records.
#include "apps/attnppl/run.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "apps/attnppl/print_case.h"
#include "apps/attnppl/verdict.h"
#include "apps/interrupt.h"
#include "apps/measure_ceilings.h"
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
    for (const std::string& note : ppl_case.dataset.notes) fmt::print("note: {}\n", note);
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
  const bool broken = std::any_of(result.variants.begin(), result.variants.end(), [](const auto& variant) {
    return variant.rule && variant.rule->verdict == Verdict::broken;
  });
  return broken ? std::max(worst, kBrokenRuleExitCode) : worst;
}

class PplRun {
 public:
  PplRun(const PplOptions& options, Platform& platform, const ScoringModels& models,
         const Tokenizer& tokenizer, ResultWriter& writer, const PplRunFacts& facts)
      : options_(options),
        platform_(platform),
        models_(models),
        model_(*models.model),
        tokenizer_(tokenizer),
        writer_(writer),
        facts_(facts) {}

  // The exit code.
  int run(const PplCase& ppl_case) {
    PplRunFacts facts = facts_;
    for (const std::string& note : ppl_case.dataset.notes) add_note(facts, note);
    auto health = watch_first_windows(ppl_case, facts);
    CaseText text(ppl_case, tokenizer_);
    print_start(ppl_case, text.settings());
    std::fflush(stdout);
    PplCaseResult result =
        score(ppl_case, plan_scoring(options_.modes, paths(), !options_.reference.empty()), text);
    require_tokens(ppl_case, result);
    for (PplVariantResult& variant : result.variants) {
      const bool watched = variant.variant.path == ForwardPath::prefill && !variant.variant.reference;
      if (const auto found = health.find(variant.variant.mode); watched && found != health.end())
        variant.health = std::move(found->second);
    }
    if (result.nonfinite) watch_nonfinite(result, facts);
    judge_variants(result);
    if (const auto note = count_published_words(result, ppl_case)) add_note(facts, *note);
    add_warnings(facts, result);
    for (std::size_t i = 0; i < result.variants.size(); ++i)
      writer_.append(make_record(options_, platform_, model_, ppl_case, result, i, facts));
    print_variants(result, facts.ceilings);
    print_divergences(result);
    print_health(result);
    print_verdicts(result);
    if (is_legacy(ppl_case.protocol)) print_system_b(options_, model_, ppl_case, result);
    print_end(ppl_case, result);
    std::fflush(stdout);
    if (result.source_error) throw Error(*result.source_error);
    return exit_code_of(result);
  }

 private:
  std::vector<ForwardPath> paths() const {
    std::vector<ForwardPath> paths;
    for (const std::string& path : options_.paths) paths.push_back(kForwardPathNames.parse(path, "--path"));
    return paths;
  }

  // By mode. What a mode cannot do becomes a note; the scoring will say it too.
  std::map<std::string, HealthReport> watch_first_windows(const PplCase& ppl_case, PplRunFacts& facts) {
    std::map<std::string, HealthReport> reports;
    if (options_.health == 0) return reports;
    const auto wanted = static_cast<std::size_t>(options_.health);
    std::vector<std::vector<TokenId>> windows;
    CaseText text(ppl_case, tokenizer_);
    while (windows.size() < wanted) {
      const std::optional<Passage> passage = text.next();
      if (!passage) break;
      for (const Window& window : passage->windows) {
        if (windows.size() < wanted) windows.push_back(fed_ids(*passage, window));
      }
    }
    if (windows.empty()) return reports;  // the scoring complains
    for (const std::string& mode : options_.modes) {
      watch(facts, mode, [&] {
        reports[mode] =
            watch_health(platform_, model_, platform_.backend(mode), ForwardPath::prefill, windows, mode);
      });
    }
    return reports;
  }

  void watch_nonfinite(PplCaseResult& result, PplRunFacts& facts) {
    const PplVariant& variant = result.variants[result.nonfinite->variant].variant;
    watch(facts, variant.text(), [&] {
      result.nonfinite_health = watch_health(platform_, variant.reference ? *models_.reference : model_,
                                             platform_.backend(variant.mode), variant.path,
                                             {&result.nonfinite->fed, 1}, variant.text());
    });
  }

  template <typename Body>
  void watch(PplRunFacts& facts, const std::string& name, const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory && error.kind() != ErrorKind::unsupported) throw;
      add_note(facts, fmt::format("the health of {} could not be seen: {}", name, error.what()));
    }
  }

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
    return score_case(platform_, models_, ppl_case, plan, options_.batch_size, text, hooks);
  }

  static void require_tokens(const PplCase& ppl_case, const PplCaseResult& result) {
    if (!result.any_ran() || result.text.totals.tokens_scored > 0 || result.stopped) return;
    if (result.source_error) throw Error(*result.source_error);
    fail(ErrorKind::bad_input, "data set {}: no text of two tokens or more, so there is nothing to score",
         ppl_case.dataset.name);
  }

  // Recorded with each case, printed once.
  bool is_new(const std::string& note) { return said_.insert(note).second; }
  void add_note(PplRunFacts& facts, const std::string& note) {
    if (is_new(note)) fmt::print("note: {}\n", note);
    facts.notes.push_back(note);
  }

  void add_warnings(PplRunFacts& facts, const PplCaseResult& result) {
    const auto warn = [&](const std::string& note) {
      if (is_new(note)) fmt::print(stderr, "attnppl: warning: {}\n", note);
      facts.notes.push_back(note);
    };
    for (const std::string& note : result.text.notes) warn(note);
    if (const auto past = context_warning(model_.config, static_cast<int>(result.longest));
        past && model_.config.position == PositionKind::rotary)
      warn(*past);
  }

  const PplOptions& options_;
  Platform& platform_;
  const ScoringModels& models_;
  const Model& model_;
  const Tokenizer& tokenizer_;
  ResultWriter& writer_;
  const PplRunFacts& facts_;
  std::set<std::string> said_;
};

int run_with(PplOptions options, const std::function<Platform&()>& open) {
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
  Platform& platform = open();
  const Model model = open_model(options.model, platform);
  print_model(model, platform);
  if (options.ceilings) {
    facts.ceilings = measure_ceilings(platform, model.weights.dtype, 0);
    fmt::print("{}\n", ceilings_text(*facts.ceilings, model.weights.dtype));
  }
  std::optional<Model> f32;
  if (!options.reference.empty() && model.weights.dtype != DType::f32) {
    ModelOptions of_reference = options.model;
    of_reference.dtype = "f32";
    f32.emplace(open_model(of_reference, platform));
  }
  const ScoringModels models{&model, f32 ? &*f32 : &model};
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
  PplRun run(options, platform, models, *tokenizer, writer, facts);
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

}  // namespace

int run_ppl(const PplOptions& options) {
  std::optional<Platform> platform;
  return run_with(options, [&]() -> Platform& { return platform.emplace(open_platform(options.model)); });
}

int run_ppl(const PplOptions& options, Platform& platform) {
  return run_with(options, [&]() -> Platform& { return platform; });
}

}  // namespace attn
