// Runs attnppl as tests/goldens/perplexity.json says and compares its records with transformers' figures.
#pragma once

#include <string>

namespace attn {

// Empty, or why the cases cannot run here.
std::string why_no_perplexity_goldens();

// Every case of `model` whose first record is of `protocol`, whole texts or parts; in both modes at once, f32
// on the CPU. Checks counts and hashes exactly and sums to a tolerance; fails if there is no such case.
void check_perplexity_goldens(const std::string& model, const std::string& protocol, bool whole_texts);

}  // namespace attn
