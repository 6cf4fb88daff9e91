// OutOfMemory: the Error{out_of_memory} of a device, which knows what was asked.
#pragma once

#include <cstddef>
#include <string>

#include "lib/backend/memory_ledger.h"
#include "lib/core/error.h"

namespace attn {

struct MemoryRequest {
  std::size_t bytes = 0;
  MemoryUse use = MemoryUse::other;
  std::size_t in_use = 0;  // bytes that this program held on the device when it asked
};

struct OutOfMemory : Error {
  OutOfMemory(const std::string& message, const MemoryRequest& refused)
      : Error(ErrorKind::out_of_memory, message), request(refused) {}
  MemoryRequest request;
};

}  // namespace attn
