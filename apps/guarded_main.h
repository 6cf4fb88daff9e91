// guarded_main: the one place where errors become a line on stderr and an exit code.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

namespace CLI {
class App;
}

namespace attn {

// Runs body and returns its exit code. attn::Error: "PROGRAM: message" on stderr and exit_code(kind);
// std::bad_alloc: 5; any other exception: 7, "internal error".
int guarded_main(std::string_view program, const std::function<int()>& body);

// Parses the command line. Nothing: go on. Else the exit code to return: 0 after --help or --version (printed
// on stdout), 2 after a usage error (one line on stderr that names --help).
std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv);

}  // namespace attn
