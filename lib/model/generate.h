// Generation: prefill, then one token at a time, each new id time-stamped when it is on the host.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/core/enum_names.h"
#include "lib/model/transformer.h"

namespace attn {

struct Generation {
  std::vector<std::vector<TokenId>> ids;  // [batch][new_tokens]
  std::vector<double>
      token_ms;  // [new_tokens]: from the call to the moment that token's ids were on the host
};

// How the work of the prompt reaches the device: call by call, or as one recorded graph.
enum class PrefillLaunch : unsigned char { stream, graph };
inline constexpr auto kPrefillLaunchNames =
    name_table<PrefillLaunch>({{PrefillLaunch::stream, "stream"}, {PrefillLaunch::graph, "graph"}});

// The attention calls of a generation of this length: the prompt's, then those that decode steps are recorded
// with, each for the key counts up to its kv_len. Reserve their scratch before.
std::vector<Reservation> generation_calls(const AttentionBackend& attention, int prompt_tokens,
                                          int new_tokens);

// One generation, ready to run as often as wanted: what is recorded is recorded in the constructor, before
// any clock. Every sequence of the batch gets the same prompt. A run clears the cache, feeds the prompt in
// one call, then feeds each new token but the last; no end-of-sequence id stops it. The transformer, its
// reservations and the attention must outlive it unchanged. Throws Error{bad_input} for an empty prompt.
class Generator {
 public:
  Generator(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> prompt,
            int new_tokens, const SamplingConfig& sampling, PrefillLaunch prefill = PrefillLaunch::stream);
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  Generation run();

 private:
  void pick_after(const TensorView& hidden);

  Transformer& transformer_;
  AttentionBackend& attention_;
  SamplingConfig sampling_;
  std::size_t batch_, steps_;
  std::vector<TokenId> prompts_;                // [batch][prompt]
  std::vector<Reservation> calls_;              // of generation_calls()
  std::unique_ptr<Graph> prefill_;              // or null: call by call
  std::vector<std::unique_ptr<Graph>> decode_;  // [calls_ - 1]
};

// One run.
Generation generate(Transformer& transformer, AttentionBackend& attention, std::span<const TokenId> prompt,
                    int new_tokens, const SamplingConfig& sampling);

}  // namespace attn
