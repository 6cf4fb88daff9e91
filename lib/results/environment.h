// The part of a record that tells where, by what and how it was measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/results/value.h"

namespace attn {

struct MachineInfo {  // no host name: records are published
  std::string cpu;
  int logical_cores = 0;  // that this process may use
  std::int64_t ram_bytes = 0;
  std::string os, kernel;
};
MachineInfo describe_machine();

struct RunContext {
  std::vector<std::string> argv;
  std::string device;  // in words, e.g. "NVIDIA H200"; empty: the CPU's name
  int threads = 0;     // 0: not stated
  Fields libraries;    // name -> version or configuration, e.g. {"openblas", openblas_get_config()}
};

// {argv, version, git_commit, git_dirty, compiler, compiler_flags, build_type, [build_warning], device, cpu,
// logical_cores, ram_bytes, os, kernel, threads, libraries}. build_warning marks a debug or sanitizer build,
// whose times mean nothing.
Fields environment_fields(const RunContext& context);

// Now, as RFC 3339 in UTC: "2025-01-31T12:34:56Z".
std::string utc_now();

}  // namespace attn
