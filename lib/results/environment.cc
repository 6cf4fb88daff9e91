// What the compiler, /proc and the kernel know.
#include "lib/results/environment.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/core/build_info.h"

namespace attn {
namespace {

// The value of the first line "KEY<spaces><separator> VALUE"; quotes around it are dropped.
std::string value_in(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto at = line.find(separator);
    if (line.rfind(key, 0) != 0 || at == std::string::npos) continue;
    if (line.find_first_not_of(" \t", key.size()) != at) continue;
    const auto begin = line.find_first_not_of(" \t\"", at + 1);
    if (begin == std::string::npos) return "";
    return line.substr(begin, line.find_last_not_of(" \t\"") + 1 - begin);
  }
  return "";
}

}  // namespace

MachineInfo describe_machine() {
  MachineInfo machine;
  utsname names{};
  uname(&names);
  machine.kernel = fmt::format("{} {} {}", names.sysname, names.release, names.machine);
  machine.cpu = value_in("/proc/cpuinfo", "model name", ':');
  if (machine.cpu.empty()) machine.cpu = names.machine;  // ARM kernels print no name
  machine.os = value_in("/etc/os-release", "PRETTY_NAME", '=');
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  machine.logical_cores = known ? CPU_COUNT(&cores) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  machine.ram_bytes =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  return machine;
}

Fields environment_fields(const RunContext& context) {
  const BuildInfo& build = build_info();
  const MachineInfo machine = describe_machine();
  Fields fields{{"argv", context.argv},           {"version", build.version},
                {"git_commit", build.git_commit}, {"git_dirty", build.git_dirty},
                {"compiler", build.compiler},     {"compiler_flags", build.flags},
                {"build_type", build.build_type}};
  const bool sanitized = build.flags.find("-fsanitize") != std::string_view::npos;
  const bool optimised = build.build_type == "Release" || build.build_type == "RelWithDebInfo";
  if (sanitized) {
    fields["build_warning"] = "sanitizer build: its times mean nothing";
  } else if (!optimised) {
    fields["build_warning"] = "not an optimised build: its times mean nothing";
  }
  fields["device"] = context.device.empty() ? machine.cpu : context.device;
  fields["cpu"] = machine.cpu;
  fields["logical_cores"] = machine.logical_cores;
  fields["ram_bytes"] = machine.ram_bytes;
  fields["os"] = machine.os;
  fields["kernel"] = machine.kernel;
  if (context.threads > 0) fields["threads"] = context.threads;
  if (const char* spins = std::getenv("GOMP_SPINCOUNT")) fields["gomp_spincount"] = spins;
  if (const char* policy = std::getenv("OMP_WAIT_POLICY")) fields["omp_wait_policy"] = policy;
  fields["libraries"] = context.libraries;
  return fields;
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace attn
