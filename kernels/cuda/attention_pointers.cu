// The pointers of one matrix a (sequence, head).
#include "kernels/cuda/attention_pointers.h"
#include "kernels/cuda/launch.h"

namespace attn::cuda {

namespace {

__global__ void pointers_kernel(const AttentionParams p, void* scores, std::int64_t matrix_bytes,
                                void** pointers) {
  const std::int64_t count = static_cast<std::int64_t>(p.batch) * p.q_heads;
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= count) return;
  const std::int64_t b = n / p.q_heads;
  const std::int64_t h = n % p.q_heads;
  const std::int64_t kv_head = h / (p.q_heads / p.kv_heads);
  const std::int64_t size = p.dtype == DType::f32 ? 4 : 2;
  const auto place = [&](const void* base, const AttentionStrides& stride, std::int64_t head) {
    return const_cast<char*>(static_cast<const char*>(base)) + (b * stride.batch + head * stride.head) * size;
  };
  pointers[n] = place(p.q, p.q_stride, h);
  pointers[count + n] = place(p.k, p.k_stride, kv_head);
  pointers[2 * count + n] = place(p.v, p.v_stride, kv_head);
  pointers[3 * count + n] = static_cast<char*>(scores) + n * matrix_bytes;
  pointers[4 * count + n] = place(p.out, p.out_stride, h);
}

}  // namespace

cudaError_t attention_pointers(const AttentionParams& params, void* scores, std::int64_t matrix_bytes,
                               void** pointers, cudaStream_t stream) {
  constexpr unsigned kThreads = 128;
  const std::int64_t count = static_cast<std::int64_t>(params.batch) * params.q_heads;
  pointers_kernel<<<grid_for((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      params, scores, matrix_bytes, pointers);
  return cudaGetLastError();
}

}  // namespace attn::cuda
