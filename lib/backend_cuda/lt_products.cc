// Matrix products by cuBLASLt.
//
// cuBLASLt counts columns first, so a row-major matrix is its transpose: out^T = other in^T, and a bias of
// our columns is one of its rows.
#include "lib/backend_cuda/lt_products.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/backend_cuda/cuda_check.h"
#include "lib/core/error.h"
#include "lib/tensor/dtype_names.h"

namespace attn {

namespace {

constexpr int kCandidates = 12;
// Below this a choice is worth less than its search: a matrix of 2560 x 7680 from 13 rows on.
constexpr std::int64_t kTimedMultiplications = std::int64_t{1} << 28;
// A sweep over texts of every length must not spend its time searching.
constexpr int kMostTimedShapes = 256;

// The largest power of two up to 256 that divides both a place and the bytes between rows.
std::uint32_t alignment(const void* place, std::int64_t step, DType dtype) {
  const auto bytes = static_cast<std::uint64_t>(step) * size_of(dtype);
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(place) | bytes | 256U;
  return static_cast<std::uint32_t>(bits & ~(bits - 1));
}

template <typename Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  ATTN_CUBLAS(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value));
}

template <typename Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  ATTN_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
}

int attribute_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  std::uint32_t value = 0;  // some attributes are 16 bits wide
  std::size_t written = 0;
  if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written) ==
      CUBLAS_STATUS_SUCCESS)
    return static_cast<int>(value);
  std::uint16_t narrow = 0;
  if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &narrow, sizeof narrow, &written) ==
      CUBLAS_STATUS_SUCCESS)
    return narrow;
  return -1;
}

std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  return fmt::format("cuBLASLt id {}, tile {}, stages {}, split-k {}, cluster {}, swizzle {}, custom {}",
                     attribute_of(algorithm, CUBLASLT_ALGO_CONFIG_ID),
                     attribute_of(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     attribute_of(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     attribute_of(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                     attribute_of(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
                     attribute_of(algorithm, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
                     attribute_of(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION));
}

std::string text_of(const Product& p) {
  return fmt::format("[{}, {}] x [{}, {}]{} {} -> {}{}{}{}", p.rows, p.inner, p.columns, p.inner,
                     p.other_transposed ? "" : "^T", kDTypeNames.name(p.dtype), kDTypeNames.name(p.out_dtype),
                     p.beta != 0 ? ", added" : "", p.bias != nullptr ? ", bias" : "",
                     p.gelu_tanh ? ", gelu_tanh" : "");
}

// A pair of events around repeated runs.
class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    ATTN_CUDA(cudaEventCreate(&begin_));
    ATTN_CUDA(cudaEventCreate(&end_));
  }
  ~Timer() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Microseconds a run.
  template <typename Run>
  double time(int runs, const Run& run) {
    ATTN_CUDA(cudaEventRecord(begin_, stream_));
    for (int n = 0; n < runs; ++n) run();
    ATTN_CUDA(cudaEventRecord(end_, stream_));
    ATTN_CUDA(cudaEventSynchronize(end_));
    float ms = 0;
    ATTN_CUDA(cudaEventElapsedTime(&ms, begin_, end_));
    return static_cast<double>(ms) * 1e3 / runs;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace

struct LtProducts::Call {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t other = nullptr;
  cublasLtMatrixLayout_t in = nullptr;
  cublasLtMatrixLayout_t out = nullptr;

  explicit Call(const Product& p) {
    const auto columns = static_cast<std::uint64_t>(p.columns);
    const auto rows = static_cast<std::uint64_t>(p.rows);
    const auto inner = static_cast<std::uint64_t>(p.inner);
    ATTN_CUBLAS(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.other_transposed ? CUBLAS_OP_N : CUBLAS_OP_T);
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    if (p.bias != nullptr) {
      set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
          p.gelu_tanh ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
      set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    }
    ATTN_CUBLAS(cublasLtMatrixLayoutCreate(&other, data_type(p.dtype), p.other_transposed ? columns : inner,
                                           p.other_transposed ? inner : columns, p.other_step));
    ATTN_CUBLAS(cublasLtMatrixLayoutCreate(&in, data_type(p.dtype), inner, rows, p.in_step));
    ATTN_CUBLAS(cublasLtMatrixLayoutCreate(&out, data_type(p.out_dtype), columns, rows, p.out_step));
  }
  ~Call() {
    if (out != nullptr) cublasLtMatrixLayoutDestroy(out);
    if (in != nullptr) cublasLtMatrixLayoutDestroy(in);
    if (other != nullptr) cublasLtMatrixLayoutDestroy(other);
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  cublasStatus_t run(const LtProducts& owner, const Product& p, const cublasLtMatmulAlgo_t& algorithm,
                     std::size_t workspace_bytes) const {
    return cublasLtMatmul(owner.handle_, operation, &p.alpha, p.other, other, p.in, in, &p.beta, p.out, out,
                          p.out, out, &algorithm, owner.workspace_, workspace_bytes, owner.device_.stream());
  }

  std::vector<cublasLtMatmulHeuristicResult_t> candidates(const LtProducts& owner, const Product& p) const {
    cublasLtMatmulPreference_t preference = nullptr;
    ATTN_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
    const std::uint64_t workspace = owner.workspace_bytes_;
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    // Partial sums are kept and added in f32: neither in the output's type nor in the output itself.
    const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.other, p.other_step, p.dtype));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.in, p.in_step, p.dtype));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p.out, p.out_step, p.out_dtype));
    // The bias counts as part of the output.
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        std::min(alignment(p.out, p.out_step, p.out_dtype), alignment(p.bias, 0, p.out_dtype)));
    std::vector<cublasLtMatmulHeuristicResult_t> found(kCandidates);
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        owner.handle_, operation, other, in, out, out, preference, kCandidates, found.data(), &count);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) ATTN_CUBLAS(status);
    if (status != CUBLAS_STATUS_SUCCESS) count = 0;
    found.resize(static_cast<std::size_t>(count));
    found.erase(std::remove_if(found.begin(), found.end(),
                               [&](const cublasLtMatmulHeuristicResult_t& one) {
                                 return one.state != CUBLAS_STATUS_SUCCESS ||
                                        one.workspaceSize > owner.workspace_bytes_;
                               }),
                found.end());
    return found;
  }
};

