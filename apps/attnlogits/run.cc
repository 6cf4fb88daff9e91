// attnlogits from options to records.
#include "apps/attnlogits/run.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "apps/attnlogits/dump.h"
#include "apps/attnlogits/record_case.h"
#include "apps/interrupt.h"
#include "apps/progress.h"
#include "lib/eval/perplexity.h"
#include "lib/results/environment.h"
#include "lib/results/writer.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

constexpr int kExceededExitCode = 1;

bool has_reference(const Platform& platform) {
  return std::any_of(platform.attention.begin(), platform.attention.end(),
                     [](const auto& backend) { return backend->name() == "reference"; });
}

void print_header() {
  fmt::print("{:<38} {:>11} {:>11} {:>11} {:>11} {:>10} {:>10}\n", "", "max diff", "mean diff", "max KL",
             "mean KL", "agreement", "nonfinite");
}

void print_pair(const LogitsVariant& base, const LogitsVariant& other, const Divergence& d) {
  const std::string nonfinite =
      d.first_nonfinite_position ? fmt::format("at {}", *d.first_nonfinite_position) : "none";
  const std::string pair = fmt::format("  {} vs {}", other.text(), base.text());
  if (d.rows == 0) {
    fmt::print("{:<38} {:>11} {:>11} {:>11} {:>11} {:>10} {:>10}\n", pair, "-", "-", "-", "-", "-",
               nonfinite);
    return;
  }
  fmt::print("{:<38} {:>11.3e} {:>11.3e} {:>11.3e} {:>11.3e} {:>9.2f}% {:>10}\n", pair, d.max_diff,
             d.mean_diff(), d.max_kl, d.mean_kl(), 100 * d.argmax_agreement(), nonfinite);
}

std::string dump_header(const Model& model, const Platform& platform, const std::string& path) {
  std::string header = to_json(Fields{{"schema", "attnlogits-dump/1"},
                                      {"model", model.source.name},
                                      {"random_weights", model.load.random},
                                      {"seed", model.load.seed},
                                      {"device", platform.device->info().spec},
                                      {"dtype", kDTypeNames.name(model.weights.dtype)},
                                      {"path", path}});
  header.pop_back();  // its closing brace
  return header;
}

}  // namespace

int run_logits(const LogitsOptions& options) {
  check(options);
  const ForwardPath path = kForwardPathNames.parse(options.path, "--path");
  const ModelSource source = find_model(model_name(options.model));
  const ModelConfig config = source_config(source);
  std::unique_ptr<Tokenizer> loaded;
  const auto tokenizer = [&]() -> const Tokenizer& {
    if (!loaded) {
      if (!source.dir) {
        fail(ErrorKind::bad_input,
             "{}: no tokenizer of this model is on this machine, so a text cannot be used; give --ids 1,2,3, "
             "or fetch "
             "it with tools/fetch_model {}",
             source.name, source.name);
      }
      loaded = load_tokenizer(*source.dir);
      if (loaded->vocab_size() > config.vocab) {
        fail(ErrorKind::bad_input,
             "{}: the tokenizer has {} ids, but the model's embedding has {} rows; they do not belong "
             "together",
             source.dir->string(), loaded->vocab_size(), config.vocab);
      }
    }
    return *loaded;
  };
  const std::vector<LogitsPrompt> prompts = make_prompts(options, config, tokenizer);
  const PositionChoice choice = parse_positions(options.positions);
  LogitsRunFacts facts;
  for (const LogitsPrompt& prompt : prompts) {
    const auto tokens = static_cast<std::int64_t>(prompt.ids.size());
    if (!options.dump.empty()) positions_of(choice, tokens);  // its complaint, before the work
    if (const auto warning = context_warning(config, static_cast<int>(tokens));
        warning && config.position == PositionKind::rotary) {
      fmt::print(stderr, "attnlogits: warning: {}\n", *warning);
      facts.notes.push_back(*warning);
    }
  }
  ResultWriter writer(options.out, "attnlogits.jsonl");
  std::optional<LogitsDump> dump;
  if (!options.dump.empty()) dump.emplace(options.dump);

  Platform platform = open_platform(options.model);
  const Model model = open_model(options.model, platform);
  const DeviceInfo device = platform.device->info();
  fmt::print("model {} ({}), {}, {}: {}, {} threads, path {}\n", model.source.name,
             model.load.random ? fmt::format("random weights, seed {}", model.load.seed) : model.source.how,
             kDTypeNames.name(model.weights.dtype), device.spec, device.description, device.threads,
             options.path);
  if (!has_reference(platform)) {
    facts.notes.push_back(fmt::format(
        "the device {} has no reference attention; modes are compared with each other", device.spec));
    fmt::print("note: {}\n", facts.notes.back());
  }
  facts.environment = environment_fields(
      {options.argv, device.description, device.threads, {{"matrix_products", device.libraries}}});
  if (dump) dump->begin(dump_header(model, platform, options.path));

  catch_interrupts();
  bool exceeded = false;
  double done = 0, total = 0;
  for (const LogitsPrompt& prompt : prompts) {
    total += static_cast<double>(prompt.ids.size()) *
             static_cast<double>(plan_variants(options.modes, path, has_reference(platform)).size());
  }
  Progress progress(total);
  for (const LogitsPrompt& prompt : prompts) {
    const int tokens = static_cast<int>(prompt.ids.size());
    std::vector<LogitsVariant> variants = plan_variants(options.modes, path, has_reference(platform));
    Transformer transformer(platform, model, {1, tokens, tokens, std::min(tokens, kScoreRows)});
    for (LogitsVariant& variant : variants) {
      if (interrupted()) break;
      progress.update(done, variant.text());
      AttentionBackend& attention = platform.backend(variant.mode);
      variant.kernel =
          transformer.kernel_for(attention, {variant.path == ForwardPath::decode ? 1 : tokens, tokens});
      variant.states = final_states(transformer, attention, prompt.ids, variant.path);
      done += tokens;
    }
    if (interrupted()) break;
    std::vector<LogitsPair> pairs = plan_pairs(variants, path);
    compare_variants(transformer, variants, pairs, [] { return interrupted(); });
    if (dump && !interrupted()) dump->add(transformer, prompt, positions_of(choice, tokens), variants);
    progress.clear();
    fmt::print("\n\"{}\"{}: {} tokens{}\n", prompt.label, prompt.file.empty() ? "" : " (" + prompt.file + ")",
               tokens,
               prompt.all_tokens > tokens ? fmt::format(" of {} (--max-length)", prompt.all_tokens) : "");
    print_header();
    for (const LogitsPair& pair : pairs) {
      const LogitsVariant& base = variants[pair.base];
      const LogitsVariant& other = variants[pair.other];
      print_pair(base, other, pair.divergence);
      writer.append(
          make_record(options, platform, model, prompt, base, other, pair.divergence, interrupted(), facts));
      for (const std::string& complaint : complaints(pair.divergence, options.thresholds)) {
        exceeded = true;
        fmt::print(stderr, "attnlogits: prompt \"{}\", {} against {}: {}\n", prompt.label, other.text(),
                   base.text(), complaint);
      }
    }
    std::fflush(stdout);
    if (interrupted()) break;
  }
  if (interrupted()) {
    fmt::print(stderr, "attnlogits: interrupted; {} is valid and holds what was compared\n",
               writer.path().string());
    return kInterruptedExitCode;
  }
  if (dump) dump->finish();
  fmt::print("\nrecords: {}\n", writer.path().string());
  return exceeded ? kExceededExitCode : 0;
}

}  // namespace attn
