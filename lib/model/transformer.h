// Transformer: one forward pass for every family, over a preallocated cache and activations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lib/backend/platform.h"
#include "lib/model/kv_cache.h"
#include "lib/model/model.h"
#include "lib/model/rotary.h"
#include "lib/text/token.h"

namespace attn {

// How much room a Transformer has. All sequences of the batch advance together.
struct RunShape {
  int batch = 1;
  int capacity = 0;     // tokens of a sequence that the cache holds
  int step = 0;         // tokens of a sequence in one call of forward()
  int logits_rows = 1;  // rows in one call of logits()
};

// Nothing where positions 0 ... tokens - 1 are what the model was trained for; else what is wrong, in words.
std::optional<std::string> context_warning(const ModelConfig& config, int tokens);

// Bytes by purpose that a Transformer of this shape holds after the reservations, weights included; computed
// from the config alone, to be set beside the measured peak.
struct Reservation {
  int q_len, kv_len;
};
BytesByUse predict_memory(const ModelConfig& config, DType dtype, const RunShape& shape,
                          const AttentionBackend& attention, std::span<const Reservation> calls);

// The memory is taken in the constructor and in reserve(), never in a forward pass. The modes differ only in
// the AttentionBackend given to forward(). Throws Error{bad_input} when a learned position table is shorter
// than the capacity, Error{unsupported} from reserve() with the backend's reason.
class Transformer {
 public:
  Transformer(Platform& platform, const Model& model, const RunShape& shape);

  // Takes scratch for calls of forward() with q_len tokens a sequence when the cache then holds kv_len.
  // `sequences`: fed together; 0: as many as there is room for.
  void reserve(const AttentionBackend& attention, Reservation call, int sequences = 0);

  void clear();                           // forgets all tokens
  int length() const { return length_; }  // tokens a sequence in the cache

  // Feeds ids [batch, count] (i32 on the device) and returns their final hidden states [batch, count, hidden]
  // before the last norm, valid until the next call. After clear() it may be fewer sequences than there is
  // room for, and then as many until the next clear().
  TensorView forward(const TensorView& ids, AttentionBackend& attention);
  // The same work for the body of Device::capture(): how many tokens the cache holds is read on the device,
  // and attention is called with `keys`, the most that a replay may meet. Leaves length() as it is.
  TensorView record(const TensorView& ids, AttentionBackend& attention, int keys);
  // As record(), for the prompt of an empty cache: its length is fixed.
  TensorView record_prompt(const TensorView& ids, AttentionBackend& attention);
  // `count` tokens were fed by a replay.
  void replayed(int count);
  // Logits [rows, vocab] f32 of hidden states [rows, hidden] (rows may be strided), valid until the next
  // call.
  TensorView logits(const TensorView& hidden);
  // The same into memory [rows, vocab] of the caller's.
  void logits(const TensorView& hidden, const TensorView& out);
  // What the last call of logits() wrote, to look at afterwards: [logits_rows, vocab].
  const TensorView& logits_room() const { return logits_.view; }
  // The last token's hidden state of each sequence: [batch, hidden], strided.
  TensorView last_rows(const TensorView& hidden) const;

  // The room for ids, [batch, step] i32 on the device; upload_ids fills it with [batch, count] and shows that
  // part.
  TensorView upload_ids(std::span<const TokenId> ids);

  // The room for the ids that follow, [batch, 1] i32 on the device.
  const TensorView& next_ids() const { return next_.view; }

  // kernel_for of the call, for the record.
  std::string kernel_for(const AttentionBackend& attention, Reservation call) const;

  const ModelConfig& config() const { return model_.config; }
  DType dtype() const { return model_.weights.dtype; }
  const RunShape& shape() const { return shape_; }
  Platform& platform() const { return platform_; }
  const std::int32_t* past_len() const { return static_cast<const std::int32_t*>(past_len_.data()); }

 private:
  AttentionProblem problem(Reservation call, int layer, int sequences) const;
  // `recorded`: see record(); else the call is done now and the host's length holds.
  TensorView run(const TensorView& ids, AttentionBackend& attention, int keys, bool recorded);
  void attend(int layer, const TensorView& qkv, const TensorView& out, AttentionBackend& attention, int keys,
              bool recorded);

  Platform& platform_;
  const Model& model_;
  RunShape shape_;
  KvCache cache_;
  RotaryMemory rotary_;
  Buffer past_len_;  // one i32
  Tensor ids_;       // [batch, step]
  Tensor next_;      // [batch, 1]
  Tensor hidden_;    // [batch * step, hidden]
  Tensor normed_;    // [batch * step, hidden]
  Tensor qkv_;       // [batch * step, (q_heads + 2 kv_heads) * head_dim]
  Tensor mixed_;     // [batch * step, ...]: attention's output and the MLP's hidden layer, side by side where
                     // the residual is parallel, one after the other where it is not
  Tensor wide_;      // [batch * step, 2 * ffn_hidden], gated MLPs only
  Tensor head_normed_;  // [logits_rows, hidden]
  Tensor logits_;       // [logits_rows, vocab] f32
  Buffer scores_, workspace_;
  int length_ = 0;
};

}  // namespace attn
