// WikiText's pages and their de-tokenised form, as the task `wikitext` of lm-evaluation-harness makes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/eval/passage.h"

namespace attn {

// A page begins at each line that, without white space around it, begins with "= " and ends in " =" while "=
// =" counts as one sign (so headings of sections do not). Lines before the first such line are a page of
// their own unless they are blank. Line ends of any kind become "\n" and the one at the end of a page is no
// part of it.
std::vector<std::string> wikitext_pages(std::string_view text);

// What stands between the signs of the heading that a page begins with; empty where it begins otherwise.
std::string page_title(std::string_view page);

// Undoes WikiText's spacing: 24 replacements, in the order of lm_eval/tasks/wikitext/preprocess_wikitext.py.
// Two of them reach further than their name: what stands between any two apostrophes or quotes is trimmed, in
// pairs from the page's first one on, across lines.
std::string wikitext_detokenize(std::string_view page);

// Bytes of a page and its words as that task counts them: the runs of white space and one more, so an empty
// string before the first and after the last run is a word.
TextCounts wikitext_counts(std::string_view page);

}  // namespace attn
