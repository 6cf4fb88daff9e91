// Matrix products of prefill size on a GPU: the choice of an algorithm is made once, recorded, and leaves the
// operands alone; biases and activations of the product's last step are those of separate passes.
#include <cmath>
#include <vector>

#include "lib/core/rng.h"
#include "lib/tensor/convert.h"
#include "lib/tensor/dtype_names.h"
#include "tests/download_numbers.h"
#include "tests/gpu.h"

using namespace attn;

namespace {

constexpr std::int64_t kRows = 300;
constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kWide = 1536;  // 300 x 1024 x 1536: large enough to be timed

struct Matrix {
  std::vector<float> host;  // rounded to dtype
  Tensor gpu;

  Matrix(Device& device, DType dtype, std::int64_t rows, std::int64_t columns, std::uint64_t seed,
         float scale) {
    gpu = device.allocate_tensor(dtype, {rows, columns}, MemoryUse::other);
    host.resize(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = scale * random_normal(seed, 0, i);
    std::vector<char> bits(gpu.view.bytes());
    convert_elements(host.data(), DType::f32, bits.data(), dtype, host.size());
    convert_elements(bits.data(), dtype, host.data(), DType::f32, host.size());
    device.upload(gpu.view.data, bits.data(), bits.size());
  }
  TensorView row() const { return gpu.view.reshaped({gpu.view.extent(1)}); }
  double at(std::int64_t row, std::int64_t column) const {
    return static_cast<double>(host[static_cast<std::size_t>(row * gpu.view.extent(1) + column)]);
  }
};

// What rounding the result, and for a bias pass the result before it, may do to numbers of size 4.
double tolerance(DType dtype) {
  return dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 4 * 0x1p-10 : 4 * 0x1p-7;
}

double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

const ProductRecord* record_of(const std::vector<ProductRecord>& records, const std::string& part) {
  for (const ProductRecord& record : records) {
    if (record.shape.find(part) != std::string::npos) return &record;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a large product added to the residual is timed once and adds once") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    CAPTURE(kDTypeNames.name(dtype));
    const Matrix in(device, dtype, kRows, kHidden, 1, 1);
    const Matrix weight(device, dtype, kWide, kHidden, 2, 1 / 32.0F);
    const Matrix bias(device, dtype, 1, kWide, 3, 1);
    const Matrix before(device, dtype, kRows, kWide, 4, 1);
    Tensor x = device.allocate_tensor(dtype, before.gpu.view.shape, MemoryUse::other);
    const LinearWeights linear{weight.gpu.view, bias.row()};
    const AddTerm term{in.gpu.view, &linear};
    std::vector<float> first;
    const std::size_t live = device.memory().live_bytes();
    for (int run = 0; run < 3; ++run) {
      device.copy(x.view.data, before.gpu.view.data, x.view.bytes());
      platform.ops->project_add(x.view, {&term, 1});
      const auto now = numbers(device, x.view);
      if (run == 0) first = now;
      CHECK(now == first);  // the run that timed the candidates gives what later runs give
    }
    CHECK(device.memory().live_bytes() == live);
    CHECK(numbers(device, in.gpu.view) == in.host);
    CHECK(numbers(device, weight.gpu.view) == weight.host);
    double worst = 0;
    for (std::int64_t r = 0; r < kRows; r += 37) {
      for (std::int64_t c = 0; c < kWide; c += 5) {
        double truth = before.at(r, c) + bias.at(0, c);
        for (std::int64_t i = 0; i < kHidden; ++i) truth += in.at(r, i) * weight.at(c, i);
        const double off =
            std::fabs(static_cast<double>(first[static_cast<std::size_t>(r * kWide + c)]) - truth);
        worst = std::isnan(off) ? 1e9 : std::max(worst, off);
      }
    }
    CHECK(worst < tolerance(dtype));
    const auto records = platform.ops->product_choices();
    const ProductRecord* record =
        record_of(records, fmt::format("{} -> {}, added", kDTypeNames.name(dtype), kDTypeNames.name(dtype)));
    REQUIRE(record != nullptr);
    CAPTURE(record->shape, record->algorithm, record->candidates, record->chosen_us, record->first_us,
            record->why_not_timed);
    CHECK(record->candidates > 0);
    CHECK(record->why_not_timed.empty());
    CHECK(record->chosen_us > 0);
    CHECK(record->chosen_us <= record->first_us);
  }
}

TEST_CASE("a bias and the tanh form of GELU in a product are what separate passes give") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Activation activation : {Activation::none, Activation::gelu_tanh, Activation::gelu_erf}) {
      CAPTURE(kDTypeNames.name(dtype), static_cast<int>(activation));
      const Matrix x(device, dtype, kRows, kHidden, 1, 1);
      const Matrix gain(device, dtype, 1, kHidden, 5, 1);
      const Matrix weight(device, dtype, kWide, kHidden, 2, 1 / 32.0F);
      const Matrix bias(device, dtype, 1, kWide, 3, 1);
      Tensor normed = device.allocate_tensor(dtype, {kRows, kHidden}, MemoryUse::other);
      Tensor out = device.allocate_tensor(dtype, {kRows, kWide}, MemoryUse::other);
      const NormWeights norm{NormKind::rms_norm, 1e-5F, gain.row(), {}};
      const LinearWeights linear{weight.gpu.view, bias.row()};
      const ProjectTerm term{&norm, &linear, activation, false, out.view};
      platform.ops->project(x.gpu.view, {&term, 1}, {normed.view, {}});
      const auto made = numbers(device, out.view);
      const auto inputs = numbers(device, normed.view);  // rounded as the product has read them
      double worst = 0;
      for (std::int64_t r = 0; r < kRows; r += 37) {
        for (std::int64_t c = 0; c < kWide; c += 5) {
          double truth = bias.at(0, c);
          for (std::int64_t i = 0; i < kHidden; ++i)
            truth += static_cast<double>(inputs[static_cast<std::size_t>(r * kHidden + i)]) * weight.at(c, i);
          if (activation == Activation::gelu_tanh) truth = gelu_tanh(truth);
          if (activation == Activation::gelu_erf) truth = 0.5 * truth * std::erfc(-truth / std::sqrt(2.0));
          const double off =
              std::fabs(static_cast<double>(made[static_cast<std::size_t>(r * kWide + c)]) - truth);
          worst = std::isnan(off) ? 1e9 : std::max(worst, off);
        }
      }
      CHECK(worst < tolerance(dtype));
    }
  }
}

