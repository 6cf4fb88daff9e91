// Perplexity: teacher forcing over windows, every scored token once, the language-model head in blocks of
// rows.
#pragma once

#include <span>

#include "lib/eval/loss_sums.h"
#include "lib/eval/passage.h"
#include "lib/model/transformer.h"
#include "lib/text/tokenizer.h"

namespace attn {

// Rows of logits at a time: what bounds the memory of the head, whatever the context is.
inline constexpr int kScoreRows = 128;

// The room that scoring these passages needs: one sequence, the longest window, at most `logits_rows` rows.
RunShape scoring_shape(std::span<const Passage> passages, int logits_rows = kScoreRows);

// predict_memory() of that room and of what the scoring itself takes.
BytesByUse predict_scoring_memory(const ModelConfig& config, DType dtype, const RunShape& shape,
                                  const AttentionBackend& attention);

// Scores all windows of the passages with `attention`. `transformer` must have the shape that scoring_shape()
// gives or more; its cache is cleared. Losses are computed on the device in f64 and summed here in f64. The
// tokenizer only counts bytes and words. Throws what Transformer::reserve throws.
PerplexityResult score_perplexity(Transformer& transformer, AttentionBackend& attention,
                                  std::span<const Passage> passages, const Tokenizer& tokenizer,
                                  Estimator estimator, const ScoreHooks& hooks = {});

}  // namespace attn
