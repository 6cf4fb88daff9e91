// The two paths of a text through a transformer.
#include "lib/eval/final_states.h"

#include "lib/core/error.h"

namespace attn {

Tensor final_states(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> ids,
                    ForwardPath path) {
  if (ids.empty()) fail(ErrorKind::bad_input, "there are no tokens to compute logits of");
  Device& device = *transformer.platform().device;
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const std::size_t call = path == ForwardPath::prefill ? ids.size() : 1;
  Tensor states;
  transformer.clear();
  for (std::size_t done = 0; done < ids.size(); done += call) {
    const int kv_len = static_cast<int>(done + call);
    transformer.reserve(attention, {static_cast<int>(call), kv_len});
    const TensorView hidden = transformer.forward(transformer.upload_ids(ids.subspan(done, call)), attention);
    if (states.view.empty()) {
      states = device.allocate_tensor(hidden.dtype, {tokens, hidden.extent(2)}, MemoryUse::activations);
    }
    const TensorView target =
        states.view.slice(0, static_cast<std::int64_t>(done), static_cast<std::int64_t>(call));
    device.copy(target.data, hidden.data, hidden.bytes());
  }
  return states;
}

}  // namespace attn
