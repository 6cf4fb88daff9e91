// The loop of a generation.
#include "lib/model/generate.h"

#include "lib/core/error.h"

namespace attn {

std::vector<Reservation> generation_calls(const AttentionBackend& attention, int prompt_tokens,
                                          int new_tokens) {
  std::vector<Reservation> calls{{prompt_tokens, prompt_tokens}};
  const int capacity = prompt_tokens + new_tokens;
  for (int keys = prompt_tokens + 1; keys < capacity; keys = calls.back().kv_len + 1)
    calls.push_back({1, attention.recorded_keys(keys, capacity)});
  return calls;
}

Generator::Generator(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> prompt,
                     int new_tokens, const SamplingConfig& sampling, PrefillLaunch prefill)
    : transformer_(transformer),
      attention_(attention),
      sampling_(sampling),
      batch_(static_cast<std::size_t>(transformer.shape().batch)),
      steps_(static_cast<std::size_t>(new_tokens)),
      calls_(generation_calls(attention, static_cast<int>(prompt.size()), new_tokens)) {
  if (prompt.empty()) fail(ErrorKind::bad_input, "the prompt has no tokens");
  prompts_.reserve(batch_ * prompt.size());
  for (std::size_t row = 0; row < batch_; ++row)
    prompts_.insert(prompts_.end(), prompt.begin(), prompt.end());
  Device& device = *transformer.platform().device;
  if (prefill == PrefillLaunch::graph) {
    const TensorView ids = transformer.upload_ids(prompts_);
    prefill_ = device.capture([this, ids] { pick_after(transformer_.record_prompt(ids, attention_)); });
  }
  for (std::size_t i = 1; i < calls_.size(); ++i) {
    decode_.push_back(device.capture([this, keys = calls_[i].kv_len] {
      pick_after(transformer_.record(transformer_.next_ids(), attention_, keys));
    }));
  }
}

void Generator::pick_after(const TensorView& hidden) {
  const TensorView logits = transformer_.logits(transformer_.last_rows(hidden));
  transformer_.platform().ops->pick_token(
      logits, sampling_, transformer_.past_len(),
      transformer_.next_ids().reshaped({static_cast<std::int64_t>(batch_)}));
}

Generation Generator::run() {
  Device& device = *transformer_.platform().device;
  const TensorView& next = transformer_.next_ids();
  std::vector<TokenId> new_ids(steps_ * batch_);  // [step][batch]
  const auto stopwatch = device.make_stopwatch();
  const auto hand_out = [&](std::size_t step) {
    device.download_later(&new_ids[step * batch_], next.data, next.bytes());
    stopwatch->mark();
  };

  transformer_.clear();
  device.synchronize();
  stopwatch->start();
  const TensorView ids = transformer_.upload_ids(prompts_);
  if (prefill_ != nullptr) {
    prefill_->replay();
    transformer_.replayed(static_cast<int>(ids.extent(1)));
  } else {
    pick_after(transformer_.forward(ids, attention_));
  }
  hand_out(0);
  std::size_t range = 0;
  for (std::size_t step = 1; step < steps_; ++step) {
    if (transformer_.length() + 1 > calls_[range + 1].kv_len) ++range;
    decode_[range]->replay();
    transformer_.replayed(1);
    hand_out(step);
  }

  Generation out;
  out.token_ms = stopwatch->milliseconds();
  out.ids.resize(batch_);
  for (std::size_t step = 0; step < steps_; ++step) {
    for (std::size_t row = 0; row < batch_; ++row) out.ids[row].push_back(new_ids[step * batch_ + row]);
  }
  return out;
}

Generation generate(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> prompt,
                    int new_tokens, const SamplingConfig& sampling) {
  return Generator(transformer, attention, prompt, new_tokens, sampling).run();
}

}  // namespace attn
