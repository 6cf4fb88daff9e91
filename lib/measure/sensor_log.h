// SensorLog: what a device's sensors show while timed windows are open, sampled by a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lib/backend/sensors.h"

namespace attn {

struct SensorWindow {
  double seconds = 0;
  std::vector<SensorSample> samples;
  std::vector<double> sample_s;    // when, since the window was opened
  std::optional<double> energy_j;  // the counter's difference between end() and begin()
};

// The thread sleeps while no window is open and asks the sensors alone: it gives the device no work.
class SensorLog {
 public:
  explicit SensorLog(std::unique_ptr<Sensors> sensors,
                     std::chrono::duration<double> period = std::chrono::milliseconds(20));
  ~SensorLog();
  SensorLog(const SensorLog&) = delete;
  SensorLog& operator=(const SensorLog&) = delete;

  void begin();        // forgets a window that was not ended
  SensorWindow end();  // what was seen since begin()
  const Sensors& sensors() const { return *sensors_; }
  double period_s() const { return period_.count(); }

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  std::optional<double> read_energy();

  std::unique_ptr<Sensors> sensors_;
  std::chrono::duration<double> period_;
  std::mutex reading_;  // one reader of the sensors at a time
  std::mutex mutex_;    // of all below
  std::condition_variable changed_;
  SensorWindow window_;
  std::optional<double> energy_before_;
  Clock::time_point begun_;
  std::size_t number_ = 0;  // of windows opened so far
  bool open_ = false, stop_ = false;
  std::thread thread_;
};

// Several windows of one kind together. What is missing has its reason in words.
struct SensorSummary {
  std::size_t windows = 0, samples = 0;
  double seconds = 0;
  std::optional<double> sm_clock_median_mhz, sm_clock_min_mhz;
  std::optional<double> memory_clock_median_mhz, memory_clock_min_mhz;
  std::optional<double> mean_power_w, max_temperature_c;
  std::string power_source;
  std::optional<std::vector<std::string>> throttle_reasons;  // seen in any sample
  std::optional<double> energy_j;                            // of all windows
  std::string energy_source;
  double energy_error = 0;  // the share by which energy_j may be off: the sensor is renewed only so often
  std::vector<std::string> missing;
};

// Medians need 3 samples. An energy is given where it is off by 20 % at most: the counter (or the power,
// where there is none) is renewed in steps of time, and each end of a window can miss one.
SensorSummary summary_of(std::span<const SensorWindow> windows, const Sensors& sensors, double period_s);

}  // namespace attn
