// The loop of a generation.
#include "lib/model/generate.h"

#include "lib/core/error.h"

namespace attn {

std::vector<Reservation> generation_calls(int prompt_tokens, int new_tokens) {
  std::vector<Reservation> calls{{prompt_tokens, prompt_tokens}};
  if (new_tokens > 1) calls.push_back({1, prompt_tokens + new_tokens - 1});
  return calls;
}

Generation generate(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> prompt,
                    int new_tokens, const SamplingConfig& sampling) {
  if (prompt.empty()) fail(ErrorKind::bad_input, "the prompt has no tokens");
  Device& device = *transformer.platform().device;
  Ops& ops = *transformer.platform().ops;
  const auto batch = static_cast<std::size_t>(transformer.shape().batch);
  const auto steps = static_cast<std::size_t>(new_tokens);

  std::vector<TokenId> prompts;
  prompts.reserve(batch * prompt.size());
  for (std::size_t row = 0; row < batch; ++row) prompts.insert(prompts.end(), prompt.begin(), prompt.end());
  std::vector<TokenId> new_ids(steps * batch);  // [step][batch]
  const TensorView& next = transformer.next_ids();
  const auto stopwatch = device.make_stopwatch();
  transformer.clear();

  const auto pick_after = [&](const TensorView& ids) {
    const TensorView hidden = transformer.forward(ids, attention);
    const TensorView logits = transformer.logits(transformer.last_rows(hidden));
    ops.pick_token(logits, sampling, transformer.past_len(),
                   next.reshaped({static_cast<std::int64_t>(batch)}));
  };
  const auto hand_out = [&](std::size_t step) {
    device.download_later(&new_ids[step * batch], next.data, next.bytes());
    stopwatch->mark();
  };

  device.synchronize();
  stopwatch->start();
  pick_after(transformer.upload_ids(prompts));
  hand_out(0);
  if (new_tokens > 1) {
    const auto decode = device.capture([&] { pick_after(next); });
    for (std::size_t step = 1; step < steps; ++step) {
      decode->replay();
      hand_out(step);
    }
  }

  Generation out;
  out.token_ms = stopwatch->milliseconds();
  out.ids.resize(batch);
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t row = 0; row < batch; ++row) out.ids[row].push_back(new_ids[step * batch + row]);
  }
  return out;
}

}  // namespace attn
