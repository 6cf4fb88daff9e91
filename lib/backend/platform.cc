// The factory: from a spec's text to a device with its operations and backends; alone knows which devices
// exist.
#include "lib/backend/platform.h"

#include <charconv>

#include "lib/backend_cpu/cpu_platform.h"
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

bool names_cuda(std::string_view spec) {
  constexpr std::string_view kPrefix = "cuda:";
  if (spec == "cuda") return true;
  if (spec.substr(0, kPrefix.size()) != kPrefix) return false;
  int index = -1;
  const char* end = spec.data() + spec.size();
  const auto [stop, error] = std::from_chars(spec.data() + kPrefix.size(), end, index);
  return error == std::errc() && stop == end && index >= 0;
}

}  // namespace

Platform open_platform(std::string_view spec, const PlatformOptions& options) {
  if (spec == "cpu" || spec == "auto") return open_cpu_platform(options);
  if (names_cuda(spec)) fail(ErrorKind::unsupported, "this build has no CUDA; use --device cpu");
  fail(ErrorKind::usage, "device '{}' is not known; it must be one of: cpu, cuda, cuda:N, auto", spec);
}

}  // namespace attn
