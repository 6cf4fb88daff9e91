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

  const auto pick_after = [&](const TensorView& hidden) {
    const TensorView logits = transformer.logits(transformer.last_rows(hidden));
    ops.pick_token(logits, sampling, transformer.past_len(),
                   next.reshaped({static_cast<std::int64_t>(batch)}));
  };
  const auto hand_out = [&](std::size_t step) {
    device.download_later(&new_ids[step * batch], next.data, next.bytes());
    stopwatch->mark();
  };

  // The graphs of the decode steps, one for each range of key counts, are made before the clock starts.
  const std::vector<Reservation> calls =
      generation_calls(attention, static_cast<int>(prompt.size()), new_tokens);
  std::vector<std::unique_ptr<Graph>> graphs;
  for (std::size_t i = 1; i < calls.size(); ++i)
    graphs.push_back(device.capture(
        [&, keys = calls[i].kv_len] { pick_after(transformer.record(next, attention, keys)); }));

  device.synchronize();
  stopwatch->start();
  pick_after(transformer.forward(transformer.upload_ids(prompts), attention));
  hand_out(0);
  std::size_t range = 0;
  for (std::size_t step = 1; step < steps; ++step) {
    if (transformer.length() + 1 > calls[range + 1].kv_len) ++range;
    graphs[range]->replay();
    transformer.replayed(1);
    hand_out(step);
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