TEST_CASE("activations of every 16 bit number are rounded from the right value") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  constexpr std::int64_t kNumbers = 65536;
  constexpr std::int64_t kInner = 8;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    // A product with weights of 0 hands each number in through the bias.
    std::vector<std::uint16_t> bits(kNumbers);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
    std::vector<float> xs(kNumbers);
    convert_elements(bits.data(), dtype, xs.data(), DType::f32, xs.size());
    Tensor bias = device.allocate_tensor(dtype, {kNumbers}, MemoryUse::other);
    device.upload(bias.view.data, bits.data(), bias.view.bytes());
    Tensor weight = device.allocate_tensor(dtype, {kNumbers, kInner}, MemoryUse::other);
    device.fill_zero(weight.view.data, weight.view.bytes());
    const Matrix x(device, dtype, 9, kInner, 1, 1);  // too many rows for the kernels of few
    const Matrix gain(device, dtype, 1, kInner, 2, 1);
    Tensor normed = device.allocate_tensor(dtype, {9, kInner}, MemoryUse::other);
    Tensor out = device.allocate_tensor(dtype, {9, kNumbers}, MemoryUse::other);
    const NormWeights norm{NormKind::rms_norm, 1e-5F, gain.row(), {}};
    const LinearWeights linear{weight.view, bias.view};
    const double unit = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
    const double least = dtype == DType::f16 ? 0x1p-25 : 0x1p-126;  // half of the smallest; or flushed
    for (const Activation activation : {Activation::none, Activation::gelu_erf, Activation::gelu_tanh,
                                        Activation::silu, Activation::relu}) {
      const ProjectTerm term{&norm, &linear, activation, false, out.view};
      platform.ops->project(x.gpu.view, {&term, 1}, {normed.view, {}});
      const auto made = numbers(device, out.view.slice(0, 4, 1));
      int wrong = 0;
      for (std::size_t i = 0; i < xs.size(); ++i) {
        const double at = static_cast<double>(xs[i]);
        if (std::isnan(at)) {
          wrong += std::isnan(made[i]) || activation == Activation::gelu_tanh ? 0 : 1;
          continue;
        }
        if (std::isinf(at)) continue;
        // The library's form doubles x before it halves it.
        if (activation == Activation::gelu_tanh && std::fabs(at) > 1.6e38) continue;
        double truth = at;
        double allowed = unit * 1.01;  // of the value
        double beside = least;
        if (activation == Activation::gelu_erf) truth = 0.5 * at * std::erfc(-at / std::sqrt(2.0));
        if (activation == Activation::silu) {
          truth = at / (1 + std::exp(-at));
          beside = std::max(beside, 1e-35);  // e^-x ends before f32 does
        }
        if (activation == Activation::relu) truth = std::max(at, 0.0);
        if (activation == Activation::gelu_tanh) {  // the library's own: right about the size of x
          truth = gelu_tanh(at);
          beside += 0x1p-10 * std::min(std::fabs(at), 8.0);
        }
        const double off = std::fabs(static_cast<double>(made[i]) - truth);
        if (off <= allowed * std::fabs(truth) + beside) continue;
        if (++wrong <= 3) {
          UNSCOPED_INFO(fmt::format("{} activation {}: {} gives {} instead of {}", kDTypeNames.name(dtype),
                                    static_cast<int>(activation), at, made[i], truth));
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a product first used in a recording is chosen without being timed") {
  ATTN_OPEN_GPU(platform);
  Device& device = *platform.device;
  const Matrix in(device, DType::bf16, kRows, kHidden, 1, 1);
  const Matrix weight(device, DType::bf16, kWide, kHidden, 2, 1 / 32.0F);
  Tensor x = device.allocate_tensor(DType::bf16, {kRows, kWide}, MemoryUse::other);
  const LinearWeights linear{weight.gpu.view, {}};
  const AddTerm term{in.gpu.view, &linear};
  const auto graph = device.capture([&] { platform.ops->project_add(x.view, {&term, 1}); });
  const auto records = platform.ops->product_choices();
  const ProductRecord* record = record_of(records, "added");
  REQUIRE(record != nullptr);
  CHECK(record->why_not_timed == "first used in a recording");
  // Replayed and run at once: the same algorithm, so the same bits.
  device.fill_zero(x.view.data, x.view.bytes());
  graph->replay();
  const auto replayed = numbers(device, x.view);
  device.fill_zero(x.view.data, x.view.bytes());
  platform.ops->project_add(x.view, {&term, 1});
  CHECK(numbers(device, x.view) == replayed);
}
