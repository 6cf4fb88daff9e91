// Products of few rows: every multiprocessor streams its own share of the weight rows through shared memory.
//
// A block takes an even share of the outputs, in tiles of 8 weight rows. One warp keeps a ring of stages
// filled (a stage: 8 rows of one chunk of columns), eight warps consume it: each takes every eighth step of
// 32 columns, with the input as the 16-row operand of an mma (rows past the input's are zero) and the weight
// rows as its 8 columns. Sums over a group of up to 4 tiles stay in registers; the warps' sums are added in a
// fixed order. The order of columns within a step is permuted, alike in both operands, so that each lane
// reads 16 bytes that lie together: lane (g, t) has columns 8 t ... 8 t + 7 of weight row g.
//
// A normed input is normed by every block for itself, once, into shared memory. Another input comes in chunks
// like the weights, by a warp of its own, so that columns that are there early can be worked on early.
#include "kernels/cuda/activation_function.cuh"
#include "kernels/cuda/barrier.cuh"
#include "kernels/cuda/programmatic_launch.cuh"
#include "kernels/cuda/skinny_norm.cuh"
#include "kernels/cuda/skinny_product.h"
#include "kernels/cuda/skinny_work.cuh"

namespace attn::cuda {

namespace {

using namespace skinny;

// sums += input [rows, columns] times weight tile [8, columns]^T, this warp's steps. Even and odd halves of a
// step are summed apart, so that no mma waits for the one before it.
template <typename T>
__device__ __forceinline__ void multiply_tile(float (&sums)[2][4], const char* input, bool present,
                                              const char* weights, int steps) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 4
  for (int s = warp; s < steps; s += kConsumers) {
    const uint4 w = *reinterpret_cast<const uint4*>(weights + s * kStep * 2);
    uint4 x = {0, 0, 0, 0};
    if (present) x = *reinterpret_cast<const uint4*>(input + s * kStep * 2);
    const std::uint32_t even[4] = {x.x, 0, x.y, 0};
    const std::uint32_t odd[4] = {x.z, 0, x.w, 0};
    multiply_add<T>(sums[0], even, w.x, w.y);
    multiply_add<T>(sums[1], odd, w.z, w.w);
  }
}

// What a thread writes of a group: output `column` of row `row`.
struct Output {
  int row, column;
  bool present;
};
__device__ __forceinline__ Output output_of(const SkinnyProduct& p, const SkinnyPart& part,
                                            const Group& group) {
  const int thread = static_cast<int>(threadIdx.x);
  const int tile = thread / (kTile * kSkinnyMaxRows);
  const int row = thread / kTile % kSkinnyMaxRows;
  const int column = group.first + tile * kTile + thread % kTile;
  const int tiles = part.gated ? group.slots / 2 : group.slots;
  return {row, column, tile < tiles && row < p.rows && column < group.end};
}

// On sm_90 registers are left for a kernel that begins early.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kBlocks = 1;
#else
constexpr int kBlocks = 2;
#endif

template <typename T, bool kNormed>
__global__ void __launch_bounds__(kThreads, kBlocks)
    skinny_kernel(const __grid_constant__ SkinnyProduct p, const __grid_constant__ Layout layout) {
  extern __shared__ __align__(128) char shared[];
  __shared__ std::uint64_t full[kMostStages], empty[kMostStages];
  __shared__ std::uint64_t input_full[kInputSlots], input_empty[kInputSlots];
  const int stage_step = layout.stage_step;
  const int stage_bytes = kTile * stage_step;
  const int chunk_step = row_step(layout.chunk);  // between rows of a chunk of the input
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (warp == kConsumers) {  // a lane a barrier
    if (lane < layout.stages) {
      init_barrier(&full[lane], kCopyArrivals);
      init_barrier(&empty[lane], kConsumerThreads);
    } else if (lane >= 32 - kInputSlots) {
      init_barrier(&input_full[lane - (32 - kInputSlots)], kCopyArrivals);
      init_barrier(&input_empty[lane - (32 - kInputSlots)], kConsumerThreads);
    }
    publish_barriers();
  }
  __syncthreads();  // at one place for all warps: synccheck takes a barrier met at several for divergence
  const SkinnyPart& part = part_of_block(p, layout);

  if (warp == kConsumers) {  // weights: they depend on nothing
    RingPlace place;
    RingPlace arrived;
    int ahead = 0;  // of the stages that have arrived
    for_groups(part, layout, [&](const Group& group) {
#pragma unroll 1
      for (int c = 0; c < layout.all; ++c) {
        const Chunk chunk = chunk_of(p, layout, c);
#pragma unroll 1
        for (int slot = 0; slot < group.slots; ++slot) {
          const TileRows rows = tile_rows(part, group, slot);
          if (ahead == layout.window) {
            wait_barrier(&full[arrived.stage], arrived.parity);
            arrived.next(layout.stages);
          } else {
            ++ahead;
          }
          wait_barrier(&empty[place.stage], place.parity ^ 1U);
          const char* source =
              static_cast<const char*>(part.weight) + (rows.row * part.weight_step + chunk.begin) * 2;
          char* target = shared + place.stage * stage_bytes;
          if (layout.contiguous) {
            copy_rows<true>(&full[place.stage], target, 0, source, 0, 1, rows.count * chunk.columns * 2);
          } else {
            copy_rows<true>(&full[place.stage], target, stage_step, source, part.weight_step * 2, rows.count,
                            chunk.columns * 2);
          }
          place.next(layout.stages);
        }
      }
    });
    return;
  }

  if (warp == kConsumers + 1) {  // the input, where it is not normed
    if (kNormed) return;
    bool waited = false;
    RingPlace place;
    for_groups(part, layout, [&](const Group&) {
#pragma unroll 1
      for (int c = 0; c < layout.all; ++c) {
        if (!waited && c >= layout.early) {
          wait_for_previous();
          let_next_start();
          waited = true;
        }
        const Chunk chunk = chunk_of(p, layout, c);
        wait_barrier(&input_empty[place.stage], place.parity ^ 1U);
        copy_rows<false>(&input_full[place.stage], shared + layout.input + place.stage * p.rows * chunk_step,
                         chunk_step, static_cast<const char*>(p.in) + std::int64_t{chunk.begin} * 2,
                         p.in_step * 2, p.rows, chunk.columns * 2);
        place.next(kInputSlots);
      }
    });
    if (!waited) {  // a block without outputs
      wait_for_previous();
      let_next_start();
    }
    return;
  }

  const int input_step = kNormed ? row_step(p.inner) : chunk_step;
  const bool present = lane / 4 < p.rows;
  const int at = lane / 4 * stage_step + lane % 4 * 16;  // of this lane in a stage
  float* partials = reinterpret_cast<float*>(shared + layout.partials);
  const int partials_size = kConsumers * kGroup * kTile * p.rows;
  char* norm = shared + layout.norm;
  if constexpr (kNormed) {
    ask_for_norm<T>(p, part, norm);
    wait_for_previous();
    let_next_start();
    norm_input<T>(p, part.norm_bias != nullptr, norm, shared + layout.input, input_step);
  }
  RingPlace place;
  RingPlace input_place;
  int groups_done = 0;
  for_groups(part, layout, [&](const Group& group) {
    // Read ahead of the sums: they wait for memory.
    const Output out = output_of(p, part, group);
    const T* bias = static_cast<const T*>(part.bias);
    const T* second_bias = static_cast<const T*>(part.second_bias);
    T first = from_float<T>(0);
    T second = first;
    T old = first;
    if (out.present) {
      if (bias != nullptr) first = bias[out.column];
      if (bias != nullptr && part.gated) second = bias[part.size + out.column];
      if (second_bias != nullptr) second = second_bias[out.column];
    }

    float sums[kGroup][2][4] = {};
#pragma unroll 1
    for (int c = 0; c < layout.all; ++c) {
      const Chunk chunk = chunk_of(p, layout, c);
      const int steps = chunk.columns / kStep;
      const char* input = shared + layout.input + lane / 4 * input_step + lane % 4 * 16;
      if constexpr (kNormed) {
        input += chunk.begin * 2;
      } else {
        input += input_place.stage * p.rows * chunk_step;
        wait_barrier(&input_full[input_place.stage], input_place.parity);
        // The first late columns are there, so the previous kernel is complete.
        if (c == layout.early && p.add && out.present)
          old = __ldcg(static_cast<const T*>(part.out) + out.row * part.out_step + out.column);
      }
#pragma unroll
      for (int slot = 0; slot < kGroup; ++slot) {
        if (slot >= group.slots) break;
        wait_barrier(&full[place.stage], place.parity);
        multiply_tile<T>(sums[slot], input, present, shared + place.stage * stage_bytes + at, steps);
        // Every lane: one for its warp is no faster, and racecheck orders only what arriving threads did.
        arrive(&empty[place.stage]);
        place.next(layout.stages);
      }
      if constexpr (!kNormed) {
        arrive(&input_empty[input_place.stage]);
        input_place.next(kInputSlots);
      }
    }

    // [warp][slot][row][column of the tile]; two sets in turns, so that one meeting a group is enough.
    float* set = partials + groups_done % 2 * partials_size;
    ++groups_done;
#pragma unroll
    for (int slot = 0; slot < kGroup; ++slot) {
      if (slot >= group.slots || !present) break;
      float* mine = set + ((warp * kGroup + slot) * p.rows + lane / 4) * kTile + lane % 4 * 2;
      mine[0] = sums[slot][0][0] + sums[slot][1][0];
      mine[1] = sums[slot][0][1] + sums[slot][1][1];
    }
    consumers_meet();
    if (!out.present) return;
    const int tile = static_cast<int>(threadIdx.x) / (kTile * kSkinnyMaxRows);
    const auto total = [&](int slot) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kConsumers; ++w)
        sum += set[((w * kGroup + slot) * p.rows + out.row) * kTile + threadIdx.x % kTile];
      return sum;
    };
    const int slot = part.gated ? 2 * tile : tile;
    float value = total(slot) + to_float(first);
    if (!part.gated) value += to_float(second);
    value = apply(part.function, value);
    value = part.gated ? value * (total(slot + 1) + to_float(second)) : value + to_float(old);
    const std::int64_t target = out.row * part.out_step + out.column;
    if (p.float_out) {
      static_cast<float*>(part.out)[target] = value;
    } else {
      static_cast<T*>(part.out)[target] = from_float<T>(value);
    }
  });
}

