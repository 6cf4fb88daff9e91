// Generation: prefill, then one token at a time, each new id time-stamped when it is on the host.
#pragma once

#include <span>
#include <vector>

#include "lib/model/transformer.h"

namespace attn {

struct Generation {
  std::vector<std::vector<TokenId>> ids;  // [batch][new_tokens]
  std::vector<double>
      token_ms;  // [new_tokens]: from the call to the moment that token's ids were on the host
};

// The attention calls of generate() of this length: the prompt's, then those that decode steps are recorded
// with, each for the key counts up to its kv_len. Reserve their scratch before.
std::vector<Reservation> generation_calls(const AttentionBackend& attention, int prompt_tokens,
                                          int new_tokens);

// Every sequence of the batch gets the same prompt. Clears the cache, feeds the prompt in one call, then
// feeds each new token but the last; no end-of-sequence id stops it. Throws Error{bad_input} for an empty
// prompt.
Generation generate(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> prompt,
                    int new_tokens, const SamplingConfig& sampling);

}  // namespace attn
