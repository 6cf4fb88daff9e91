// The layout of the cache.
#include "lib/model/kv_cache.h"

namespace attn {

std::size_t KvCache::bytes(const ModelConfig& config, DType dtype, int batch, int capacity) {
  return 2 * size_of(dtype) * static_cast<std::size_t>(config.layers) * static_cast<std::size_t>(batch) *
         static_cast<std::size_t>(config.kv_heads) * static_cast<std::size_t>(capacity) *
         static_cast<std::size_t>(config.head_dim);
}

KvCache::KvCache(Device& device, const ModelConfig& config, DType dtype, int batch, int capacity)
    : buffer_(device.allocate(bytes(config, dtype, batch, capacity), MemoryUse::kv_cache)),
      dtype_(dtype),
      batch_(batch),
      kv_heads_(config.kv_heads),
      capacity_(capacity),
      head_dim_(config.head_dim) {
  // A recorded call may read past the length, where it must find finite numbers.
  device.fill_zero(buffer_.data(), buffer_.bytes());
}

TensorView KvCache::view(int index) const {
  const std::int64_t head = static_cast<std::int64_t>(capacity_) * head_dim_;
  const std::int64_t whole = head * kv_heads_ * batch_;
  TensorView out(
      static_cast<char*>(buffer_.data()) + index * whole * static_cast<std::int64_t>(size_of(dtype_)), dtype_,
      {batch_, capacity_, kv_heads_, head_dim_});
  out.strides = {head * kv_heads_, head_dim_, head, 1};
  return out;
}

}  // namespace attn
