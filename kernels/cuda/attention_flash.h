// The table of mode flash's kernels: what exists, what each can do, how it is launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

#include "kernels/attention_params.h"

namespace attn::cuda {

// A decode step's new key and value of each sequence, which the kernel turns and writes to the cache on the
// way. The queries are then not yet turned either, and q_len is 1.
struct DecodeAppend {
  const void* k;  // [batch, 1, kv_heads, head_dim], not yet turned; null: all is in the cache
  const void* v;
  AttentionStrides k_stride, v_stride;
  void* k_cache;  // the call's k and v, to be written at *past_len
  void* v_cache;
  int rotary_dims;   // even; 0: nothing turns
  const float* cos;  // [positions, rotary_dims / 2]
  const float* sin;
  std::int64_t table_step;
};

// A launch with `early` may begin before the kernel before it has ended (programmatic_launch.cuh). With an
// append it then reads, before that kernel's end, *past_len, the rotary table, and the cache below *past_len:
// they must have been complete when that kernel began.
struct DecodeCall {
  AttentionParams params;
  DecodeAppend append;
  void* workspace;
  std::uint32_t* tickets;  // kDecodeTickets zeros, and zeros again afterwards
  int sm_count, block_shared_bytes;
  bool early;
};

// Row blocks of key heads whose splits can be counted; calls with more are not split.
inline constexpr int kDecodeTickets = 4096;
// Between tokens of k and v, so that a step of 16 fits an int.
inline constexpr std::int64_t kDecodeMaxStep = 1 << 26;

struct FlashRow {
  const char* name;
  const char* what;
  int head_dim;  // 0: any up to kSimtMaxHeadDim
  DType dtype;
  int min_sm;        // compute capability, 80 for 8.0
  int shared_bytes;  // shared memory of a block that the device must grant; 0: the launch asks for what it
                     // needs
  int max_q_len;     // 0: any
  bool needs_alignment;  // rows begin at multiples of 16 bytes, and the scale is above 0
  // Bytes of scratch on a GPU of sm_count multiprocessors, never fewer for more keys; null: none.
  std::size_t (*workspace)(const AttentionParams& params, int sm_count);
  // One of the two.
  cudaError_t (*launch)(const AttentionParams& params, void* workspace, int sm_count, cudaStream_t stream);
  cudaError_t (*decode)(const DecodeCall& call, cudaStream_t stream) = nullptr;
  bool reads_length = false;  // takes AttentionParams::past_len
};

// In order of preference: the first row that fits a problem runs it.
std::span<const FlashRow* const> flash_rows();

// Instances, each in a file of its own so that they compile side by side.
extern const FlashRow kFlashD64F16, kFlashD64BF16, kFlashD80F16, kFlashD80BF16, kFlashD96F16, kFlashD96BF16,
    kFlashD128F16, kFlashD128BF16, kFlashD256F16, kFlashD256BF16, kFlashD256SmallF16, kFlashD256SmallBF16;
extern const FlashRow kDecodeD64F16, kDecodeD64BF16, kDecodeD80F16, kDecodeD80BF16, kDecodeD96F16,
    kDecodeD96BF16, kDecodeD128F16, kDecodeD128BF16, kDecodeD256F16, kDecodeD256BF16;

}  // namespace attn::cuda
