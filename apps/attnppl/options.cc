// The command line of attnppl.
#include "apps/attnppl/options.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "lib/core/error.h"
#include "lib/eval/final_states.h"
#include "lib/text/document.h"
#include "lib/text/document_selection.h"
#include "lib/text/pg19.h"

namespace attn {

bool Pg19Options::any() const {
  return !mode.empty() || !sample_path.empty() || !url.empty() || max_chars || max_tokens;
}

std::string ppl_help() {
  return "perplexity = exp(mean loss of the scored tokens), nats, log-softmax and sums in f64; per word, per "
         "byte and "
         "in bits\n"
         "per byte beside it. Protocols, each as its source has it (docs/perplexity.md):\n"
         "  full           each document in windows of --context tokens that advance by --stride; every "
         "token "
         "but a\n"
         "                 document's first is scored exactly once (with --bos that too)\n"
         "  hf-strided     the guide of Hugging Face: rows joined by two line ends, one text; --average "
         "windows is "
         "the\n"
         "                 older form of its script\n"
         "  lm-eval        task wikitext of lm-evaluation-harness: pages, de-tokenised, per word of the "
         "original\n"
         "  llama.cpp      llama-perplexity: chunks of --context (512), the second half of each scored\n"
         "  legacy-rows    each line is one sample, cut to --context (512) tokens, the first --max-samples "
         "(128)\n"
         "                 lines; exp of the mean over lines of each line's mean loss. Beside it stands "
         "full\n"
         "                 on the same lines\n"
         "  legacy-window  sliding windows (1024, 512) whose last one scores the end of the text again. "
         "Beside it "
         "stands full\n"
         "The error is that of a block bootstrap over neighbouring tokens.\n"
         "Exit codes: 0 ok, 1 a logit was not finite, 2 usage, 3 bad input, 4 unsupported, 5 out of memory, "
         "6 "
         "device,\n"
         "7 internal error, 8 the accuracy rule of --reference is broken, 130 interrupted.";
}

void add_ppl_options(CLI::App& app, PplOptions& options) {
  add_model_options(app, options.model);
  app.add_option(
         "--dataset", options.dataset,
         "sample (bundled); wikitext (or wikitext-2), wikitext-103, pg19 (after tools/fetch_datasets); or a "
         "file or folder of .txt, .raw, .tokens, .jsonl, each also with .zst")
      ->capture_default_str();
  as_list(app.add_option("--documents", options.documents,
                         "Only the documents of these names: of a file, with or without its ending, or "
                         "FILE:LINE of a .jsonl (10146,10321)"));
  app.add_option("--split", options.split,
                 "test or validation: of wikitext (default: test), of pg19 or a folder of its books the "
                 "books of that split");
  app.add_option("--line-ends", options.line_ends, "keep: CRLF stays, with a warning; lf: it is read as LF")
      ->capture_default_str();
  as_list(
      app.add_option("--mode", options.modes, "baseline, flash, reference; both stands for the first two"))
      ->capture_default_str();
  as_list(app.add_option("--path", options.paths,
                         "prefill: a window in one call; decode: token by token over the KV cache, compared "
                         "with prefill of the same mode; both"))
      ->capture_default_str();
  app.add_option(
         "--reference", options.reference,
         "f32: feed the windows to f32 weights and mode reference too, and judge whether each mode is "
         "at most twice as far from that as baseline is (docs/divergence.md)")
      ->check(CLI::IsMember({"f32"}));
  app.add_option("--health", options.health,
                 "Look inside attention on the first N windows: largest scores and head-room to f16 overflow "
                 "of each layer")
      ->check(CLI::PositiveNumber);
  as_list(app.add_option("--protocol", options.protocols,
                         "full, hf-strided, lm-eval, llama.cpp, legacy-rows, legacy-window"))
      ->capture_default_str();
  app.add_option("--bos", options.bos,
                 "Where a BOS token is fed: none, first (window of a text) or each (window). Default: none; "
                 "lm-eval first; llama.cpp each for LLaMA models, else none");
  app.add_option(
      "--text", options.text,
      "What a document becomes: as-is; lines, each by itself; rows or rows-nn, its lines with blank ones "
      "emptied, joined by nothing or two line ends; pages of WikiText. Default: as-is; hf-strided rows-nn; "
      "lm-eval pages; legacy-rows lines");
  app.add_option(
      "--average", options.average,
      "hf-strided only. labels (default): windows by the labels that the script counts; windows: each the "
      "same, as its older form; tokens");
  app.add_option("--max-samples", options.max_samples,
                 "The first N samples: documents; of wikitext and under legacy-rows lines (legacy-rows: 128)")
      ->check(CLI::PositiveNumber);
  app.add_option(
         "--context,--max-length", options.max_length,
         "Tokens of a window (default: the model's trained context, of full at most 1024; llama.cpp and "
         "legacy-rows: 512; legacy-window: 1024)")
      ->check(CLI::Range(2, 1 << 30));
  app.add_option("--window", options.window, "Another name for --context; of both, pg19 takes this one")
      ->check(CLI::Range(2, 1 << 30));
  app.add_option("--stride", options.stride,
                 "Tokens by which a window advances (default: half the window; hf-strided: at most 512)")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch-size", options.batch_size,
                 "Windows that are computed together (default: on a GPU about 8192 tokens, or what memory "
                 "allows; 1 on the CPU)")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--max-tokens", options.max_tokens, "The first N tokens of the data set; 0: all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_flag(
      "--ceilings", options.ceilings,
      "Measure the device's ceilings first (docs/measuring.md), and show what share of the product's "
      "each mode reaches, end to end");
  app.add_flag("--tokenize-only", options.tokenize_only,
               "Print the number of tokens, their SHA-256 and the speed; needs only a tokenizer");
  CLI::Option* out =
      app.add_option("--out", options.out,
                     "Folder (attnppl.jsonl in it is appended to), FILE.jsonl (appended to) or FILE.json");
  out->capture_default_str()->each([&options](const std::string&) { options.out_given = true; });

