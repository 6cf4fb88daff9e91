// A kernel that only reads: what the memory gives to a kernel that writes nothing.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace attn::cuda {

// Reads [data, data + bytes), both multiples of 16, and keeps nothing. `sms`: multiprocessors of the device.
cudaError_t read_all(const void* data, std::size_t bytes, int sms, cudaStream_t stream);

}  // namespace attn::cuda
