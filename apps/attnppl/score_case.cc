// Memory for the variants, the run, and what it came to.
#include "apps/attnppl/score_case.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>

namespace attn {
namespace {

constexpr std::int64_t kAutoTokens =
    8192;                           // of a batch: matrix products of so many rows are at their ceiling
constexpr double kFreeShare = 0.9;  // of the memory that is free

bool is_refusal(const Error& error) {
  return error.kind() == ErrorKind::out_of_memory || error.kind() == ErrorKind::unsupported;
}

void fail_with(PplVariantResult& result, const Error& error) {
  result.failure = error.what();
  result.failure_kind = error.kind();
}

class CaseScorer {
 public:
  CaseScorer(Platform& platform, const ScoringModels& models, const PplCase& ppl_case,
             const ScoringPlan& plan)
      : platform_(platform), models_(models), ppl_case_(ppl_case), plan_(plan) {
    for (const PplVariant& variant : plan.variants) result_.variants.emplace_back().variant = variant;
  }

  PplCaseResult run(std::optional<int> batch_size, CaseText& text, const ScoreHooks& hooks) {
    platform_.device->reset_peaks();
    if (batch_size) {
      prepare(*batch_size);
    } else {
      int batch = auto_batch();
      while (!prepare(batch) && batch > 1) batch /= 2;
    }
    if (scorer_ != nullptr) {
      const ScoreRun run = score_run(
          *scorer_, [&] { return text.next(); }, text.settings().estimator, hooks);
      take(run);
    }
    result_.text = text.finish();
    return std::move(result_);
  }

 private:
  const Model& model_of(const PplVariant& variant) const {
    return variant.reference ? *models_.reference : *models_.model;
  }
  ScoringRoom room(int batch) const {
    return ScoringRoom::of(*platform_.device, models_.model->config, batch, ppl_case_.plan_options.context);
  }
  // On the host each window is fed alone, at its own length: filling up would only cost time, and the figures
  // are the same bits whatever the batch is.
  int sequences(int batch) const { return platform_.device->records() ? batch : 1; }

  using Takes = std::function<bool(const PplVariantResult&)>;

  // Of the variants that `takes` takes.
  BytesByUse predicted(int batch, const Takes& takes) const {
    BytesByUse bytes{};
    for (const bool reference : {false, true}) {
      std::vector<PlannedVariant> variants;
      for (const PplVariantResult& result : result_.variants) {
        if (takes(result) && result.variant.reference == reference)
          variants.push_back({&platform_.backend(result.variant.mode), result.variant.path});
      }
      if (variants.empty()) continue;
      const Model& model = reference ? *models_.reference : *models_.model;
      const BytesByUse part =
          predict_scoring_memory(model.config, model.weights.dtype, room(batch), sequences(batch), variants,
                                 reference ? 0 : plan_.pairs.size());
      const bool shared = reference && models_.reference == models_.model;
      for (std::size_t use = 0; use < bytes.size(); ++use) {
        if (shared && use == static_cast<std::size_t>(MemoryUse::weights)) continue;
        bytes[use] += part[use];
      }
    }
    return bytes;
  }

