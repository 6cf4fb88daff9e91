// MemoryLedger: exact live and peak bytes of one device, by purpose.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "lib/core/enum_names.h"

namespace attn {

// scores: attention's materialised [batch, head, query, key] matrix, which mode flash never has.
// workspace: scratch that a kernel or library asks for. logits: the rows [token, vocab] before sampling or
// loss.
enum class MemoryUse : unsigned char { weights, kv_cache, activations, scores, workspace, logits, other };
inline constexpr std::size_t kMemoryUses = 7;
inline constexpr auto kMemoryUseNames = name_table<MemoryUse>({{MemoryUse::weights, "weights"},
                                                               {MemoryUse::kv_cache, "kv_cache"},
                                                               {MemoryUse::activations, "activations"},
                                                               {MemoryUse::scores, "scores"},
                                                               {MemoryUse::workspace, "workspace"},
                                                               {MemoryUse::logits, "logits"},
                                                               {MemoryUse::other, "other"}});

using BytesByUse = std::array<std::size_t, kMemoryUses>;

// Every allocation of a device is entered here, so the figures are exact and not sampled. Thread-safe.
class MemoryLedger {
 public:
  void add(std::size_t bytes, MemoryUse use);
  void remove(std::size_t bytes, MemoryUse use);
  // Peaks become what is live now.
  void reset_peaks();

  std::size_t live_bytes() const;
  std::size_t peak_bytes() const;
  BytesByUse peaks() const;    // each purpose's own peak; their sum may exceed peak_bytes()
  BytesByUse at_peak() const;  // what was live at the moment of peak_bytes(); sums to it exactly

 private:
  mutable std::mutex mutex_;
  BytesByUse live_{};
  BytesByUse peaks_{};
  BytesByUse at_peak_{};
  std::size_t live_total_ = 0;
  std::size_t peak_total_ = 0;
};

}  // namespace attn
