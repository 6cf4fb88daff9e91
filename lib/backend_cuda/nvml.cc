// The few entry points of NVML that are used, declared here: no header of it is needed to build.
#include "lib/backend_cuda/nvml.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

namespace attn {

namespace {

// NVML's ABI: types and values of nvml.h, which are the same in every version of the library.
using Status = int;  // nvmlReturn_t; 0: success
using Handle = struct NvmlDevice*;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
constexpr unsigned kPowerInstant = 186;  // NVML_FI_DEV_POWER_INSTANT, mW
constexpr int kUnsignedInt = 1;          // nvmlValueType_t

struct FieldValue {  // nvmlFieldValue_t
  unsigned field = 0, scope = 0;
  long long timestamp = 0, latency_us = 0;
  int value_type = 0;
  Status status = 0;
  union {
    double real;
    unsigned whole;
    unsigned long long wide;
  } value{};
};
static_assert(sizeof(FieldValue) == 40);

struct Reason {
  std::uint64_t bit;
  std::string_view name;
};
constexpr std::array<Reason, 9> kReasons{{{0x1, "gpu_idle"},
                                          {0x2, "applications_clocks_setting"},
                                          {0x4, "sw_power_cap"},
                                          {0x8, "hw_slowdown"},
                                          {0x10, "sync_boost"},
                                          {0x20, "sw_thermal_slowdown"},
                                          {0x40, "hw_thermal_slowdown"},
                                          {0x80, "hw_power_brake_slowdown"},
                                          {0x100, "display_clock_setting"}}};

struct Entries {
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  const char* (*error_text)(Status) = nullptr;
  Status (*driver_version)(char*, unsigned) = nullptr;
  Status (*device_at)(const char*, Handle*) = nullptr;
  Status (*clock)(Handle, int, unsigned*) = nullptr;
  Status (*temperature)(Handle, int, unsigned*) = nullptr;
  // May be absent from an old library.
  Status (*power)(Handle, unsigned*) = nullptr;
  Status (*energy)(Handle, unsigned long long*) = nullptr;
  Status (*reasons)(Handle, unsigned long long*) = nullptr;
  Status (*fields)(Handle, int, FieldValue*) = nullptr;
};

class Library {
 public:
  // `why_not` tells what failed; then loaded() is false.
  Library(const std::string& name, std::string& why_not)
      : memory_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (memory_ == nullptr) {
      const char* error = dlerror();
      why_not = fmt::format("NVML is not available: {}", error != nullptr ? error : name);
      return;
    }
    const bool whole = find("nvmlInit_v2", entries.init) && find("nvmlShutdown", entries.shutdown) &&
                       find("nvmlErrorString", entries.error_text) &&
                       find("nvmlSystemGetDriverVersion", entries.driver_version) &&
                       find("nvmlDeviceGetHandleByPciBusId_v2", entries.device_at) &&
                       find("nvmlDeviceGetClockInfo", entries.clock) &&
                       find("nvmlDeviceGetTemperature", entries.temperature);
    find("nvmlDeviceGetPowerUsage", entries.power);
    find("nvmlDeviceGetTotalEnergyConsumption", entries.energy);
    find("nvmlDeviceGetFieldValues", entries.fields);
    if (!find("nvmlDeviceGetCurrentClocksEventReasons", entries.reasons))
      find("nvmlDeviceGetCurrentClocksThrottleReasons", entries.reasons);  // its name before driver 535
    if (!whole) {
      why_not = fmt::format("NVML is not available: {} lacks an entry point that is needed", name);
      return;
    }
    const Status status = entries.init();
    if (status != 0) {
      why_not = fmt::format("NVML is not available: nvmlInit: {}", text(status));
      return;
    }
    loaded_ = true;
  }
  ~Library() {
    if (loaded_) entries.shutdown();
    if (memory_ != nullptr) dlclose(memory_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool loaded() const { return loaded_; }
  std::string text(Status status) const {
    const char* words = entries.error_text(status);
    return words != nullptr ? words : fmt::format("status {}", status);
  }

  Entries entries;

 private:
  template <typename Function>
  bool find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(memory_, name));
    return function != nullptr;
  }

