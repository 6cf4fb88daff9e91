// What every attention backend of a platform must do.
#include "tests/conformance/attention_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "lib/tensor/convert.h"
#include "lib/tensor/dtype_names.h"
#include "tests/conformance/attention_data.h"

namespace attn::conformance {

namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr unsigned char kPoison = 0xff;  // NaN in f32, f16 and bf16

// Device memory of exactly `bytes` between two guards, all poisoned.
class Guarded {
 public:
  Guarded(Platform& platform, std::size_t bytes) : platform_(platform), bytes_(bytes) {
    const std::vector<unsigned char> poison(bytes + 2 * kGuardBytes, kPoison);
    buffer_ = platform.device->allocate(poison.size(), MemoryUse::other);
    platform.device->upload(buffer_.data(), poison.data(), poison.size());
  }
  void* data() const { return static_cast<char*>(buffer_.data()) + kGuardBytes; }
  bool guards_whole() const {
    std::vector<unsigned char> now(bytes_ + 2 * kGuardBytes);
    platform_.device->download(now.data(), buffer_.data(), now.size());
    const auto poisoned = [](unsigned char byte) { return byte == kPoison; };
    return std::all_of(now.begin(), now.begin() + kGuardBytes, poisoned) &&
           std::all_of(now.end() - kGuardBytes, now.end(), poisoned);
  }

 private:
  Platform& platform_;
  std::size_t bytes_;
  Buffer buffer_;
};

// Host numbers in a device buffer of `dtype`, with a copy to see that nobody changes them.
class Uploaded {
 public:
  Uploaded(Platform& platform, const std::vector<float>& numbers, DType dtype)
      : platform_(platform), bits_(numbers.size() * size_of(dtype)) {
    convert_elements(numbers.data(), DType::f32, bits_.data(), dtype, numbers.size());
    buffer_ = platform.device->allocate(bits_.size(), MemoryUse::other);
    if (!bits_.empty()) platform.device->upload(buffer_.data(), bits_.data(), bits_.size());
  }
  void* data() const { return buffer_.data(); }
  bool unchanged() const {
    std::vector<char> now(bits_.size());
    if (!now.empty()) platform_.device->download(now.data(), buffer_.data(), now.size());
    return now == bits_;
  }

 private:
  Platform& platform_;
  std::vector<char> bits_;
  Buffer buffer_;
};

struct Result {
  std::vector<float> out;  // the whole buffer, guards included
  std::vector<float> lse;
  Failures failures;
};

// One case ready to run on a backend, as often as wanted.
class Setup {
 public:
  Setup(Platform& platform, AttentionBackend& backend, const Case& test, const Inputs& inputs, DType dtype)
      : platform_(platform),
        backend_(backend),
        problem_(test.problem),
        dtype_(dtype),
        inputs_(inputs),
        q_(platform, inputs.q_data, dtype),
        k_(platform, inputs.k_data, dtype),
        v_(platform, inputs.v_data, dtype) {
    problem_.dtype = dtype;
    where_ = test.what + ": " + problem_.text() + ", mode " + std::string(backend.name()) + ", fill " +
             std::to_string(static_cast<int>(test.fill));
  }

  const std::string& where() const { return where_; }

