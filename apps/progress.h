// A progress bar with the time left: on a terminal; in a pipe nothing at all.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

namespace attn {

// Drawn on stderr, on one line that is cleared by clear() or the destructor.
class Progress {
 public:
  explicit Progress(double total_steps);  // shown if stderr is a terminal
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `what` is going on after `done` steps (fractions allowed). Redraws at most ten times a second.
  void update(double done, std::string_view what);
  // Removes the bar, so that a line can be printed; the next update draws it again.
  void clear();

 private:
  bool shown_;
  bool drawn_ = false;
  double total_;
  std::chrono::steady_clock::time_point start_, last_;
};

// The bar's text, e.g. "[#####.....]  50 %  1:30 left  prefill". elapsed_s: since step 0. Pure.
std::string progress_line(double done, double total, double elapsed_s, std::string_view what);

}  // namespace attn
