// One attention call of a test.
#include "tests/conformance/attention_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/tensor/convert.h"
#include "lib/tensor/dtype_names.h"

namespace attn::conformance {

namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr unsigned char kPoison = 0xff;

std::size_t rounded_up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

void poison(Device& device, void* memory, std::size_t bytes) {
  constexpr std::size_t kChunk = std::size_t{1} << 16;
  const std::vector<unsigned char> chunk(std::min(bytes, kChunk), kPoison);
  if (!chunk.empty()) device.upload(memory, chunk.data(), chunk.size());
  for (std::size_t done = chunk.size(); done < bytes; done *= 2)  // what is there, once more behind it
    device.copy(static_cast<char*>(memory) + done, memory, std::min(done, bytes - done));
}

Guarded::Guarded(Device& device, std::size_t bytes)
    : device_(device), bytes_(bytes), buffer_(device.allocate(bytes + 2 * kGuardBytes, MemoryUse::other)) {
  poison(device, buffer_.data(), buffer_.bytes());
}

void* Guarded::data() const { return static_cast<char*>(buffer_.data()) + kGuardBytes; }

bool Guarded::guards_whole() const {
  std::vector<unsigned char> guards(2 * kGuardBytes);
  device_.download(guards.data(), buffer_.data(), kGuardBytes);
  device_.download(guards.data() + kGuardBytes, static_cast<char*>(data()) + bytes_, kGuardBytes);
  return std::all_of(guards.begin(), guards.end(), [](unsigned char byte) { return byte == kPoison; });
}

Uploaded::Uploaded(Device& device, const std::vector<float>& numbers, DType dtype)
    : device_(device), bits_(numbers.size() * size_of(dtype)) {
  convert_elements(numbers.data(), DType::f32, bits_.data(), dtype, numbers.size());
  buffer_ = device.allocate(bits_.size(), MemoryUse::other);
  if (!bits_.empty()) device.upload(buffer_.data(), bits_.data(), bits_.size());
}

bool Uploaded::unchanged() const {
  std::vector<char> now(bits_.size());
  if (!now.empty()) device_.download(now.data(), buffer_.data(), now.size());
  return now == bits_;
}

AttentionRun::AttentionRun(Platform& platform, AttentionBackend& backend, const Case& test,
                           const Inputs& inputs, DType dtype)
    : platform_(platform),
      backend_(backend),
      problem_(test.problem),
      dtype_(dtype),
      inputs_(inputs),
      q_(*platform.device, inputs.q_data, dtype),
      k_(*platform.device, inputs.k_data, dtype),
      v_(*platform.device, inputs.v_data, dtype) {
  problem_.dtype = dtype;
  where_ = test.what + ": " + problem_.text() + ", mode " + std::string(backend.name()) + ", fill " +
           std::to_string(static_cast<int>(test.fill));
}

AttentionTensors AttentionRun::tensors(void* out, void* lse) {
  const AttentionProblem& p = problem_;
  AttentionTensors tensors;
  tensors.q = inputs_.q.view(q_.data(), dtype_);
  tensors.k = inputs_.k.view(inputs_.shared ? q_.data() : k_.data(), dtype_);
  tensors.v = inputs_.v.view(inputs_.shared ? q_.data() : v_.data(), dtype_);
  tensors.out = out_placement(p).view(out, dtype_);
  tensors.lse = TensorView(lse, DType::f32, {p.batch, p.q_heads, p.q_len});
  return tensors;
}

AttentionResult AttentionRun::run() {
  const AttentionProblem& p = problem_;
  Device& device = *platform_.device;
  const auto elements = static_cast<std::size_t>(out_placement(p).elements);
  const auto lse_count = static_cast<std::size_t>(p.batch) * p.q_heads * p.q_len;
  const AttentionScratch need = backend_.scratch(p);
  const Guarded scores(device, need.scores_bytes);
  const Guarded workspace(device, need.workspace_bytes);
  const Guarded out(device, elements * size_of(dtype_));
  const Guarded lse(device, lse_count * sizeof(float));
  backend_.forward(p, tensors(out.data(), lse.data()), scores.data(), workspace.data());
  device.synchronize();

  AttentionResult result;
  std::vector<char> bits(elements * size_of(dtype_));
  device.download(bits.data(), out.data(), bits.size());
  result.out.resize(elements);
  convert_elements(bits.data(), dtype_, result.out.data(), DType::f32, elements);
  result.lse.resize(lse_count);
  device.download(result.lse.data(), lse.data(), lse_count * sizeof(float));

  const auto demand = [&](bool fulfilled, const char* what) {
    if (!fulfilled) result.failures.push_back(where_ + ": " + what);
  };
  demand(scores.guards_whole(), "wrote outside the scores");
  demand(workspace.guards_whole(), "wrote outside the workspace");
  demand(out.guards_whole() && lse.guards_whole(), "wrote outside the output");
  demand(q_.unchanged() && k_.unchanged() && v_.unchanged(), "changed an input");
  return result;
}

int AttentionRun::first_other_bits(int count) {
  const AttentionProblem& p = problem_;
  Device& device = *platform_.device;
  const Placement place = out_placement(p);
  const std::size_t out_bytes = static_cast<std::size_t>(place.elements) * size_of(dtype_);
  const std::size_t lse_bytes = static_cast<std::size_t>(p.batch) * p.q_heads * p.q_len * sizeof(float);
  const std::size_t apart = rounded_up(out_bytes) + rounded_up(lse_bytes);
  const AttentionScratch need = backend_.scratch(p);
  const Guarded scores(device, need.scores_bytes);
  const Guarded workspace(device, need.workspace_bytes);
  const Buffer results = device.allocate(apart * static_cast<std::size_t>(count), MemoryUse::other);
  poison(device, results.data(), results.bytes());
  for (int n = 0; n < count; ++n) {
    char* out = static_cast<char*>(results.data()) + static_cast<std::size_t>(n) * apart;
    backend_.forward(p, tensors(out, out + rounded_up(out_bytes)), scores.data(), workspace.data());
  }
  std::vector<char> bits(results.bytes());
  device.download(bits.data(), results.data(), bits.size());

  std::vector<float> first(static_cast<std::size_t>(place.elements));
  convert_elements(bits.data(), dtype_, first.data(), DType::f32, first.size());
  for (std::int64_t n = 0; n < place.elements - 2 * place.first; ++n)
    if (std::isnan(first[static_cast<std::size_t>(place.first + n)])) return 0;
  for (int n = 1; n < count; ++n)
    if (std::memcmp(bits.data(), bits.data() + static_cast<std::size_t>(n) * apart, apart) != 0) return n;
  return -1;
}

bool within(double value, double expected, double tolerance) {
  return value == expected || std::fabs(value - expected) <= tolerance;
}

void compare(const Case& test, const AttentionResult& result, const Expected& expected,
             const std::string& where, Failures& failures) {
  const AttentionProblem& p = test.problem;
  const Placement place = out_placement(p);
  std::vector<bool> written(result.out.size(), false);
  for (int b = 0; b < p.batch; ++b) {
    for (int i = 0; i < p.q_len; ++i) {
      for (int h = 0; h < p.q_heads; ++h) {
        const auto row = (static_cast<std::size_t>(b) * p.q_len + i) * p.q_heads + h;
        for (int d = 0; d < p.head_dim; ++d) {
          const auto at = static_cast<std::size_t>(place.at(b, i, h, d));
          written[at] = true;
          const auto value = static_cast<double>(result.out[at]);
          const double truth = expected.out[row * p.head_dim + d];
          if (within(value, truth, expected.out_tolerance[row])) continue;
          failures.push_back(fmt::format("{}: out[{}, {}, {}, {}] is {} instead of {} (tolerance {})", where,
                                         b, i, h, d, value, truth, expected.out_tolerance[row]));
          return;
        }
        const auto at = (static_cast<std::size_t>(b) * p.q_heads + h) * p.q_len + i;
        const auto lse = static_cast<double>(result.lse[at]);
        if (within(lse, expected.lse[at], expected.lse_tolerance[row])) continue;
        failures.push_back(
            fmt::format("{}: lse[{}, {}, {}] is {} instead of {}", where, b, h, i, lse, expected.lse[at]));
        return;
      }
    }
  }
  for (std::size_t n = 0; n < written.size(); ++n) {
    if (written[n] || std::isnan(result.out[n])) continue;
    failures.push_back(
        fmt::format("{}: wrote between or beside the rows of the output, element {}", where, n));
    return;
  }
}

AttentionProblem sized(int batch, int q_len, int kv_len, int q_heads, int kv_heads, int head_dim) {
  AttentionProblem p;
  p.batch = batch;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  p.head_dim = head_dim;
  p.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  return p;
}

DType kept_scores(const AttentionBackend& backend, AttentionProblem problem, DType dtype) {
  problem.dtype = dtype;
  const std::string kernel = backend.kernel_for(problem);
  for (const DType kept : {DType::f16, DType::bf16}) {
    if (kernel.find(fmt::format("_{}scores", kDTypeNames.name(kept))) != std::string::npos) return kept;
  }
  return DType::f32;
}

std::vector<DType> dtypes_of(const AttentionBackend& backend, AttentionProblem problem) {
  std::vector<DType> all;
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    problem.dtype = dtype;
    if (!backend.why_not(problem)) all.push_back(dtype);
  }
  return all;
}

void append(Failures& all, const Failures& more) { all.insert(all.end(), more.begin(), more.end()); }

}  // namespace attn::conformance