  void* memory_;
  bool loaded_ = false;
};

class NvmlSensors : public Sensors {
 public:
  NvmlSensors(std::unique_ptr<Library> library, Handle device)
      : library_(std::move(library)), entries_(library_->entries), device_(device) {
    std::array<char, 96> version{};
    const bool known = entries_.driver_version(version.data(), version.size() - 1) == 0;
    info_.source = fmt::format("NVML, driver {}", known ? version.data() : "of unknown version");
    unsigned number = 0;
    unsigned long long wide = 0;
    has_sm_clock_ = works("SM clock", entries_.clock(device_, kClockSm, &number));
    has_memory_clock_ = works("memory clock", entries_.clock(device_, kClockMemory, &number));
    has_temperature_ = works("temperature", entries_.temperature(device_, kTemperatureGpu, &number));
    has_reasons_ = entries_.reasons != nullptr && works("throttle reasons", entries_.reasons(device_, &wide));
    has_energy_ = entries_.energy != nullptr && works("energy counter", entries_.energy(device_, &wide));
    choose_power();
  }

  SensorInfo info() const override { return info_; }

  SensorSample read() override {
    SensorSample sample;
    unsigned number = 0;
    unsigned long long wide = 0;
    if (has_sm_clock_ && entries_.clock(device_, kClockSm, &number) == 0) sample.sm_clock_mhz = number;
    if (has_memory_clock_ && entries_.clock(device_, kClockMemory, &number) == 0)
      sample.memory_clock_mhz = number;
    if (has_temperature_ && entries_.temperature(device_, kTemperatureGpu, &number) == 0)
      sample.temperature_c = number;
    if (has_reasons_ && entries_.reasons(device_, &wide) == 0) sample.throttle_reasons = wide;
    if (power_is_instant_) {
      sample.power_w = instant_power();
    } else if (has_power_ && entries_.power(device_, &number) == 0) {
      sample.power_w = number / 1000.0;
    }
    sample.energy_j = read_energy_j();
    return sample;
  }

  std::optional<double> read_energy_j() override {
    unsigned long long millijoules = 0;
    if (!has_energy_ || entries_.energy(device_, &millijoules) != 0) return std::nullopt;
    return static_cast<double>(millijoules) / 1000.0;
  }

  std::vector<std::string> reason_names(std::uint64_t bits) const override {
    std::vector<std::string> names;
    for (const auto& [bit, name] : kReasons) {
      if ((bits & bit) != 0) names.emplace_back(name);
      bits &= ~bit;
    }
    if (bits != 0) names.push_back(fmt::format("unknown bits {:#x}", bits));
    return names;
  }

 private:
  bool works(const char* what, Status status) {
    if (status != 0) info_.missing.push_back(fmt::format("{}: {}", what, library_->text(status)));
    return status == 0;
  }

  std::optional<double> instant_power() const {
    FieldValue value;
    value.field = kPowerInstant;
    if (entries_.fields(device_, 1, &value) != 0 || value.status != 0 || value.value_type != kUnsignedInt)
      return std::nullopt;
    return value.value.whole / 1000.0;
  }

  // The plain query is the mean of a whole second on Ampere and later, which mixes windows; the field is not.
  void choose_power() {
    power_is_instant_ = entries_.fields != nullptr && instant_power().has_value();
    if (power_is_instant_) {
      info_.power_source = "NVML_FI_DEV_POWER_INSTANT";
      info_.power_span_s = 0.1;  // NVML renews it about every 100 ms
      return;
    }
    unsigned milliwatts = 0;
    has_power_ = entries_.power != nullptr && works("power", entries_.power(device_, &milliwatts));
    if (!has_power_) return;
    info_.power_source = "nvmlDeviceGetPowerUsage, a mean over 1 s";
    info_.power_span_s = 1;
  }

  std::unique_ptr<Library> library_;
  const Entries& entries_;
  Handle device_;
  SensorInfo info_;
  bool has_sm_clock_ = false, has_memory_clock_ = false, has_temperature_ = false, has_reasons_ = false;
  bool has_energy_ = false, has_power_ = false, power_is_instant_ = false;
};

}  // namespace

SensorAccess open_nvml_sensors(const std::string& pci_address, const std::string& library) {
  SensorAccess access;
  auto loaded = std::make_unique<Library>(library, access.why_not);
  if (!loaded->loaded()) return access;
  Handle device = nullptr;
  const Status status = loaded->entries.device_at(pci_address.c_str(), &device);
  if (status != 0) {
    access.why_not =
        fmt::format("NVML is not available for the GPU at {}: {}", pci_address, loaded->text(status));
    return access;
  }
  access.sensors = std::make_unique<NvmlSensors>(std::move(loaded), device);
  return access;
}

}  // namespace attn
