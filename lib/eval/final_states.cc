// The two paths of a text through a transformer.
#include "lib/eval/final_states.h"

#include "lib/core/error.h"

namespace attn {

void final_states(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> ids,
                  ForwardPath path, const TensorView& states) {
  if (ids.empty()) fail(ErrorKind::bad_input, "there are no tokens to compute logits of");
  const std::size_t call = path == ForwardPath::prefill ? ids.size() : 1;
  transformer.clear();
  for (std::size_t done = 0; done < ids.size(); done += call) {
    transformer.reserve(attention, {static_cast<int>(call), static_cast<int>(done + call)});
    const TensorView hidden = transformer.forward(transformer.upload_ids(ids.subspan(done, call)), attention);
    const TensorView target =
        states.slice(0, static_cast<std::int64_t>(done), static_cast<std::int64_t>(call));
    if (hidden.dtype != target.dtype || hidden.extent(2) != target.extent(1))
      fail(ErrorKind::internal, "hidden states {} have no room in {}", hidden.shape.text(),
           target.shape.text());
    transformer.platform().device->copy(target.data, hidden.data, hidden.bytes());
  }
}

Tensor final_states(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> ids,
                    ForwardPath path) {
  Tensor states = transformer.platform().device->allocate_tensor(
      transformer.dtype(), {static_cast<std::int64_t>(ids.size()), transformer.config().hidden},
      MemoryUse::activations);
  final_states(transformer, attention, ids, path, states.view);
  return states;
}

}  // namespace attn
