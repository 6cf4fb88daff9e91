// What attnppl prints of a case: what will be scored before the run, all else after it.
#pragma once

#include "apps/attnppl/record_case.h"

namespace attn {

void print_model(const Model& model, const Platform& platform);
// The data set and the protocol, as far as they are known before reading.
void print_start(const PplCase& ppl_case, const ProtocolSettings& settings);

// A row for each variant, its documents where they are few, and how far it is from what it is compared with.
void print_variants(const PplCaseResult& result, const std::optional<Ceilings>& ceilings);
void print_divergences(const PplCaseResult& result);
// Largest scores and values inside attention, and what the accuracy rule says, where they were asked for.
void print_health(const PplCaseResult& result);
void print_verdicts(const PplCaseResult& result);
// Counts, the hash of the ids and the peak of memory.
void print_end(const PplCase& ppl_case, const PplCaseResult& result);

// The object that system B's compute_ppl prints.
void print_system_b(const PplOptions& options, const Model& model, const PplCase& ppl_case,
                    const PplCaseResult& result);

// "data NAME: 79 of 128 lines used, ..."
void print_text(const PplCase& ppl_case, const TextFacts& text);

}  // namespace attn
