// The layout of a product of few rows.
#include "kernels/cuda/skinny_plan.h"

#include <algorithm>

namespace attn::cuda::skinny {

namespace {

// By measurement (H200). The stages bridge the time in which a block waits for its input and norms it; more
// than the window under way only queues, and then all that others ask for waits in that queue.
constexpr int kStageBytes = 168 << 10;
constexpr int kWindowBytes = 84 << 10;

// Blocks for the first part: the parts' shares of the weights, and none without.
unsigned blocks_of_first(const SkinnyProduct& p, int blocks) {
  if (p.part_count == 1) return static_cast<unsigned>(blocks);
  const auto rows = [](const SkinnyPart& part) {
    return static_cast<std::int64_t>(part.size) * (part.gated ? 2 : 1);
  };
  const std::int64_t all = rows(p.parts[0]) + rows(p.parts[1]);
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((blocks * rows(p.parts[0]) + all / 2) / all, 1, blocks - 1));
}

}  // namespace

bool plan(const SkinnyProduct& p, const SkinnyLimits& limits, Layout& layout) {
  const int late = p.normed ? p.inner : p.late_columns;
  constexpr int kWidest = 2560;  // columns: narrower chunks cost more waiting
  const int longest = std::max(late, p.inner - late);
  const int pieces = (longest + kWidest - 1) / kWidest;
  layout.chunk = ((longest + pieces - 1) / pieces + kStep - 1) / kStep * kStep;
  layout.early = p.normed ? 0 : (p.inner - late + layout.chunk - 1) / layout.chunk;
  layout.all = layout.early + (late + layout.chunk - 1) / layout.chunk;
  layout.contiguous = layout.all == 1;
  for (int n = 0; n < p.part_count; ++n)
    layout.contiguous = layout.contiguous && p.parts[n].weight_step == p.inner;
  // Rows that lie together have no gaps that would spread them over the banks; reading them twice as long
  // costs less than a copy for each row.
  layout.stage_step = layout.contiguous ? p.inner * 2 : row_step(layout.chunk);
  const int stage_bytes = kTile * layout.stage_step;
  const int input_bytes =
      p.normed ? p.rows * row_step(p.inner) : kInputSlots * p.rows * row_step(layout.chunk);
  const int partials_bytes = 2 * kConsumers * kGroup * kTile * p.rows * static_cast<int>(sizeof(float));
  const int fixed_bytes = 1024;  // of the kernel's own
  const int norm_bytes = p.normed ? 2 * p.inner * 2 : 0;
  const int left =
      static_cast<int>(limits.block_shared_bytes) - input_bytes - partials_bytes - norm_bytes - fixed_bytes;
  layout.stages = std::min({kMostStages, left / stage_bytes, kStageBytes / stage_bytes});
  if (layout.stages < 2) return false;
  layout.window = std::clamp(kWindowBytes / stage_bytes, 1, layout.stages);
  layout.input = layout.stages * stage_bytes;
  layout.partials = layout.input + input_bytes;
  layout.norm = layout.partials + partials_bytes;
  layout.bytes = layout.norm + norm_bytes;
  layout.first_blocks = blocks_of_first(p, limits.sm_count);
  return true;
}

}  // namespace attn::cuda::skinny
