// Each function follows the loop of the program that it names; sources are in docs/perplexity.md.
#include "lib/eval/protocol_windows.h"

#include <algorithm>

#include "lib/core/error.h"

namespace attn {
namespace {

std::int64_t count_of(const Passage& passage) { return static_cast<std::int64_t>(passage.ids.size()); }

// A window planned over BOS and the ids after it, in terms of the ids alone.
Window without_bos(Window window) {
  window.bos = window.begin == 0;
  window.begin = std::max<std::int64_t>(0, window.begin - 1);
  --window.end;
  --window.first_scored;
  return window;
}

// Every id once. With BOS in each window, it takes one place of the context.
void plan_full(Passage& passage, std::int64_t context, std::int64_t stride, BosRule bos) {
  const std::int64_t count = count_of(passage);
  if (bos != BosRule::each) {
    passage.windows = plan_windows(count + (bos == BosRule::first ? 1 : 0), context, stride);
    if (bos == BosRule::none) return;
    for (Window& window : passage.windows) window = without_bos(window);
    return;
  }
  const std::int64_t room = context - 1;
  const std::int64_t kept = std::max<std::int64_t>(0, room - stride);
  for (std::int64_t scored = 0; scored < count;) {
    const std::int64_t begin = scored == 0 ? 0 : scored - kept;
    const std::int64_t end = std::min(begin + room, count);
    passage.windows.push_back({begin, end, scored, true});
    scored = end;
  }
}

// Windows begin at multiples of the stride. The labels of a window are the ids after the end of the one
// before, but its first id never has a loss; its weight is the number of labels less one either way.
void plan_hf_strided(Passage& passage, std::int64_t context, std::int64_t stride, BosRule bos) {
  const bool with_bos = bos == BosRule::first;
  const std::int64_t count = count_of(passage) + (with_bos ? 1 : 0);
  std::int64_t before = 0;
  for (std::int64_t begin = 0; begin < count; begin += stride) {
    const std::int64_t end = std::min(begin + context, count);
    const Window window{begin, end, std::max(begin + 1, before)};
    if (window.scored() > 0) {
      passage.windows.push_back(with_bos ? without_bos(window) : window);
      passage.window_weights.push_back(static_cast<double>(end - before - 1));
    }
    before = end;
    if (end == count) break;
  }
}

// Full windows follow each other with one id of context; the last, short one is filled up with ids before it.
void plan_lm_eval(Passage& passage, std::int64_t context, std::int64_t /*stride*/, BosRule /*bos*/) {
  const std::int64_t count = count_of(passage);
  if (count == 0) return;
  passage.windows.push_back({0, std::min(context, count), 0, true, true});
  for (std::int64_t scored = context; scored < count; scored += context) {
    const std::int64_t end = std::min(scored + context, count);
    const std::int64_t begin = end - scored == context ? scored - 1 : end - context - 1;
    passage.windows.push_back({begin, end, scored, false, true});
  }
}

// Chunks without overlap, the first id of each replaced by BOS where there is one, the second half scored
// without its first id. What is left after the last whole chunk is dropped.
void plan_llama_cpp(Passage& passage, std::int64_t context, std::int64_t /*stride*/, BosRule bos) {
  const std::int64_t shift = bos == BosRule::each ? 1 : 0;  // BOS also stands before the whole text
  const std::int64_t count = count_of(passage) + shift;
  if (count < 2 * context) {
    fail(
        ErrorKind::bad_input,
        "protocol llama.cpp needs {} tokens (two chunks of the context), and the text has {}; give a smaller "
        "--context or a longer text",
        2 * context, count);
  }
  for (std::int64_t chunk = 0; chunk + context <= count; chunk += context) {
    const std::int64_t first_scored = chunk + context / 2 + 1 - shift;
    passage.windows.push_back({chunk, chunk + context - shift, first_scored, shift == 1});
  }
}

void plan_legacy_rows(Passage& passage, std::int64_t context, std::int64_t /*stride*/, BosRule /*bos*/) {
  passage.ids.resize(std::min(passage.ids.size(), static_cast<std::size_t>(context)));
  if (passage.ids.size() < 2) passage.ids.clear();
  if (!passage.ids.empty()) passage.windows.push_back({0, count_of(passage), 1});
}

// As hf_strided, but every window after the first has `stride` labels, also the last, which so scores ids
// that the window before has scored; a window's weight is the number of its labels.
void plan_legacy_window(Passage& passage, std::int64_t context, std::int64_t stride, BosRule /*bos*/) {
  const std::int64_t count = count_of(passage);
  for (std::int64_t begin = 0; begin < count - 1; begin += stride) {
    const std::int64_t end = std::min(begin + context, count);
    const std::int64_t labels = begin == 0 ? end : std::min(stride, end - begin);
    passage.windows.push_back({begin, end, std::max(begin + 1, end - labels)});
    passage.window_weights.push_back(static_cast<double>(labels));
    if (end == count) break;
  }
}

}  // namespace

void plan_passage(Protocol protocol, Passage& passage, std::int64_t context, std::int64_t stride,
                  BosRule bos) {
  switch (protocol) {
    case Protocol::full: return plan_full(passage, context, stride, bos);
    case Protocol::hf_strided: return plan_hf_strided(passage, context, stride, bos);
    case Protocol::lm_eval: return plan_lm_eval(passage, context, stride, bos);
    case Protocol::llama_cpp: return plan_llama_cpp(passage, context, stride, bos);
    case Protocol::legacy_rows: return plan_legacy_rows(passage, context, stride, bos);
    case Protocol::legacy_window: return plan_legacy_window(passage, context, stride, bos);
  }
  fail(ErrorKind::internal, "no windows for protocol {}", static_cast<int>(protocol));
}

}  // namespace attn