  Pg19Options& pg19 = options.pg19;
  const char* const group = "PG-19";
  app.add_option("--pg19-mode", pg19.mode, "sample1: one book (default); full: all books in datasets/pg19")
      ->check(CLI::IsMember({"sample1", "full"}))
      ->group(group);
  app.add_option("--pg19-sample-path", pg19.sample_path,
                 "The file of the one book (default: the first in datasets/pg19)")
      ->group(group);
  app.add_option("--pg19-url", pg19.url,
                 "The one book by its address: .../10146.txt is datasets/pg19/10146.txt.zst")
      ->group(group);
  app.add_option("--pg19-max-chars", pg19.max_chars, "The first N characters of each book; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--pg19-max-tokens", pg19.max_tokens, "The first N tokens of the books; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_flag("--force-download", pg19.force_download,
               "Refused: tools/fetch_datasets downloads, this program never")
      ->group(group);
  app.add_option("--download-retries", pg19.download_retries, "No effect, as nothing is downloaded")
      ->group(group);
  app.add_option("--download-timeout", pg19.download_timeout, "No effect, as nothing is downloaded")
      ->group(group);
}

bool is_wikitext(const std::string& dataset) {
  return dataset == "wikitext" || dataset == "wikitext-2" || dataset == "wikitext-103";
}

std::optional<int> asked_context(const PplOptions& options) {
  const bool window_first = options.dataset == "pg19";
  const auto& first = window_first ? options.window : options.max_length;
  const auto& second = window_first ? options.max_length : options.window;
  return first ? first : second;
}

namespace {

void check_split(const PplOptions& options) {
  const Pg19Options& pg19 = options.pg19;
  if (!options.split.empty()) {
    kPg19SplitNames.parse(options.split, "--split");
    if (options.dataset == "sample")
      fail(ErrorKind::usage, "--split is for wikitext, pg19 or a folder of its books, not for sample");
  }
  if (options.dataset != "pg19" || (options.split.empty() && options.documents.empty())) return;
  if (pg19.mode == "sample1" || !pg19.sample_path.empty() || !pg19.url.empty()) {
    fail(ErrorKind::usage,
         "{} chooses among all books; leave out --pg19-mode sample1, --pg19-sample-path and --pg19-url, "
         "which name one",
         options.split.empty() ? "--documents" : "--split");
  }
}

}  // namespace

