// Exceptions become exit codes here and nowhere else.
#include "apps/guarded_main.h"

#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "lib/core/error.h"

namespace attn {
namespace {

int report(std::string_view program, ErrorKind kind, std::string_view message) {
  std::fflush(stdout);
  fmt::print(stderr, "{}: {}\n", program, message);
  return exit_code(kind);
}

}  // namespace

int guarded_main(std::string_view program, const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    const bool ours = error.kind() == ErrorKind::internal;
    return report(program, error.kind(), fmt::format("{}{}", ours ? "internal error: " : "", error.what()));
  } catch (const std::bad_alloc&) {
    return report(program, ErrorKind::out_of_memory, "out of memory");
  } catch (const std::exception& error) {
    return report(program, ErrorKind::internal, fmt::format("internal error: {}", error.what()));
  }
}

std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    const bool is_help = app.exit(error, out, err) == 0;
    if (is_help) {
      fmt::print("{}", out.str());
      return 0;
    }
    return report(app.get_name(), ErrorKind::usage,
                  fmt::format("{}; see {} --help", error.what(), app.get_name()));
  }
}

}  // namespace attn
