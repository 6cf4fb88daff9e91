// Copies, zeroes and reads of large blocks by all threads.
#pragma once

#include <cstddef>

namespace attn::cpu {

void copy_bytes(void* target, const void* source, std::size_t bytes);
void zero_bytes(void* target, std::size_t bytes);
// Reads every byte and keeps nothing. `source` and `bytes` are multiples of 64.
void read_bytes(const void* source, std::size_t bytes);

}  // namespace attn::cpu
