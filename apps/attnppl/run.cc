// attnppl from options to records.
#include "apps/attnppl/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "apps/attnppl/record_case.h"
#include "apps/interrupt.h"
#include "apps/progress.h"
#include "lib/eval/protocols.h"
#include "lib/results/environment.h"
#include "lib/results/writer.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

constexpr int kNonfiniteExitCode = 1;
constexpr int kDefaultContext = 1024;
constexpr int kHfStride = 512;               // of the guide's script
constexpr int kLegacySamples = 128;          // of the recipe that legacy-rows imitates
constexpr double kLargeLogDifference = 0.5;  // and its threshold for a warning
constexpr std::size_t kPrintedDocuments = 16;

// Where nothing else is known (--tokenize-only without a config) windows do not matter.
PlanOptions plan_options(const PplOptions& options, Protocol protocol, const ModelConfig* config) {
  const ProtocolFacts& facts = facts_of(protocol);
  PlanOptions plan;
  plan.max_tokens = options.max_tokens;
  const int trained = config != nullptr ? config->max_positions : kDefaultContext;
  std::int64_t context = facts.context > 0 ? std::min<std::int64_t>(facts.context, trained) : trained;
  if (protocol == Protocol::full) context = std::min<std::int64_t>(context, kDefaultContext);
  if (is_legacy(protocol)) context = facts.context;
  plan.context = asked_context(options).value_or(static_cast<int>(context));
  if (protocol == Protocol::hf_strided) {
    plan.stride = options.stride.value_or(static_cast<int>(std::min<std::int64_t>(kHfStride, plan.context)));
  } else if (facts.strided) {
    plan.stride = options.stride.value_or(static_cast<int>(std::max<std::int64_t>(1, plan.context / 2)));
  } else {
    plan.stride = plan.context;
  }
  plan.max_samples = options.max_samples.value_or(protocol == Protocol::legacy_rows ? kLegacySamples : 0);
  if (!options.bos.empty()) plan.bos = kBosRuleNames.parse(options.bos, "--bos");
  // llama-perplexity asks the vocabulary whether it wants BOS: those of LLaMA do, those of GPT-2 and NeoX do
  // not.
  else if (protocol == Protocol::llama_cpp && config != nullptr && config->family == Family::llama)
    plan.bos = BosRule::each;
  if (!options.text.empty()) plan.text = kTextFormNames.parse(options.text, "--text");
  if (!options.average.empty()) plan.estimator = kEstimatorNames.parse(options.average, "--average");
  return plan;
}

// The protocols asked for. Beside a legacy one always stands the full protocol on the same texts.
std::vector<PplCase> make_cases(const PplOptions& options, const ModelConfig* config) {
  std::vector<PplCase> cases;
  const auto add = [&](Protocol protocol, const Dataset& dataset) -> PplCase& {
    PplCase& made = cases.emplace_back();
    made.protocol = protocol;
    made.dataset = dataset;
    made.plan_options = plan_options(options, protocol, config);
    check_plan_options(protocol, made.plan_options);  // before anything is written
    made.max_samples = made.plan_options.max_samples;
    return made;
  };
  for (const std::string& name : options.protocols) {
    const Protocol protocol = kProtocolNames.parse(name, "--protocol");
    Dataset dataset = find_dataset(options, protocol);
    if (protocol == Protocol::legacy_rows) dataset.max_lines = options.max_samples.value_or(kLegacySamples);
    // One file, whose samples are its lines; lm-eval counts pages.
    else if (options.dataset == "wikitext" && protocol != Protocol::lm_eval)
      dataset.max_lines = options.max_samples.value_or(0);
    PplCase& made = add(protocol, dataset);
    if (dataset.max_lines > 0 && protocol != Protocol::legacy_rows) made.plan_options.max_samples = 0;
    if (!is_legacy(protocol) || options.tokenize_only) continue;
    PplCase& beside = add(Protocol::full, dataset);
    if (protocol == Protocol::legacy_rows) beside.max_samples = dataset.max_lines;
    if (dataset.max_lines > 0) beside.plan_options.max_samples = 0;
  }
  return cases;
}

