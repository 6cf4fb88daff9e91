// Barriers in shared memory (mbarrier) and copies that arrive at them: in bulk on sm_90, by 16 bytes before.
#pragma once

#include <cstdint>

#include "kernels/cuda/mma.cuh"

namespace attn::cuda {

// Arrivals that a barrier of copies counts in a phase.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr unsigned kCopyArrivals = 1;
#else
inline constexpr unsigned kCopyArrivals = 32;
#endif

__device__ __forceinline__ void init_barrier(std::uint64_t* barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;\n" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}

// After init_barrier() and before the block meets: copies will arrive at these barriers.
__device__ __forceinline__ void publish_barriers() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
#endif
}

__device__ __forceinline__ void arrive(std::uint64_t* barrier) {
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}\n" ::"r"(shared_address(barrier))
      : "memory");
}

// Until the phase of this parity has ended; a new barrier's first phase has parity 0.
__device__ __forceinline__ void wait_barrier(std::uint64_t* barrier, unsigned parity) {
  unsigned done = 0;
  while (done == 0) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
#else
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
#endif
  }
}

// By a whole warp: `count` (at most 32) rows of `bytes` (a multiple of 16, at multiples of 16) into shared
// memory; `barrier` (of kCopyArrivals) ends its phase when they are there. `stream_once`: the cache need not
// keep them.
template <bool stream_once>
__device__ __forceinline__ void copy_rows(std::uint64_t* barrier, char* target, std::int64_t target_step,
                                          const char* source, std::int64_t source_step, int count,
                                          int bytes) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  // One lane asks for all rows: a bulk copy is an instruction of the warp, and lanes with addresses of their
  // own would be served one after the other.
  if (lane == 0) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}\n" ::"r"(
                     shared_address(barrier)),
                 "r"(static_cast<unsigned>(count * bytes))
                 : "memory");
    std::uint64_t policy = 0;
    if constexpr (stream_once)
      asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
    const std::uint32_t arrival = shared_address(barrier);
    std::uint32_t to = shared_address(target);
#pragma unroll 1
    for (int row = 0; row < count; ++row) {
      if constexpr (stream_once) {
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], "
            "%2, "
            "[%3], %4;\n" ::"r"(to),
            "l"(source), "r"(bytes), "r"(arrival), "l"(policy)
            : "memory");
      } else {
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(
                to),
            "l"(source), "r"(bytes), "r"(arrival)
            : "memory");
      }
      to += static_cast<std::uint32_t>(target_step);
      source += source_step;
    }
  }
  __syncwarp();
#else
  const int packs = bytes / 16;
  for (int n = lane; n < count * packs; n += 32) {
    const int row = n / packs;
    const int pack = n % packs;
    copy_async(target + row * target_step + pack * 16, source + row * source_step + pack * 16, true);
  }
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\n" ::"r"(shared_address(barrier)) : "memory");
#endif
}

}  // namespace attn::cuda