  Result run() {
    const AttentionProblem& p = problem_;
    const Placement place = out_placement(p);
    const AttentionScratch need = backend_.scratch(p);
    const Guarded scores(platform_, need.scores_bytes);
    const Guarded workspace(platform_, need.workspace_bytes);
    const Guarded out(platform_, static_cast<std::size_t>(place.elements) * size_of(dtype_));
    const auto lse_count = static_cast<std::size_t>(p.batch) * p.q_heads * p.q_len;
    const Guarded lse(platform_, lse_count * sizeof(float));

    AttentionTensors tensors;
    tensors.q = inputs_.q.view(q_.data(), dtype_);
    tensors.k = inputs_.k.view(inputs_.shared ? q_.data() : k_.data(), dtype_);
    tensors.v = inputs_.v.view(inputs_.shared ? q_.data() : v_.data(), dtype_);
    tensors.out = place.view(out.data(), dtype_);
    tensors.lse = TensorView(lse.data(), DType::f32, {p.batch, p.q_heads, p.q_len});
    backend_.forward(p, tensors, scores.data(), workspace.data());
    platform_.device->synchronize();

    Result result;
    std::vector<char> bits(static_cast<std::size_t>(place.elements) * size_of(dtype_));
    platform_.device->download(bits.data(), out.data(), bits.size());
    result.out.resize(static_cast<std::size_t>(place.elements));
    convert_elements(bits.data(), dtype_, result.out.data(), DType::f32, result.out.size());
    result.lse.resize(lse_count);
    platform_.device->download(result.lse.data(), lse.data(), lse_count * sizeof(float));

    const auto demand = [&](bool fulfilled, const char* what) {
      if (!fulfilled) result.failures.push_back(where_ + ": " + what);
    };
    demand(scores.guards_whole(), "wrote outside the scores");
    demand(workspace.guards_whole(), "wrote outside the workspace");
    demand(out.guards_whole() && lse.guards_whole(), "wrote outside the output");
    demand(q_.unchanged() && k_.unchanged() && v_.unchanged(), "changed an input");
    return result;
  }

