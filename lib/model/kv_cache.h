// KvCache: keys and values of every layer, preallocated for a number of tokens.
#pragma once

#include <cstdint>

#include "lib/backend/device.h"
#include "lib/model/config.h"

namespace attn {

// All sequences of the batch have the same length. In memory [layer, key or value, batch, kv_head, token,
// head_dim], so that one head's keys are dense; seen as [batch, token, kv_head, head_dim].
class KvCache {
 public:
  KvCache(Device& device, const ModelConfig& config, DType dtype, int batch, int capacity);

  TensorView keys(int layer) const { return view(2 * layer); }
  TensorView values(int layer) const { return view(2 * layer + 1); }
  int capacity() const { return capacity_; }

  static std::size_t bytes(const ModelConfig& config, DType dtype, int batch, int capacity);

 private:
  TensorView view(int index) const;

  Buffer buffer_;
  DType dtype_;
  int batch_, kv_heads_, capacity_, head_dim_;
};

}  // namespace attn
