// The bar's text and its redrawing.
#include "apps/progress.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace attn {
namespace {

constexpr int kBarWidth = 20;
constexpr std::chrono::milliseconds kRedrawInterval{100};

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(seconds));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::size_t terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

std::string progress_line(double done, double total, double elapsed_s, std::string_view what) {
  const double share = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0.0;
  const auto filled = static_cast<int>(share * kBarWidth);
  std::string line =
      fmt::format("[{:#<{}}{:.<{}}] {:3.0f} %", "", filled, "", kBarWidth - filled, 100 * share);
  // Before the first hundredth is done, an estimate would only jump.
  if (share >= 0.01) line += fmt::format("  {} left", duration_text(elapsed_s * (1 - share) / share));
  if (!what.empty()) line += fmt::format("  {}", what);
  return line;
}

Progress::Progress(double total_steps)
    : shown_(isatty(STDERR_FILENO) != 0), total_(total_steps), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { clear(); }

void Progress::update(double done, std::string_view what) {
  if (!shown_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < kRedrawInterval) return;
  last_ = now;
  drawn_ = true;
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  std::string line = progress_line(done, total_, elapsed_s, what);
  if (const std::size_t columns = terminal_columns(); line.size() >= columns) line.resize(columns - 1);
  fmt::print(stderr, "\r{}\033[K", line);
  std::fflush(stderr);
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace attn
