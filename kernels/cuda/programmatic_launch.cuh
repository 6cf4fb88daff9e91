// Programmatic dependent launch (sm_90): a kernel begins while the one before it in the stream still runs.
//
// The rule that makes it right, for every kernel that launch_programmatic() starts:
// - before wait_for_previous() it reads nothing that the previous kernel writes, and writes no global memory;
// - let_next_start() comes right after the wait, in every block, also those that end early.
// So a kernel that has begun knows that the previous kernel is past its wait, and that all kernels before
// that one are complete: what was written two or more kernels ago may be read before the wait.
#pragma once

#include <cuda_runtime.h>

namespace attn::cuda {

// Returns when the previous kernel is complete and its writes are seen.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

// A hint of when the next kernel may take the room that is left; publishes nothing.
__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// `early`: whether the kernel may begin before the previous one has ended; a kernel that does not keep the
// rule above, and GPUs before sm_90, need false.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_programmatic(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                std::size_t shared_bytes, cudaStream_t stream, bool early,
                                Arguments... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace attn::cuda
