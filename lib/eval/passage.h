// Passage: one text as token ids, which of them are scored with what before them, and what they weigh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/enum_names.h"
#include "lib/text/tokenizer.h"
#include "lib/text/windows.h"

namespace attn {

// Of a text in the form that a protocol counts, which may not be the form that is encoded.
struct TextCounts {
  std::int64_t bytes = 0, words = 0;
};

struct Passage {
  std::string name;
  std::vector<TokenId> ids;
  std::vector<Window> windows;
  std::optional<TokenId> bos{};          // what windows with `bos` are fed first
  std::vector<double> window_weights{};  // Estimator::labels only: one a window
  // What counts as scored once the whole passage is; else window_counts has the counts of each window.
  std::optional<TextCounts> counts{};
  std::vector<TextCounts> window_counts{};
  std::string title{};  // for people, where one is known
};

// The ids that a window is fed, window.tokens() of them.
std::vector<TokenId> fed_ids(const Passage& passage, const Window& window);
// The same, written to `out`.
void write_fed_ids(const Passage& passage, const Window& window, TokenId* out);

// The row of logits that predicts the window's first scored token: that of the token before it, and BOS comes
// before all.
std::int64_t first_scored_row(const Window& window);

// Of the ids that each window scores: the bytes that they decode to, and the words (at ASCII white space)
// that begin in them; a text begins like after a space.
std::vector<TextCounts> count_scored_text(const Passage& passage, const Tokenizer& tokenizer);

// How the losses of the tokens become one number. tokens: every token weighs the same. passages: every
// passage does, however short. windows: every window does. labels: every window weighs the number of labels
// that the imitated program counts in it, which is not the number of losses.
enum class Estimator : unsigned char { tokens, passages, windows, labels };
inline constexpr auto kEstimatorNames = name_table<Estimator>({{Estimator::tokens, "tokens"},
                                                               {Estimator::passages, "passages"},
                                                               {Estimator::windows, "windows"},
                                                               {Estimator::labels, "labels"}});

}  // namespace attn
