// Platform: a device with the operations and attention backends that run on it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "lib/backend/attention.h"
#include "lib/backend/device.h"
#include "lib/backend/ops.h"
#include "lib/core/enum_names.h"

namespace attn {

struct Platform {
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  std::vector<std::unique_ptr<AttentionBackend>> attention;

  // Throws Error{usage} naming the backends that exist.
  AttentionBackend& backend(std::string_view mode) const;
};

// The element type of mode baseline's score matrix: that of the tensors, or f32 always.
enum class BaselineScores : unsigned char { dtype, f32 };
inline constexpr auto kBaselineScoresNames =
    name_table<BaselineScores>({{BaselineScores::dtype, "dtype"}, {BaselineScores::f32, "f32"}});

struct PlatformOptions {
  int threads = 0;  // CPU threads; 0: one for each core this process may use
  BaselineScores baseline_scores = BaselineScores::dtype;
};

// "cpu", "cuda", "cuda:N", or "auto" (a GPU where this build and machine have one, else the CPU). Throws
// Error{usage} for another spec, Error{unsupported} when this build has no CUDA, Error{device} when there is
// no such GPU.
Platform open_platform(std::string_view spec, const PlatformOptions& options = {});

}  // namespace attn
