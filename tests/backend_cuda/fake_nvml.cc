// A library with NVML's entry points and one GPU, for tests of what is loaded at run time.
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int status) { return status == 3 ? "Not Supported" : "Not Found"; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "999.1", length);
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  static int gpu = 7;
  if (std::strcmp(address, "0000:1b:00.0") != 0) return 6;
  *device = &gpu;
  return 0;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  if (*static_cast<int*>(device) != 7) return 2;
  *mhz = type == 1 ? 1980 : 2619;
  return type == 1 || type == 2 ? 0 : 2;
}
int nvmlDeviceGetTemperature(void*, int, unsigned*) { return 3; }
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 500000;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* millijoules) {
  *millijoules = 1234500;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) {  // the old name
  *bits = 0x4 | 0x400;
  return 0;
}
// nvmlFieldValue_t: id at 0, value's type at 24, status at 28, value at 32.
int nvmlDeviceGetFieldValues(void*, int count, char* values) {
  unsigned id = 0;
  std::memcpy(&id, values, sizeof id);
  const int type = 1;
  const int status = count == 1 && id == 186 ? 0 : 3;
  const unsigned milliwatts = 612500;
  std::memcpy(values + 24, &type, sizeof type);
  std::memcpy(values + 28, &status, sizeof status);
  std::memcpy(values + 32, &milliwatts, sizeof milliwatts);
  return 0;
}
}