bool aligned(const void* base, std::int64_t step) {
  return reinterpret_cast<std::uintptr_t>(base) % 16 == 0 && step % 8 == 0;
}

template <typename T>
cudaError_t launch(const SkinnyProduct& product, const SkinnyLimits& limits, cudaStream_t stream) {
  SkinnyProduct p = product;
  if (p.normed) p.late_columns = p.inner;
  Layout layout{};
  if (!plan(p, limits, layout)) return cudaErrorInvalidConfiguration;
  if (layout.early == 0) p.late_columns = 0;  // chunk_of() then counts from the first column to the last
  const auto kernel = p.normed ? skinny_kernel<T, true> : skinny_kernel<T, false>;
  const cudaError_t raised =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, layout.bytes);
  if (raised != cudaSuccess) return raised;
  // A multiprocessor is divided alike for all kernels of a decode step: else each would wait until it is
  // empty.
  const cudaError_t divided = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                                   cudaSharedmemCarveoutMaxShared);
  if (divided != cudaSuccess) return divided;
  return launch_programmatic(kernel, static_cast<unsigned>(limits.sm_count), kThreads,
                             static_cast<std::size_t>(layout.bytes), stream, limits.compute_capability >= 90,
                             p, layout);
}

}  // namespace

bool fits_skinny_product(const SkinnyProduct& p, const SkinnyLimits& limits) {
  if (p.dtype != DType::f16 && p.dtype != DType::bf16) return false;
  if (p.rows < 1 || p.rows > kSkinnyMaxRows || p.inner % kStep != 0 || p.inner < kStep) return false;
  if (!p.normed && (p.late_columns < kStep || p.late_columns > p.inner || p.late_columns % kStep != 0))
    return false;
  if (!aligned(p.in, p.in_step)) return false;
  for (int n = 0; n < p.part_count; ++n) {
    const SkinnyPart& part = p.parts[n];
    if (!aligned(part.weight, part.weight_step) || !aligned(part.norm_weight, 0) ||
        !aligned(part.norm_bias, 0))
      return false;
  }
  Layout layout{};
  return plan(p, limits, layout);
}

cudaError_t skinny_product(const SkinnyProduct& product, const SkinnyLimits& limits, cudaStream_t stream) {
  if (product.dtype == DType::f16) return launch<Half>(product, limits, stream);
  if (product.dtype == DType::bf16) return launch<BFloat>(product, limits, stream);
  return cudaErrorInvalidValue;
}

}  // namespace attn::cuda
