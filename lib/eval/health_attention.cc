// Copies to the host, maxima, and the place of the first value that is not finite.
#include "lib/eval/health_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "lib/tensor/convert.h"

namespace attn {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{16} << 20;
constexpr double kOverflowsF16 = 65520;  // halfway to the next step of 32: ties go to the even one, beyond

// One sequence of a tensor [batch, token, head, dim] on the host in f32, heads outermost.
struct HostHeads {
  std::int64_t heads = 0, tokens = 0, dim = 0;
  std::vector<float> values;  // [head, token, dim]

  const float* at(std::int64_t head, std::int64_t token) const {
    return values.data() + (head * tokens + token) * dim;
  }
};

HostHeads fetch(Device& device, const TensorView& view, std::int64_t sequence) {
  HostHeads out{view.extent(2), view.extent(1), view.extent(3), {}};
  out.values.resize(static_cast<std::size_t>(out.heads * out.tokens * out.dim));
  const std::size_t element = size_of(view.dtype);
  const auto* const base =
      view.as<const char>() + sequence * view.stride(0) * static_cast<std::int64_t>(element);
  // Elements lie in stretches of one token (heads close together) or of one head (tokens close together);
  // what lies between them in memory is copied too and left out.
  const bool by_token = view.stride(1) >= view.stride(2);
  const std::int64_t outer = by_token ? out.tokens : out.heads;
  const std::int64_t inner = by_token ? out.heads : out.tokens;
  const std::int64_t outer_step = by_token ? view.stride(1) : view.stride(2);
  const std::int64_t inner_step = by_token ? view.stride(2) : view.stride(1);
  const std::int64_t stretch = (inner - 1) * inner_step + out.dim;
  const auto piece = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(kPieceBytes / element) / std::max<std::int64_t>(outer_step, stretch));
  std::vector<char> staging;
  // Far-apart stretches are copied one by one.
  const std::int64_t together = outer_step <= 4 * stretch ? piece : 1;
  for (std::int64_t begin = 0; begin < outer; begin += together) {
    const std::int64_t count = std::min(together, outer - begin);
    staging.resize(static_cast<std::size_t>((count - 1) * outer_step + stretch) * element);
    device.download(staging.data(), base + begin * outer_step * static_cast<std::int64_t>(element),
                    staging.size());
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < inner; ++j) {
        const std::int64_t head = by_token ? j : begin + i;
        const std::int64_t token = by_token ? begin + i : j;
        const std::size_t offset = static_cast<std::size_t>(i * outer_step + j * inner_step) * element;
        convert_elements(staging.data() + offset, view.dtype,
                         out.values.data() + (head * out.tokens + token) * out.dim, DType::f32,
                         static_cast<std::size_t>(out.dim));
      }
    }
  }
  return out;
}

