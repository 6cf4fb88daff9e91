// The factory: from a spec's text to a device with its operations and backends; alone knows which devices
// exist.
#include "lib/backend/platform.h"

#include <charconv>
#include <optional>

#include "lib/backend_cpu/cpu_platform.h"
#if ATTN_WITH_CUDA
#include "lib/backend_cuda/cuda_platform.h"
#endif
#include "lib/core/error.h"

namespace attn {

AttentionBackend& Platform::backend(std::string_view mode) const {
  std::string known;
  for (const auto& candidate : attention) {
    if (candidate->name() == mode) return *candidate;
    known += (known.empty() ? "" : ", ") + std::string(candidate->name());
  }
  fail(ErrorKind::usage, "mode '{}' is not known on device {}; it must be one of: {}", mode,
       device->info().spec, known);
}

namespace {

// The index in "cuda" (0) or "cuda:N"; nothing for another spec.
std::optional<int> cuda_index(std::string_view spec) {
  constexpr std::string_view kPrefix = "cuda:";
  if (spec == "cuda") return 0;
  if (spec.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  int index = -1;
  const char* end = spec.data() + spec.size();
  const auto [stop, error] = std::from_chars(spec.data() + kPrefix.size(), end, index);
  if (error != std::errc() || stop != end || index < 0) return std::nullopt;
  return index;
}

#if !ATTN_WITH_CUDA
bool has_cuda_device() { return false; }
Platform open_cuda_platform(int, const PlatformOptions&) {
  fail(ErrorKind::unsupported, "this build has no CUDA; use --device cpu");
}
#endif

}  // namespace

Platform open_platform(std::string_view spec, const PlatformOptions& options) {
  if (spec == "cpu") return open_cpu_platform(options);
  if (spec == "auto") return has_cuda_device() ? open_cuda_platform(0, options) : open_cpu_platform(options);
  if (const auto index = cuda_index(spec)) return open_cuda_platform(*index, options);
  fail(ErrorKind::usage, "device '{}' is not known; it must be one of: cpu, cuda, cuda:N, auto", spec);
}

}  // namespace attn