LtProducts::LtProducts(CudaDevice& device, void* workspace, std::size_t workspace_bytes)
    : device_(device), workspace_(workspace), workspace_bytes_(workspace_bytes) {
  ATTN_CUBLAS(cublasLtCreate(&handle_));
}

LtProducts::~LtProducts() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

LtProducts::Key LtProducts::key_of(const Product& p) {
  return {p.rows,
          p.columns,
          p.inner,
          p.in_step,
          p.other_step,
          p.out_step,
          p.other_transposed ? 1 : 0,
          static_cast<std::int64_t>(p.dtype),
          static_cast<std::int64_t>(p.out_dtype),
          p.beta != 0 ? 1 : 0,
          (p.bias != nullptr ? 1 : 0) + (p.gelu_tanh ? 2 : 0),
          alignment(p.in, p.in_step, p.dtype),
          alignment(p.other, p.other_step, p.dtype),
          alignment(p.out, p.out_step, p.out_dtype),
          alignment(p.bias, 0, p.out_dtype)};
}

bool LtProducts::recording() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ATTN_CUDA(cudaStreamIsCapturing(device_.stream(), &status));
  return status != cudaStreamCaptureStatusNone;
}

bool LtProducts::multiply(const Product& product) {
  if (product.rows == 0 || product.columns == 0) return true;
  Call call(product);
  const Key key = key_of(product);
  auto found = choices_.find(key);
  if (found == choices_.end()) {
    Choice choice = choose(product, call);
    choice.order = choices_.size();
    found = choices_.emplace(key, std::move(choice)).first;
  }
  if (!found->second.exists) return false;
  ATTN_CUBLAS(call.run(*this, product, found->second.algorithm, workspace_bytes_));
  return true;
}