double largest_value(const HostHeads& heads) {
  double largest = 0;
  for (const float x : heads.values) {
    const double size = std::fabs(static_cast<double>(x));
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  return largest;
}

struct Place {
  std::int64_t token, head;
};

// The earliest token, then the lowest head.
std::optional<Place> nonfinite_place(const HostHeads& heads) {
  for (std::int64_t token = 0; token < heads.tokens; ++token) {
    for (std::int64_t head = 0; head < heads.heads; ++head) {
      const float* const values = heads.at(head, token);
      if (!std::all_of(values, values + heads.dim, [](float x) { return std::isfinite(x); }))
        return Place{token, head};
    }
  }
  return std::nullopt;
}

// |q| of a vector; 0 for one that is not finite, so that no product with it counts.
double norm_of(const float* values, std::int64_t dim) {
  double sum = 0;
  for (std::int64_t i = 0; i < dim; ++i)
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return std::isfinite(sum) ? std::sqrt(sum) : 0;
}

double dot(const float* a, const float* b, std::int64_t dim) {
  double sums[4] = {};
  std::int64_t i = 0;
  for (; i + 4 <= dim; i += 4) {
    for (int j = 0; j < 4; ++j) sums[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
  }
  for (; i < dim; ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

struct Largest {
  double product = 0;
  std::int64_t query = 0, key = 0;
  std::optional<std::int64_t> first_beyond_f32;  // the first query with a product that f32 cannot hold
};

// Of one query head. A product is at most the product of the norms; the slack covers their rounding.
Largest largest_product(const HostHeads& q, std::int64_t head, const HostHeads& k, std::int64_t key_head,
                        bool causal) {
  constexpr double kSlack = 1 + 1e-9;
  std::vector<double> norms(static_cast<std::size_t>(k.tokens));
  std::vector<double> norms_so_far(norms.size());
  double so_far = 0;
  for (std::int64_t j = 0; j < k.tokens; ++j) {
    const auto at = static_cast<std::size_t>(j);
    norms[at] = norm_of(k.at(key_head, j), k.dim) * kSlack;
    norms_so_far[at] = so_far = std::max(so_far, norms[at]);
  }
  Largest out;
  for (std::int64_t i = 0; i < q.tokens; ++i) {
    const std::int64_t last = causal ? i + k.tokens - q.tokens : k.tokens - 1;
    const double norm = norm_of(q.at(head, i), q.dim);
    if (last < 0 || norm * norms_so_far[static_cast<std::size_t>(last)] <= out.product) continue;
    for (std::int64_t j = 0; j <= last; ++j) {
      if (norm * norms[static_cast<std::size_t>(j)] <= out.product) continue;
      const double product = std::fabs(dot(q.at(head, i), k.at(key_head, j), q.dim));
      if (product <= out.product) continue;
      out.product = product;
      out.query = i;
      out.key = j;
      if (product > static_cast<double>(std::numeric_limits<float>::max()) && !out.first_beyond_f32)
        out.first_beyond_f32 = i;
    }
  }
  return out;
}

}  // namespace

std::string NonFiniteValue::text() const {
  return fmt::format(
      "the first value that is not finite is in layer {}, head {}, position {}: {} (forward pass {}, "
      "sequence {})",
      layer, head, position, kHealthStageNames.name(stage), pass, sequence);
}

std::optional<double> LayerHealth::f16_headroom() const {
  if (largest_score == 0) return std::nullopt;
  const double headroom = kLargestF16 / largest_score;
  if (!std::isfinite(headroom)) return std::nullopt;
  return headroom;
}

bool LayerHealth::scores_overflow_f16() const { return largest_score >= kOverflowsF16; }
bool LayerHealth::products_overflow_f16() const { return largest_product >= kOverflowsF16; }
bool LayerHealth::values_overflow_f16() const { return largest_value >= kOverflowsF16; }

HealthAttention::HealthAttention(AttentionBackend& inner, Device& device, int layers)
    : inner_(inner), device_(device), layers_(static_cast<std::size_t>(layers)) {}

void HealthAttention::forward(const AttentionProblem& problem, const AttentionTensors& tensors, void* scores,
                              void* workspace) {
  if (tensors.past_len != nullptr)
    fail(ErrorKind::unsupported, "numerical health cannot be watched in recorded work; run without a graph");
  const std::int64_t pass = passes();
  const auto layer = static_cast<int>(calls_ % static_cast<std::int64_t>(layers_.size()));
  ++calls_;
  LayerHealth& health = layers_[static_cast<std::size_t>(layer)];
  const std::int64_t first_query = problem.kv_len - problem.q_len;
  const auto found = [&](int sequence, HealthStage stage, std::int64_t head, std::int64_t position) {
    if (!first_nonfinite_)
      first_nonfinite_ = {pass, layer, sequence, stage, static_cast<int>(head), position};
  };

  for (int sequence = 0; sequence < problem.batch; ++sequence) {
    const HostHeads q = fetch(device_, tensors.q, sequence);
    const HostHeads k = fetch(device_, tensors.k, sequence);
    const HostHeads v = fetch(device_, tensors.v, sequence);
    health.largest_value =
        std::max({health.largest_value, largest_value(q), largest_value(k), largest_value(v)});
    struct Input {
      HealthStage stage;
      std::optional<Place> place;
      std::int64_t first_position;
    };
    const Input inputs[] = {{HealthStage::query, nonfinite_place(q), first_query},
                            {HealthStage::key, nonfinite_place(k), 0},
                            {HealthStage::value, nonfinite_place(v), 0}};
    const Input* earliest = nullptr;
    for (const Input& input : inputs) {
      if (input.place && (earliest == nullptr || input.first_position + input.place->token <
                                                     earliest->first_position + earliest->place->token))
        earliest = &input;
    }
    if (earliest != nullptr)
      found(sequence, earliest->stage, earliest->place->head,
            earliest->first_position + earliest->place->token);

    std::vector<Largest> largest(static_cast<std::size_t>(problem.q_heads));
    const int group = problem.q_heads / problem.kv_heads;
#pragma omp parallel for schedule(dynamic)
    for (int head = 0; head < problem.q_heads; ++head)
      largest[static_cast<std::size_t>(head)] = largest_product(q, head, k, head / group, problem.causal);
    std::optional<Place> beyond_f32;
    for (int head = 0; head < problem.q_heads; ++head) {
      const Largest& of_head = largest[static_cast<std::size_t>(head)];
      if (of_head.first_beyond_f32 && (!beyond_f32 || *of_head.first_beyond_f32 < beyond_f32->token))
        beyond_f32 = Place{*of_head.first_beyond_f32, head};
      const double score = of_head.product * std::fabs(static_cast<double>(problem.scale));
      health.largest_product = std::max(health.largest_product, of_head.product);
      if (score <= health.largest_score) continue;
      health.largest_score = score;
      health.head = head;
      health.query = first_query + of_head.query;
      health.key = of_head.key;
    }
    if (beyond_f32) found(sequence, HealthStage::score, beyond_f32->head, first_query + beyond_f32->token);
  }

  inner_.forward(problem, tensors, scores, workspace);

  for (int sequence = 0; sequence < problem.batch; ++sequence) {
    const HostHeads out = fetch(device_, tensors.out, sequence);
    health.largest_value = std::max(health.largest_value, largest_value(out));
    if (const auto place = nonfinite_place(out))
      found(sequence, HealthStage::output, place->head, first_query + place->token);
  }
}

}  // namespace attn