  int auto_batch() const {
    const DeviceInfo info = platform_.device->info();
    const int tokens = room(1).tokens;
    if (!platform_.device->records()) return 1;
    int batch = static_cast<int>(std::max<std::int64_t>(1, kAutoTokens / tokens));
    const auto fits = [&](int windows, const Takes& takes) {
      const BytesByUse bytes = predicted(windows, takes);
      const std::size_t weights = bytes[static_cast<std::size_t>(MemoryUse::weights)];  // are there already
      const auto more =
          static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}) - weights);
      return more <= kFreeShare * static_cast<double>(info.free_bytes);
    };
    // What cannot run at all, or not even window by window, does not make the others' batches smaller.
    const auto can_run = [&](const PplVariantResult& result) {
      const ModelConfig& config = model_of(result.variant).config;
      const AttentionProblem problem{1,
                                     tokens,
                                     tokens,
                                     config.q_heads,
                                     config.kv_heads,
                                     config.head_dim,
                                     model_of(result.variant).weights.dtype,
                                     config.attention_scale(0),
                                     true};
      if (platform_.backend(result.variant.mode).why_not(problem)) return false;
      return fits(1, [&](const PplVariantResult& other) { return &other == &result; });
    };
    std::set<const PplVariantResult*> running;
    for (const PplVariantResult& result : result_.variants) {
      if (can_run(result)) running.insert(&result);
    }
    const Takes runs = [&](const PplVariantResult& result) { return running.count(&result) > 0; };
    while (batch > 1 && info.free_bytes > 0 && !fits(batch, runs)) batch /= 2;
    return batch;
  }

  // Takes the memory. False: there is not enough for what all variants share; then they have failed, until it
  // is called again.
  bool prepare(int batch) {
    scorer_.reset();
    transformers_.clear();
    for (PplVariantResult& result : result_.variants) result.failure.clear();
    result_.batch = batch;
    try {
      take_memory(batch);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      scorer_.reset();
      transformers_.clear();
      for (PplVariantResult& result : result_.variants) {
        if (result.ran()) fail_with(result, error);
      }
      return false;
    }
    return true;
  }

  void take_memory(int batch) {
    const ScoringRoom room = this->room(batch);
    std::vector<ScoredVariant> variants;
    places_.clear();
    for (std::size_t i = 0; i < result_.variants.size(); ++i) {
      PplVariantResult& result = result_.variants[i];
      AttentionBackend& attention = platform_.backend(result.variant.mode);
      auto& transformer = transformers_[result.variant.reference];
      if (transformer == nullptr)
        transformer =
            std::make_unique<Transformer>(platform_, model_of(result.variant), room.shape(sequences(batch)));
      try {
        reserve_scoring(*transformer, attention, result.variant.path, room);
      } catch (const Error& error) {
        if (!is_refusal(error)) throw;
        fail_with(result, error);
        continue;
      }
      places_.push_back(i);
      variants.push_back({transformer.get(), &attention, result.variant.path});
    }
    if (variants.empty()) return;
    std::vector<VariantPair> pairs;
    planned_pairs_.clear();
    for (const VariantPair& pair : plan_.pairs) {
      const auto place = [&](std::size_t variant) {
        return static_cast<std::size_t>(std::find(places_.begin(), places_.end(), variant) - places_.begin());
      };
      if (place(pair.base) == places_.size() || place(pair.other) == places_.size()) continue;
      pairs.push_back({place(pair.base), place(pair.other)});
      planned_pairs_.push_back(pair);
    }
    scorer_ = std::make_unique<WindowScorer>(std::move(variants), std::move(pairs), room);
  }

  void take(const ScoreRun& run) {
    result_.longest = scorer_->longest();
    const int longest = static_cast<int>(result_.longest);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      PplVariantResult& result = result_.variants[places_[i]];
      result.score = run.variants[i].perplexity;
      result.seconds = run.variants[i].seconds;
      const ScoredVariant& variant = scorer_->variants()[i];
      if (longest > 0) {
        const int fed = variant.path == ForwardPath::decode ? 1 : longest;
        result.kernel = variant.transformer->kernel_for(*variant.attention, {fed, longest});
      }
    }
    for (std::size_t i = 0; i < planned_pairs_.size(); ++i)
      result_.pairs.push_back({planned_pairs_[i].base, planned_pairs_[i].other, run.pairs[i]});
    result_.seconds = run.seconds;
    result_.compared_seconds = run.compared_seconds;
    result_.flops = run.flops;
    result_.stopped = run.stopped;
    result_.source_error = run.source_error;
    result_.nonfinite = run.nonfinite;
    if (result_.nonfinite) result_.nonfinite->variant = places_[run.nonfinite->variant];
    result_.memory =
        read_memory(*platform_.device,
                    predicted(result_.batch, [](const PplVariantResult& result) { return result.ran(); }));
  }

  Platform& platform_;
  const ScoringModels& models_;
  const PplCase& ppl_case_;
  const ScoringPlan& plan_;
  PplCaseResult result_;
  std::map<bool, std::unique_ptr<Transformer>> transformers_;  // [reference]
  std::vector<std::size_t> places_;                            // [of the scorer]: place in the plan
  std::vector<VariantPair> planned_pairs_;                     // of the scorer's pairs, in places of the plan
  std::unique_ptr<WindowScorer> scorer_;
};

}  // namespace

std::optional<std::string> count_published_words(PplCaseResult& result, const PplCase& ppl_case) {
  const auto words = result.text.published_words;
  if (!words) return std::nullopt;
  const std::string_view split = kPg19SplitNames.name(*ppl_case.dataset.pg19_split);
  if (ppl_case.protocol != Protocol::full || result.text.settings.text != TextForm::as_is ||
      ppl_case.plan_options.max_tokens > 0 || !result.complete()) {
    return fmt::format(
        "the published {} words of PG-19's {} split are not used: they are of whole books, as protocol full "
        "scores them; words are counted",
        *words, split);
  }
  result.published_words = true;
  for (PplVariantResult& variant : result.variants) {
    PerplexityResult& score = variant.score;
    score.words_scored = *words;
    const double word_perplexity = std::exp(score.nll_sum / static_cast<double>(*words));
    score.word_perplexity.reset();
    if (variant.ok() && std::isfinite(word_perplexity)) score.word_perplexity = word_perplexity;
  }
  return fmt::format("word perplexity is over the published {} words of PG-19's {} split", *words, split);
}

bool PplCaseResult::any_ran() const {
  return std::any_of(variants.begin(), variants.end(),
                     [](const PplVariantResult& variant) { return variant.ran(); });
}

PplCaseResult score_case(Platform& platform, const ScoringModels& models, const PplCase& ppl_case,
                         const ScoringPlan& plan, std::optional<int> batch_size, CaseText& text,
                         const ScoreHooks& hooks) {
  return CaseScorer(platform, models, ppl_case, plan).run(batch_size, text, hooks);
}

}  // namespace attn