LtProducts::Choice LtProducts::choose(const Product& product, Call& call) {
  Choice choice;
  choice.record.shape = text_of(product);
  const auto candidates = call.candidates(*this, product);
  if (candidates.empty()) {
    choice.record.algorithm = "none of cuBLASLt";
    return choice;
  }
  choice.exists = true;
  choice.record.candidates = static_cast<int>(candidates.size());
  std::size_t best = 0;
  if (product.rows * product.columns * product.inner < kTimedMultiplications) {
    choice.record.why_not_timed = "small";
  } else if (recording()) {
    choice.record.why_not_timed = "first used in a recording";
  } else if (timed_ == kMostTimedShapes) {
    choice.record.why_not_timed = fmt::format("{} shapes were timed before it", kMostTimedShapes);
  } else {
    ++timed_;
    const std::vector<double> times = time_candidates(product, call, candidates);
    if (times.empty()) {
      choice.record.why_not_timed = "no memory to keep what is added to";
    } else {
      best = static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
      if (!std::isfinite(times[best])) {
        choice.exists = false;
        choice.record.algorithm = "none of cuBLASLt that runs";
        return choice;
      }
      choice.record.chosen_us = times[best];
      if (std::isfinite(times.front())) choice.record.first_us = times.front();
    }
  }
  choice.algorithm = candidates[best].algo;
  choice.record.algorithm = text_of(choice.algorithm);
  return choice;
}

// What a product replaces may be written by every candidate; what it adds to is kept aside meanwhile: at the
// workspace's end, or where it is too large for that in memory of its own.
std::vector<double> LtProducts::time_candidates(
    const Product& product, Call& call, const std::vector<cublasLtMatmulHeuristicResult_t>& candidates) {
  constexpr std::size_t kFinalists = 4;
  constexpr int kRounds = 4;
  constexpr int kRuns = 2;
  constexpr std::size_t kAlignment = 256;
  const std::size_t row_bytes = static_cast<std::size_t>(product.columns) * size_of(product.out_dtype);
  const std::size_t step_bytes = static_cast<std::size_t>(product.out_step) * size_of(product.out_dtype);
  const auto rows = static_cast<std::size_t>(product.rows);
  const cudaStream_t stream = device_.stream();
  std::size_t room = workspace_bytes_;  // that candidates may use
  Buffer own;
  void* kept = nullptr;
  if (product.beta != 0) {
    const std::size_t bytes = row_bytes * rows;
    if (bytes <= workspace_bytes_ / 2) {
      room = (workspace_bytes_ - bytes) / kAlignment * kAlignment;
      kept = static_cast<std::byte*>(workspace_) + room;
    } else {
      try {
        own = device_.allocate(bytes, MemoryUse::workspace);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::out_of_memory) throw;
        return {};
      }
      kept = own.data();
    }
    ATTN_CUDA(cudaMemcpy2DAsync(kept, row_bytes, product.out, step_bytes, row_bytes, rows,
                                cudaMemcpyDeviceToDevice, stream));
  }

  std::vector<double> times(candidates.size(), std::numeric_limits<double>::infinity());
  std::vector<std::size_t> running;
  Timer timer(stream);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].workspaceSize > room) continue;
    const auto run = [&] { ATTN_CUBLAS(call.run(*this, product, candidates[i].algo, room)); };
    // The first run loads the kernel.
    if (call.run(*this, product, candidates[i].algo, room) != CUBLAS_STATUS_SUCCESS) continue;
    times[i] = timer.time(1, run);
    running.push_back(i);
  }
  std::sort(running.begin(), running.end(),
            [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
  if (running.size() > kFinalists) {
    // The library's own favourite stays for the record.
    const bool first_in =
        std::find(running.begin(), running.begin() + kFinalists, 0U) != running.begin() + kFinalists;
    running.resize(kFinalists);
    if (!first_in && std::isfinite(times[0])) running.push_back(0);
  }
  std::vector<double> best(candidates.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < kRounds; ++round) {
    for (const std::size_t i : running) {
      best[i] = std::min(best[i], timer.time(kRuns, [&] {
        ATTN_CUBLAS(call.run(*this, product, candidates[i].algo, room));
      }));
    }
  }
  if (product.beta != 0) {
    ATTN_CUDA(cudaMemcpy2DAsync(product.out, step_bytes, kept, row_bytes, row_bytes, rows,
                                cudaMemcpyDeviceToDevice, stream));
  }
  return best;
}

std::vector<ProductRecord> LtProducts::choices() const {
  std::vector<ProductRecord> records(choices_.size());
  for (const auto& [key, choice] : choices_) records[choice.order] = choice.record;
  return records;
}

}  // namespace attn
