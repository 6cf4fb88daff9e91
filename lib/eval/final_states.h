// FinalStates: the hidden states of one text by one mode and path, kept so that logits can be made of any
// rows later.
#pragma once

#include <span>

#include "lib/core/enum_names.h"
#include "lib/model/transformer.h"
#include "lib/text/token.h"

namespace attn {

// prefill: all tokens in one call. decode: one token a call, over the cache, as in generation.
enum class ForwardPath : unsigned char { prefill, decode };
inline constexpr auto kForwardPathNames =
    name_table<ForwardPath>({{ForwardPath::prefill, "prefill"}, {ForwardPath::decode, "decode"}});

// Final hidden states [tokens, hidden] before the last norm, copied to memory of their own on the device. The
// transformer has batch 1, a capacity of ids.size() at least, and for prefill a step of that too; its cache
// is cleared. Throws what Transformer::reserve throws.
Tensor final_states(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> ids,
                    ForwardPath path);
// The same into memory [tokens, hidden] that is there already.
void final_states(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> ids,
                  ForwardPath path, const TensorView& states);

}  // namespace attn