void read_texts(PplCase& ppl_case, const Tokenizer& tokenizer) {
  DatasetTexts texts(ppl_case.dataset);
  ppl_case.plan = make_plan(
      ppl_case.protocol, [&] { return texts.next(); }, tokenizer, ppl_case.plan_options);
  ppl_case.dataset_sha256 = texts.sha256();
}

void print_tokens(const PplCase& ppl_case) {
  const EvalPlan& plan = ppl_case.plan;
  const char* const unit = plan.text == TextForm::lines   ? "lines"
                           : plan.text == TextForm::pages ? "pages"
                                                          : "documents";
  fmt::print("data {}: {} of {} {} used, {} bytes, {} tokens, SHA-256 of the ids {}\n", ppl_case.dataset.name,
             plan.samples_used, plan.samples_seen, unit, plan.text_bytes, plan.tokens, plan.token_sha256);
}

int tokenize_only(std::vector<PplCase>& cases, const Tokenizer& tokenizer) {
  for (PplCase& ppl_case : cases) {
    read_texts(ppl_case, tokenizer);
    print_tokens(ppl_case);
    const EvalPlan& plan = ppl_case.plan;
    fmt::print(
        "tokens {}\nsha256 {}\nbytes {}\nMB/s {:.2f}\n", plan.tokens, plan.token_sha256, plan.text_bytes,
        plan.encode_seconds > 0 ? static_cast<double>(plan.text_bytes) / (plan.encode_seconds * 1e6) : 0.0);
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

void print_model(const Model& model, const Platform& platform) {
  const DeviceInfo device = platform.device->info();
  fmt::print("model {} ({}), {}, {}: {}, {} threads\n", model.source.name,
             model.load.random ? fmt::format("random weights, seed {}", model.load.seed) : model.source.how,
             kDTypeNames.name(model.weights.dtype), device.spec, device.description, device.threads);
}

void print_protocol(const PplCase& ppl_case) {
  const EvalPlan& plan = ppl_case.plan;
  const PlanOptions& options = ppl_case.plan_options;
  if (ppl_case.protocol == Protocol::legacy_rows) {
    fmt::print(
        "protocol legacy-rows: {} of {} lines used, each alone, at most {} tokens, mean of the lines' "
        "means\n",
        plan.samples_used, plan.samples_seen, options.context);
    return;
  }
  const ProtocolFacts& facts = facts_of(ppl_case.protocol);
  fmt::print(
      "protocol {}: {} windows of {} tokens{}, {} tokens scored{}, BOS {}, text {}, detokenizer {}, average "
      "over {}\n",
      kProtocolNames.name(ppl_case.protocol), plan.windows, options.context,
      facts.strided ? fmt::format(", stride {}", options.stride) : "", plan.tokens_scored,
      ppl_case.protocol == Protocol::full ? " once each" : "", kBosRuleNames.name(plan.bos),
      kTextFormNames.name(plan.text), facts.detokenizer, kEstimatorNames.name(plan.estimator));
}

PplModeResult score_mode(Platform& platform, const Model& model, const PplCase& ppl_case,
                         const Tokenizer& tokenizer, const std::string& mode,
                         const std::function<void(std::int64_t)>& fed) {
  PplModeResult result;
  result.mode = mode;
  try {
    AttentionBackend& attention = platform.backend(mode);
    const RunShape shape = scoring_shape(ppl_case.plan.passages);
    platform.device->reset_peaks();
    Transformer transformer(platform, model, shape);
    transformer.reserve(attention, {shape.step, shape.step});
    result.kernel = transformer.kernel_for(attention, {shape.step, shape.step});
    result.losses.reserve(static_cast<std::size_t>(ppl_case.plan.tokens_scored));
    ScoreHooks hooks;
    hooks.stop = [] { return interrupted(); };
    hooks.on_window = [&](const WindowLosses& window) {
      result.losses.insert(result.losses.end(), window.losses.begin(), window.losses.end());
      const Passage& passage = ppl_case.plan.passages[window.passage];
      fed(passage.windows[static_cast<std::size_t>(window.window)].tokens());
    };
    const auto start = std::chrono::steady_clock::now();
    result.score = score_perplexity(transformer, attention, ppl_case.plan.passages, tokenizer,
                                    ppl_case.plan.estimator, hooks);
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result.memory = read_memory(*platform.device,
                                predict_scoring_memory(model.config, model.weights.dtype, shape, attention));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory && error.kind() != ErrorKind::unsupported) throw;
    result.failure = error.what();
    result.failure_kind = error.kind();
  }
  return result;
}

std::string shown(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

void print_header() {
  fmt::print("{:<10} {:>14} {:>10} {:>12} {:>12} {:>10} {:>10} {:>9} {:>10} {:>10}\n", "mode", "perplexity",
             "std error", "ln ppl", "per word", "per byte", "bits/byte", "scored", "tokens/s", "peak MiB");
}

void print_result(const PplModeResult& result) {
  if (!result.failure.empty()) {
    fmt::print("{:<10} {}: {}\n", result.mode, name(result.failure_kind), result.failure);
    return;
  }
  const PerplexityResult& score = result.score;
  if (score.nonfinite) {
    fmt::print("{:<10} nonfinite: {}\n", result.mode, score.nonfinite->text());
    return;
  }
  fmt::print("{:<10} {:>14} {:>10} {:>12} {:>12} {:>10} {:>10} {:>9} {:>10.0f} {:>10.2f}{}\n", result.mode,
             shown(score.perplexity, 6), shown(score.bootstrap_error, 4), shown(score.log_perplexity, 8),
             shown(score.word_perplexity, 4), shown(score.byte_perplexity, 6), shown(score.bits_per_byte, 6),
             score.tokens_scored,
             result.seconds > 0 ? static_cast<double>(score.tokens_scored) / result.seconds : 0.0,
             static_cast<double>(result.memory.peak_bytes) / (1 << 20),
             score.stopped ? "  (interrupted)" : "");
  if (score.estimator != Estimator::tokens && score.token_log_perplexity)
    fmt::print("{:<10} {:>14.6f}   the same tokens, each with the same weight\n", "",
               std::exp(*score.token_log_perplexity));
}

void print_documents(const PplModeResult& result) {
  const auto& passages = result.score.passages;
  if (result.score.estimator == Estimator::passages || passages.size() < 2 ||
      passages.size() > kPrintedDocuments)
    return;
  for (const PassageScore& passage : passages) {
    fmt::print("{:<10} {:>14.6f}   {} ({} tokens scored)\n", "",
               std::exp(passage.nll_sum / static_cast<double>(passage.tokens_scored)), passage.name,
               passage.tokens_scored);
  }
}

void print_difference(const PplModeResult& result, const ModeDifference& difference) {
  fmt::print("|ln ppl {} - ln ppl {}| = {:.3e}; largest difference of a token's loss {:.3e}\n", result.mode,
             difference.against, difference.log_ppl_diff, difference.max_loss_diff);
  if (difference.log_ppl_diff > kLargeLogDifference)
    fmt::print(stderr,
               "attnppl: warning: the perplexities of {} and {} differ by more than a factor of e^{}\n",
               result.mode, difference.against, kLargeLogDifference);
}

// The object that system B's compute_ppl prints.
void print_system_b(const PplOptions& options, const Model& model, const PplCase& ppl_case,
                    const std::vector<PplModeResult>& results) {
  const bool both = options.modes == std::vector<std::string>{"baseline", "flash"};
  Fields object{{"model_name", model.source.name},
                {"dataset", ppl_case.dataset.name},
                {"mode", both ? "both" : fmt::format("{}", fmt::join(options.modes, ","))}};
  for (const PplModeResult& result : results) {
    if (result.ok()) object[result.mode] = system_b_fields(ppl_case, result);
  }
  if (results.size() > 1) {
    if (const auto diff = difference(results[1], results[0])) object["log_ppl_diff"] = diff->log_ppl_diff;
  }
  fmt::print("{}\n", to_json(object));
}

// The exit code of a result, 0 if all is well.
int exit_code_of(const PplModeResult& result) {
  if (!result.failure.empty()) return exit_code(result.failure_kind);
  return result.ok() || result.score.stopped ? 0 : kNonfiniteExitCode;
}

}  // namespace

int run_ppl(PplOptions options) {
  PplRunFacts facts;
  facts.notes = settle(options);
  const ModelSource source = find_model(model_name(options.model));
  for (const std::string& note : facts.notes) fmt::print("note: {}\n", note);
  if (options.tokenize_only) {
    std::vector<PplCase> cases = make_cases(options, nullptr);
    return tokenize_only(cases, *require_tokenizer(source));
  }

  const ModelConfig config = source_config(source);
  std::vector<PplCase> cases = make_cases(options, &config);
  const auto tokenizer = require_tokenizer(source);
  if (tokenizer->vocab_size() > config.vocab) {
    fail(ErrorKind::bad_input,
         "{}: the tokenizer has {} ids, but the model's embedding has {} rows; they do not belong together",
         source.dir->string(), tokenizer->vocab_size(), config.vocab);
  }
  ResultWriter writer(options.out, "attnppl.jsonl");
  double to_feed = 0;
  for (PplCase& ppl_case : cases) {
    read_texts(ppl_case, *tokenizer);
    if (ppl_case.plan.tokens_scored == 0) {
      fail(ErrorKind::bad_input, "data set {}: no text of two tokens or more, so there is nothing to score",
           ppl_case.dataset.name);
    }
    to_feed += static_cast<double>(ppl_case.plan.tokens_fed) * static_cast<double>(options.modes.size());
    const int longest = scoring_shape(ppl_case.plan.passages).step;
    if (const auto warning = context_warning(config, longest);
        warning && config.position == PositionKind::rotary) {
      fmt::print(stderr, "attnppl: warning: {}\n", *warning);
      facts.notes.push_back(*warning);
    }
  }

  Platform platform = open_platform(options.model);
  const Model model = open_model(options.model, platform);
  print_model(model, platform);
  const DeviceInfo device = platform.device->info();
  facts.environment = environment_fields(
      {options.argv, device.description, device.threads, {{"matrix_products", device.libraries}}});

  catch_interrupts();
  Progress progress(to_feed);
  double fed = 0;
  int worst = 0;
  for (const PplCase& ppl_case : cases) {
    progress.clear();
    print_tokens(ppl_case);
    print_protocol(ppl_case);
    print_header();
    std::fflush(stdout);
    std::vector<PplModeResult> results;
    for (const std::string& mode : options.modes) {
      results.push_back(score_mode(platform, model, ppl_case, *tokenizer, mode, [&](std::int64_t tokens) {
        fed += static_cast<double>(tokens);
        progress.update(fed, mode);
      }));
      const PplModeResult& result = results.back();
      const auto diff = results.size() > 1 ? difference(result, results.front()) : std::nullopt;
      writer.append(make_record(options, platform, model, ppl_case, result, diff, facts));
      progress.clear();
      print_result(result);
      print_documents(result);
      if (diff) print_difference(result, *diff);
      std::fflush(stdout);
      worst = std::max(worst, exit_code_of(result));
      if (interrupted()) {
        fmt::print(stderr, "attnppl: interrupted; {} is valid and holds what was scored\n",
                   writer.path().string());
        return kInterruptedExitCode;
      }
    }
    if (is_legacy(ppl_case.protocol)) print_system_b(options, model, ppl_case, results);
  }
  fmt::print("records: {}\n", writer.path().string());
  return worst;
}

}  // namespace attn
