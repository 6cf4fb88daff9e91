// The options of each protocol.
#include "apps/attnppl/cases.h"

#include <algorithm>

namespace attn {
namespace {

constexpr int kDefaultContext = 1024;
constexpr int kHfStride = 512;       // of the guide's script
constexpr int kLegacySamples = 128;  // of the recipe that legacy-rows imitates

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

}  // namespace

bool is_legacy(Protocol protocol) {
  return protocol == Protocol::legacy_rows || protocol == Protocol::legacy_window;
}

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
    else if (is_wikitext(options.dataset) && protocol != Protocol::lm_eval)
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

}  // namespace attn
