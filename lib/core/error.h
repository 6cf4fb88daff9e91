// Error: the one exception of the project, with the kind that becomes a program's exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace attn {

// usage: the command line is wrong. bad_input: a file or text is wrong. unsupported: correct, but not what
// this build, device or kernel can do. out_of_memory, device: the machine refused. internal: our bug.
enum class ErrorKind { usage, bad_input, unsupported, out_of_memory, device, internal };

// usage 2, bad_input 3, unsupported 4, out_of_memory 5, device 6, internal 7.
int exit_code(ErrorKind kind);
// The name as written in the enum, for messages and result records.
std::string_view name(ErrorKind kind);

// The message says what is wrong, where, and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// fail(ErrorKind::bad_input, "{}: expected {} bytes", path, n) throws Error.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace attn
