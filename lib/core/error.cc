// Names and exit codes of error kinds.
#include "lib/core/error.h"

namespace attn {

int exit_code(ErrorKind kind) { return 2 + static_cast<int>(kind); }

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return "usage";
    case ErrorKind::bad_input: return "bad_input";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::out_of_memory: return "out_of_memory";
    case ErrorKind::device: return "device";
    case ErrorKind::internal: return "internal";
  }
  return "internal";
}

}  // namespace attn
