// attnlogits from options to records.
#include "apps/attnlogits/run.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "apps/attnlogits/dump.h"
#include "apps/attnlogits/record_case.h"
#include "apps/attnlogits/report.h"
#include "apps/interrupt.h"
#include "apps/progress.h"
#include "lib/results/environment.h"
#include "lib/results/writer.h"
#include "lib/tensor/dtype_names.h"

namespace attn {
namespace {

constexpr int kExceededExitCode = 1;
constexpr int kRowsAtOnce = 128;  // of logits

bool has_reference(const Platform& platform) {
  return std::any_of(platform.attention.begin(), platform.attention.end(),
                     [](const auto& backend) { return backend->name() == "reference"; });
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

// All prompts end to end, for the records of their totals.
LogitsPrompt joined(const std::vector<LogitsPrompt>& prompts) {
  LogitsPrompt all;
  all.label = fmt::format("all {} prompts", prompts.size());
  for (const LogitsPrompt& prompt : prompts) {
    all.ids.insert(all.ids.end(), prompt.ids.begin(), prompt.ids.end());
    all.all_tokens += prompt.all_tokens;
    all.notes.insert(all.notes.end(), prompt.notes.begin(), prompt.notes.end());
  }
  return all;
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
  std::vector<LogitsPrompt> prompts = make_prompts(options, config, tokenizer);
  const PositionChoice choice = parse_positions(options.positions);
  LogitsRunFacts facts;
  int longest = 0;
  for (LogitsPrompt& prompt : prompts) {
    const auto tokens = static_cast<std::int64_t>(prompt.ids.size());
    longest = std::max(longest, static_cast<int>(tokens));
    if (!options.dump.empty()) positions_of(choice, tokens);  // its complaint, before the work
    if (const auto warning = context_warning(config, static_cast<int>(tokens));
        warning && config.position == PositionKind::rotary) {
      fmt::print(stderr, "attnlogits: warning: {}\n", *warning);
      prompt.notes.push_back(*warning);
    }
  }
  ResultWriter writer(options.out, "attnlogits.jsonl");
  std::optional<LogitsDump> dump;
  if (!options.dump.empty()) dump.emplace(options.dump);

  Platform platform = open_platform(options.model);
  const Model model = open_model(options.model, platform);
  const DeviceInfo device = platform.device->info();
  const bool with_reference = has_reference(platform) && !options.without_reference;
  const std::vector<LogitsVariant> plan = plan_variants(options.modes, path, with_reference);
  std::vector<LogitsPair> totals = plan_pairs(plan, path);
  if (totals.empty()) {
    fail(ErrorKind::usage, "--mode {} alone has nothing to be compared with: name another mode too",
         options.modes.front());
  }
  LogitsReport report(options.format == "json");
  report.line(fmt::format(
      "model {} ({}), {}, {}: {}, {} threads, path {}", model.source.name,
      model.load.random ? fmt::format("random weights, seed {}", model.load.seed) : model.source.how,
      kDTypeNames.name(model.weights.dtype), device.spec, device.description, device.threads, options.path));
  if (!has_reference(platform)) {
    facts.notes.push_back(fmt::format(
        "the device {} has no reference attention; modes are compared with each other", device.spec));
    report.line("note: " + facts.notes.back());
  }
  facts.environment = environment_fields(
      {options.argv, device.description, device.threads, {{"matrix_products", device.libraries}}});
  if (dump) dump->begin(dump_header(model, platform, options.path));

  catch_interrupts();
  bool exceeded = false;
  double done = 0, total = 0;
  for (const LogitsPrompt& prompt : prompts)
    total += static_cast<double>(prompt.ids.size()) * static_cast<double>(plan.size());
  Progress progress(total);
  Transformer transformer(platform, model, {1, longest, longest, std::min(longest, kRowsAtOnce)});
  LogitsComparison comparison(transformer, plan.size(), totals.size());
  const auto report_pairs = [&](const LogitsPrompt& prompt, std::size_t count,
                                const std::vector<LogitsVariant>& variants,
                                const std::vector<LogitsPair>& pairs) {
    for (const LogitsPair& pair : pairs) {
      const LogitsVariant& base = variants[pair.base];
      const LogitsVariant& other = variants[pair.other];
      const ResultRecord record =
          make_record(options, platform, model, prompt, count, base, other, pair, interrupted(), facts);
      report.pair(base, other, pair, record);
      writer.append(record);
    }
  };
  for (const LogitsPrompt& prompt : prompts) {
    const int tokens = static_cast<int>(prompt.ids.size());
    std::vector<LogitsVariant> variants = plan_variants(options.modes, path, with_reference);
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
    comparison.add(prompt.ids, variants, pairs, totals, [] { return interrupted(); });
    if (dump && !interrupted()) dump->add(transformer, prompt, positions_of(choice, tokens), variants);
    progress.clear();
    report.prompt(prompt);
    report_pairs(prompt, 1, variants, pairs);
    for (const LogitsPair& pair : pairs) {
      for (const std::string& complaint : complaints(pair.divergence, options.thresholds)) {
        exceeded = true;
        fmt::print(stderr, "attnlogits: prompt \"{}\"{}, {} against {}: {}\n", prompt.label,
                   prompt.file.empty() ? "" : " (" + prompt.file + ")", variants[pair.other].text(),
                   variants[pair.base].text(), complaint);
      }
    }
    std::fflush(stdout);
    if (interrupted()) break;
  }
  if (!interrupted() && prompts.size() > 1) {
    const LogitsPrompt all = joined(prompts);
    report.all(prompts.size(), static_cast<std::int64_t>(all.ids.size()));
    report_pairs(all, prompts.size(), plan, totals);
  }
  report.finish();
  if (interrupted()) {
    fmt::print(stderr, "attnlogits: interrupted; {} is valid and holds what was compared\n",
               writer.path().string());
    return kInterruptedExitCode;
  }
  if (dump) dump->finish();
  report.line(fmt::format("\nrecords: {}", writer.path().string()));
  return exceeded ? kExceededExitCode : 0;
}

}  // namespace attn