 private:
  Platform& platform_;
  AttentionBackend& backend_;
  AttentionProblem problem_;
  DType dtype_;
  const Inputs& inputs_;
  Uploaded q_, k_, v_;
  std::string where_;
};

// NaN is never within a tolerance; infinities must be equal.
bool within(double value, double expected, double tolerance) {
  return value == expected || std::fabs(value - expected) <= tolerance;
}

void compare(const Case& test, const Result& result, const Expected& expected, const std::string& where,
             Failures& failures) {
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

void append(Failures& all, const Failures& more) { all.insert(all.end(), more.begin(), more.end()); }

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
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

// The type that a kernel keeps scores in, which its name says where it is not f32.
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

}  // namespace

Failures check_against_definition(Platform& platform, AttentionBackend& backend) {
  Failures failures;
  std::set<std::string> not_run;
  for (const KernelRow& row : backend.kernels()) not_run.insert(row.name);
  for (const Case& test : attention_cases()) {
    for (DType dtype : dtypes_of(backend, test.problem)) {
      if (!can_hold(dtype, test.fill)) continue;
      const Inputs inputs = make_inputs(test, dtype);
      Setup setup(platform, backend, test, inputs, dtype);
      const Result result = setup.run();
      append(failures, result.failures);
      const DType kept = kept_scores(backend, test.problem, dtype);
      compare(test, result, expected_of(test, inputs, dtype, kept), setup.where(), failures);
      AttentionProblem problem = test.problem;
      problem.dtype = dtype;
      not_run.erase(backend.kernel_for(problem));
    }
  }
  for (const std::string& name : not_run) failures.push_back("no case of the table runs kernel " + name);
  return failures;
}

Failures check_repeats(Platform& platform, AttentionBackend& backend) {
  constexpr int kRepeats = 200;
  Failures failures;
  for (const AttentionProblem& problem : {sized(1, 70, 130, 4, 2, 64), sized(1, 1, 1100, 4, 2, 64)}) {
    const Case test{"repeats", problem, Layout::cache, Fill::normal};
    for (DType dtype : dtypes_of(backend, problem)) {
      const Inputs inputs = make_inputs(test, dtype);
      Setup setup(platform, backend, test, inputs, dtype);
      const Result first = setup.run();
      for (int n = 1; n < kRepeats; ++n) {
        const Result again = setup.run();
        if (same_bits(first.out, again.out) && same_bits(first.lse, again.lse)) continue;
        failures.push_back(setup.where() + ": run " + std::to_string(n) + " gave other bits");
        break;
      }
    }
  }
  return failures;
}

Failures check_batch_independence(Platform& platform, AttentionBackend& backend, bool bitwise) {
  constexpr int kBatch = 3;
  Failures failures;
  for (const AttentionProblem& problem :
       {sized(kBatch, 70, 70, 4, 2, 64), sized(kBatch, 1, 1100, 4, 2, 64), sized(kBatch, 5, 600, 2, 1, 80)}) {
    const Case together{"in company", problem, Layout::dense, Fill::normal};
    for (DType dtype : dtypes_of(backend, problem)) {
      const Inputs inputs = make_inputs(together, dtype);
      const Expected expected = expected_of(together, inputs, dtype, kept_scores(backend, problem, dtype));
      Setup setup(platform, backend, together, inputs, dtype);
      const Result all = setup.run();
      const Placement place = out_placement(problem);
      for (int b = 0; b < kBatch; ++b) {
        Case alone = together;
        alone.problem.batch = 1;
        Inputs part = inputs;
        for (Placement* tensor : {&part.q, &part.k, &part.v}) {
          tensor->first += b * tensor->batch_step;
          tensor->shape[0] = 1;
        }
        Setup single(platform, backend, alone, part, dtype);
        const Result one = single.run();
        const Placement one_place = out_placement(alone.problem);
        const auto row_size = static_cast<std::int64_t>(problem.head_dim);
        for (std::int64_t n = 0; n < place.batch_step; ++n) {
          const float in_company = all.out[static_cast<std::size_t>(place.first + b * place.batch_step + n)];
          const float by_itself = one.out[static_cast<std::size_t>(one_place.first + n)];
          const double tolerance =
              2 * expected.out_tolerance[static_cast<std::size_t>((b * place.batch_step + n) / row_size)];
          const bool equal =
              bitwise ? in_company == by_itself
                      : within(static_cast<double>(by_itself), static_cast<double>(in_company), tolerance);
          if (equal) continue;
          failures.push_back(fmt::format("{}: sequence {} alone gives {}, in company {}", setup.where(), b,
                                         by_itself, in_company));
          break;
        }
      }
    }
  }
  return failures;
}

Failures check_prefill_equals_decode(Platform& platform, AttentionBackend& backend) {
  Failures failures;
  for (int length = 1; length <= 300; length += length < 20 ? 1 : 13) {
    const Case prefill{"prefill", sized(1, length, length, 2, 1, 64), Layout::dense, Fill::normal};
    for (DType dtype : dtypes_of(backend, prefill.problem)) {
      const Inputs inputs = make_inputs(prefill, dtype);
      Setup many(platform, backend, prefill, inputs, dtype);
      const Result whole = many.run();
      Case decode = prefill;
      decode.what = "decode";
      decode.problem.q_len = 1;
      Inputs last = inputs;
      last.q.first += (length - 1) * last.q.token_step;
      last.q.shape[1] = 1;
      Setup one(platform, backend, decode, last, dtype);
      const Result step = one.run();
      const Expected expected = expected_of(decode, last, dtype, kept_scores(backend, decode.problem, dtype));
      const Placement place = out_placement(prefill.problem);
      const Placement step_place = out_placement(decode.problem);
      for (int h = 0; h < 2; ++h) {
        for (int d = 0; d < 64; ++d) {
          const float a = whole.out[static_cast<std::size_t>(place.at(0, length - 1, h, d))];
          const float b = step.out[static_cast<std::size_t>(step_place.at(0, 0, h, d))];
          if (within(static_cast<double>(a), static_cast<double>(b), 2 * expected.out_tolerance[h])) continue;
          failures.push_back(
              fmt::format("{}: head {} dim {} is {}, a decode step gives {}", many.where(), h, d, a, b));
        }
      }
    }
  }
  return failures;
}

}  // namespace attn::conformance
