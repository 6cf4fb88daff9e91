// Passage: one text as token ids, which of them are scored with what before them, and what they weigh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/enum_names.h"
#include "lib/text/token.h"
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
  // What counts as scored once the whole passage is; else the bytes and words of the scored ids are counted.
  std::optional<TextCounts> counts{};
};

// The ids that a window is fed, window.tokens() of them.
std::vector<TokenId> fed_ids(const Passage& passage, const Window& window);

// How the losses of the tokens become one number. tokens: every token weighs the same. passages: every
// passage does, however short. windows: every window does. labels: every window weighs the number of labels
// that the imitated program counts in it, which is not the number of losses.
enum class Estimator : unsigned char { tokens, passages, windows, labels };
inline constexpr auto kEstimatorNames = name_table<Estimator>({{Estimator::tokens, "tokens"},
                                                               {Estimator::passages, "passages"},
                                                               {Estimator::windows, "windows"},
                                                               {Estimator::labels, "labels"}});

}  // namespace attn