std::vector<std::string> settle(PplOptions& options) {
  if (std::find(options.modes.begin(), options.modes.end(), "both") != options.modes.end()) {
    if (options.modes.size() > 1)
      fail(ErrorKind::usage, "--mode both stands for baseline,flash; give it alone");
    options.modes = {"baseline", "flash"};
  }
  check_modes(options.modes);
  if (options.paths == std::vector<std::string>{"both"}) options.paths = {"prefill", "decode"};
  for (auto path = options.paths.begin(); path != options.paths.end(); ++path) {
    kForwardPathNames.parse(*path, "--path");
    if (std::find(options.paths.begin(), path, *path) != path)
      fail(ErrorKind::usage, "--path names '{}' twice", *path);
  }
  if (options.protocols.empty()) fail(ErrorKind::usage, "--protocol needs a value");
  for (auto name = options.protocols.begin(); name != options.protocols.end(); ++name) {
    kProtocolNames.parse(*name, "--protocol");
    if (std::find(options.protocols.begin(), name, *name) != name)
      fail(ErrorKind::usage, "--protocol names '{}' twice", *name);
  }
  if (!options.bos.empty()) kBosRuleNames.parse(options.bos, "--bos");
  if (!options.text.empty()) kTextFormNames.parse(options.text, "--text");
  if (!options.average.empty()) kEstimatorNames.parse(options.average, "--average");
  kLineEndsNames.parse(options.line_ends, "--line-ends");
  [[maybe_unused]] const DocumentSelection complains(options.documents);
  check_split(options);
  if (options.tokenize_only && options.out_given)
    fail(ErrorKind::usage, "--tokenize-only prints and writes no record: leave out --out");
  if (options.tokenize_only && options.ceilings)
    fail(ErrorKind::usage, "--tokenize-only runs no model: leave out --ceilings");
  const Pg19Options& pg19 = options.pg19;
  if (pg19.force_download) {
    fail(ErrorKind::unsupported,
         "attnppl never downloads; run tools/fetch_datasets {} and leave out --force-download",
         is_wikitext(options.dataset) ? options.dataset : "pg19");
  }
  if (!pg19.sample_path.empty() && !pg19.url.empty())
    fail(ErrorKind::usage, "--pg19-sample-path and --pg19-url both name the one book: give one of them");
  if (pg19.mode == "full" && !(pg19.sample_path.empty() && pg19.url.empty()))
    fail(ErrorKind::usage, "--pg19-mode full takes all books; --pg19-sample-path and --pg19-url name one");
  if (options.dataset == "pg19" && pg19.max_tokens.value_or(0) > 0) {
    if (options.max_tokens > 0 && options.max_tokens != *pg19.max_tokens)
      fail(ErrorKind::usage, "--max-tokens and --pg19-max-tokens differ: give one of them");
    options.max_tokens = *pg19.max_tokens;
  }
  if (const auto context = asked_context(options); context && options.stride && *options.stride > *context)
    fail(ErrorKind::usage, "--stride {} is longer than the window of {} tokens", *options.stride, *context);

  std::vector<std::string> notes;
  if (pg19.download_retries || pg19.download_timeout)
    notes.emplace_back("--download-retries and --download-timeout have no effect: attnppl never downloads");
  if (pg19.any() && options.dataset != "pg19")
    notes.push_back("the --pg19 flags have no effect on the data set " + options.dataset);
  for (const std::string& name : options.protocols) {
    const Protocol protocol = kProtocolNames.parse(name, "--protocol");
    const bool full_beside = protocol == Protocol::legacy_rows && !options.tokenize_only;
    if (options.stride && !facts_of(protocol).strided && !full_beside)
      notes.push_back(fmt::format("--stride has no effect: protocol {} has none", name));
  }
  if (options.max_length && options.window && *options.max_length != *options.window) {
    const bool window_first = options.dataset == "pg19";
    notes.push_back(fmt::format("--{} has no effect: on {} the window is --{}",
                                window_first ? "context" : "window", options.dataset,
                                window_first ? "window" : "context"));
  }
  return notes;
}

}  // namespace attn
