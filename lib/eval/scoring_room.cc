// Sizes from the model and the device; bytes from the sizes.
#include "lib/eval/scoring_room.h"

#include <algorithm>

#include "lib/backend/logit_comparison.h"

namespace attn {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

}  // namespace

std::int64_t ScoringRoom::ids(int sequences) const { return round_up(batch, sequences) * tokens; }

std::size_t ScoringRoom::input_bytes(int sequences, bool decodes) const {
  return static_cast<std::size_t>(ids(sequences)) * (decodes ? 3 : 2) * sizeof(std::int32_t);
}

ScoringRoom ScoringRoom::of(const Device& device, const ModelConfig& config, int batch,
                            std::int64_t context) {
  ScoringRoom room;
  room.batch = batch;
  room.tokens = static_cast<int>(config.position == PositionKind::learned
                                     ? std::min<std::int64_t>(context, config.max_positions)
                                     : context);
  if (!device.records()) {
    room.logits_rows = std::min(kHostLogitsRows, room.tokens);
    return room;
  }
  constexpr int kStep = 64;
  room.step = kStep;
  const std::int64_t row_bytes =
      static_cast<std::int64_t>(config.vocab) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t fitting = std::max<std::int64_t>(kStep, kLogitsBytes / row_bytes / kStep * kStep);
  room.logits_rows =
      static_cast<int>(std::min(fitting, round_up(static_cast<std::int64_t>(batch) * room.tokens, kStep)));
  return room;
}

std::vector<Reservation> ScoringRoom::calls(ForwardPath path) const {
  std::vector<Reservation> calls;
  if (path == ForwardPath::decode) {
    for (int keys = tokens; keys > 0; --keys) calls.push_back({1, keys});
    return calls;
  }
  calls.push_back({tokens, tokens});
  for (int length = (tokens - 1) / step * step; length > 0; length -= step) calls.push_back({length, length});
  return calls;
}

void reserve_scoring(Transformer& transformer, const AttentionBackend& attention, ForwardPath path,
                     const ScoringRoom& room) {
  const std::vector<Reservation> calls = room.calls(path);
  for (int sequences = transformer.shape().batch; sequences > 0; --sequences) {
    for (const Reservation& call : calls) transformer.reserve(attention, call, sequences);
  }
}

BytesByUse predict_scoring_memory(const ModelConfig& config, DType dtype, const ScoringRoom& room,
                                  int sequences, std::span<const PlannedVariant> variants,
                                  std::size_t pairs) {
  BytesByUse bytes{};
  bool decodes = false;
  for (const PlannedVariant& variant : variants) {
    const std::vector<Reservation> calls = room.calls(variant.path);
    for (int together = sequences; together > 0; --together) {
      const BytesByUse alone = predict_memory(config, dtype, room.shape(together), *variant.attention, calls);
      for (std::size_t use = 0; use < bytes.size(); ++use) bytes[use] = std::max(bytes[use], alone[use]);
    }
    decodes = decodes || variant.path == ForwardPath::decode;
  }
  const auto entry = [&](MemoryUse use) -> std::size_t& { return bytes[static_cast<std::size_t>(use)]; };
  const auto rows = static_cast<std::size_t>(room.rows());
  const std::size_t kept = pairs > 0 ? variants.size() : 1;
  entry(MemoryUse::activations) += kept * rows * static_cast<std::size_t>(config.hidden) * size_of(dtype);
  entry(MemoryUse::logits) += (kept - 1) * static_cast<std::size_t>(room.logits_rows) *
                              static_cast<std::size_t>(config.vocab) * sizeof(float);
  entry(MemoryUse::other) += room.input_bytes(sequences, decodes) + variants.size() * rows * sizeof(double) +
                             pairs * rows * sizeof(LogitComparison);
  return bytes;
}

}  // namespace attn
