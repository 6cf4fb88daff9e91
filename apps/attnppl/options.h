// What a user asks of attnppl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/shared_options.h"
#include "lib/eval/protocols.h"

namespace attn {

// Flags of system B's compute_ppl.py that only concern its PG-19 file and its download.
struct Pg19Options {
  std::string mode;         // sample1 (default): one book; full: all
  std::string sample_path;  // the file of the one book
  std::string url;          // names the one book by its last part
  bool force_download = false;
  std::optional<int> download_retries, download_timeout;
  std::optional<std::int64_t> max_chars, max_tokens;  // 0: no limit

  bool any() const;
};

struct PplOptions {
  ModelOptions model;
  std::string dataset = "sample";
  std::vector<std::string> documents;  // names, as DocumentSelection has them; empty: all
  std::string line_ends = "keep";      // a LineEnds
  std::string split;                   // a Pg19Split's name; empty: none asked for
  std::vector<std::string> modes{"baseline", "flash"};
  std::vector<std::string> paths{"prefill"};  // ForwardPaths
  std::string reference;                      // "f32": weights of the run that judges the others; or empty
  int health = 0;                             // windows that are looked at from the inside
  std::vector<std::string> protocols{"full"};
  std::optional<std::int64_t> max_samples;
  std::optional<int> max_length, window, stride;
  std::optional<int> batch_size;   // windows at a time; nothing: chosen by device and memory
  std::string bos, text, average;  // names; empty: as the protocol has it
  std::int64_t max_tokens = 0;     // 0: no limit
  Pg19Options pg19;
  std::string out = "results";
  bool out_given = false;
  bool tokenize_only = false;
  bool ceilings = false;  // measure what the device can do, and show the share of it
  std::vector<std::string> argv;
};

void add_ppl_options(CLI::App& app, PplOptions& options);
std::string ppl_help();

// Checks values against each other, turns "both" into the two modes, and returns a line for each flag that
// has no effect in this run: printed and recorded, so that none is ignored in silence. Throws Error{usage},
// and Error{unsupported} for a download.
std::vector<std::string> settle(PplOptions& options);

// The names that stand for a data set beside files and folders.
bool is_wikitext(const std::string& dataset);

// The context of a window as asked: --window comes first for pg19, --max-length for any other data set.
std::optional<int> asked_context(const PplOptions& options);

}  // namespace attn
