// One GPU as a Device.
#include "lib/backend_cuda/cuda_device.h"

#include <cstdint>
#include <utility>

#include "kernels/cuda/ceilings.h"
#include "kernels/cuda/random_fill.h"
#include "lib/backend_cuda/cuda_check.h"
#include "lib/backend_cuda/nvml.h"
#include "lib/core/error.h"

namespace attn {

namespace {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

int cublas_property(libraryPropertyType property) {
  int value = 0;
  cublasGetProperty(property, &value);
  return value;
}

class CudaStopwatch : public Stopwatch {
 public:
  explicit CudaStopwatch(CudaDevice& device) : device_(device) {}
  ~CudaStopwatch() override {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  CudaStopwatch(const CudaStopwatch&) = delete;
  CudaStopwatch& operator=(const CudaStopwatch&) = delete;

  void start() override {
    used_ = 0;
    mark();
  }
  void mark() override {
    if (used_ == events_.size()) {
      cudaEvent_t event = nullptr;
      ATTN_CUDA(cudaEventCreate(&event));
      events_.push_back(event);
    }
    ATTN_CUDA(cudaEventRecord(events_[used_++], device_.stream()));
  }
  std::vector<double> milliseconds() override {
    std::vector<double> out;
    if (used_ < 2) return out;
    ATTN_CUDA(cudaEventSynchronize(events_[used_ - 1]));
    device_.staging().finish_arrived();
    for (std::size_t i = 1; i < used_; ++i) {
      float ms = 0;
      ATTN_CUDA(cudaEventElapsedTime(&ms, events_[0], events_[i]));
      out.push_back(static_cast<double>(ms));
    }
    return out;
  }

 private:
  CudaDevice& device_;
  std::vector<cudaEvent_t> events_;  // the first `used_`: start, then the marks
  std::size_t used_ = 0;
};

class CudaGraph : public Graph {
 public:
  CudaGraph(const std::function<void()>& body, cudaStream_t stream) : stream_(stream) {
    // Relaxed: a library may load a kernel, or ask for an attribute, while it is recorded.
    ATTN_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    cudaGraph_t graph = nullptr;
    try {
      body();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);  // leaves the stream usable; the body's error is the one to show
      if (graph != nullptr) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    ATTN_CUDA(cudaStreamEndCapture(stream, &graph));
    const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    ATTN_CUDA(made);
    ATTN_CUDA(cudaGraphUpload(executable_, stream));
  }
  ~CudaGraph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void replay() override { ATTN_CUDA(cudaGraphLaunch(executable_, stream_)); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

CudaDevice::CudaDevice(int index) : index_(index) {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0) {
    cudaGetLastError();
    fail(ErrorKind::device, "no usable GPU: {}; check nvidia-smi, or use --device cpu",
         counted == cudaSuccess ? "the driver shows none" : cudaGetErrorString(counted));
  }
  if (index >= count)
    fail(ErrorKind::device, "there is no GPU {}: the driver shows {}, counted from 0", index, count);
  ATTN_CUDA(cudaSetDevice(index));
  ATTN_CUDA(cudaGetDeviceProperties(&properties_, index));
  if (compute_capability() < 80) {
    fail(ErrorKind::device, "GPU {} ({}) has compute capability {}.{}; 8.0 or newer is needed", index,
         properties_.name, properties_.major, properties_.minor);
  }
  ATTN_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  cudaMemPoolProps pool{};
  pool.allocType = cudaMemAllocationTypePinned;
  pool.location.type = cudaMemLocationTypeDevice;
  pool.location.id = index;
  ATTN_CUDA(cudaMemPoolCreate(&pool_, &pool));
  std::uint64_t keep_all = UINT64_MAX;  // freed memory stays with the pool: no call of the driver in a sweep
  ATTN_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all));
  staging_ = std::make_unique<PinnedStaging>(stream_);
}

CudaDevice::~CudaDevice() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  staging_.reset();
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

DeviceInfo CudaDevice::info() const {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  std::size_t free = 0, total = 0;
  ATTN_CUDA(cudaMemGetInfo(&free, &total));
  std::uint64_t reserved = 0, used = 0;  // what the pool keeps is free for us too
  ATTN_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved));
  ATTN_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used));
  return {fmt::format("cuda:{}", index_),
          properties_.name,
          properties_.totalGlobalMem,
          0,
          fmt::format("cuBLAS {}.{}.{}, CUDA runtime {}, driver for CUDA {}", cublas_property(MAJOR_VERSION),
                      cublas_property(MINOR_VERSION), cublas_property(PATCH_LEVEL), version_text(runtime),
                      version_text(driver)),
          static_cast<std::size_t>(properties_.l2CacheSize),
          free + static_cast<std::size_t>(reserved - used)};
}

void* CudaDevice::raw_allocate(std::size_t bytes) {
  void* data = nullptr;
  cudaError_t error = cudaMallocFromPoolAsync(&data, bytes, pool_, stream_);
  if (error == cudaErrorMemoryAllocation) {  // once more without what the pool keeps
    cudaGetLastError();
    ATTN_CUDA(cudaStreamSynchronize(stream_));
    ATTN_CUDA(cudaMemPoolTrimTo(pool_, 0));
    error = cudaMallocFromPoolAsync(&data, bytes, pool_, stream_);
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  ATTN_CUDA(error);
  return data;
}

void CudaDevice::raw_release(void* data, std::size_t) { cudaFreeAsync(data, stream_); }

void CudaDevice::upload(void* target, const void* source, std::size_t bytes) {
  if (bytes > 0) staging_->upload(target, source, bytes);
}
void CudaDevice::download(void* target, const void* source, std::size_t bytes) {
  if (bytes > 0) staging_->download(target, source, bytes);
}
void CudaDevice::download_later(void* target, const void* source, std::size_t bytes) {
  if (bytes > 0) staging_->download_later(target, source, bytes);
}
void CudaDevice::copy(void* target, const void* source, std::size_t bytes) {
  ATTN_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream_));
}
void CudaDevice::fill_zero(void* target, std::size_t bytes) {
  if (bytes > 0) ATTN_CUDA(cudaMemsetAsync(target, 0, bytes, stream_));
}
void CudaDevice::upload_filled(void* target, std::size_t bytes, const std::function<void(void*)>& fill) {
  if (bytes > 0) staging_->upload_filled(target, bytes, fill);
}
bool CudaDevice::fill_random(const TensorView& matrix, const RandomFill& fill) {
  ATTN_CUDA(cuda::random_fill({matrix.data, matrix.stride(0), matrix.extent(0), matrix.extent(1), fill.base,
                               fill.scale, fill.centre, matrix.dtype},
                              stream_));
  return true;
}
void CudaDevice::synchronize() { staging_->finish_all(); }
void CudaDevice::read(const void* source, std::size_t bytes) {
  ATTN_CUDA(cuda::read_all(source, bytes, sm_count(), stream_));
}

SensorAccess CudaDevice::sensors() {
  char address[32] = {};
  ATTN_CUDA(cudaDeviceGetPCIBusId(address, sizeof address, index_));
  return open_nvml_sensors(address);
}

std::unique_ptr<Stopwatch> CudaDevice::make_stopwatch() { return std::make_unique<CudaStopwatch>(*this); }
std::unique_ptr<Graph> CudaDevice::capture(std::function<void()> body) {
  return std::make_unique<CudaGraph>(body, stream_);
}

}  // namespace attn
