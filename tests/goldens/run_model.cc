// Running a model for a test.
#include "tests/goldens/run_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/model/generate.h"

namespace attn {

RunModel::RunModel(Platform& platform, const std::filesystem::path& folder, DType dtype)
    : platform_(platform), model_(load_model(*platform.device, find_model(folder.string()), dtype)) {}

std::vector<std::vector<double>> RunModel::logits(const std::vector<TokenId>& ids, const std::string& mode) {
  const int count = static_cast<int>(ids.size());
  AttentionBackend& attention = platform_.backend(mode);
  Transformer transformer(platform_, model_, {1, count, count, count});
  transformer.reserve(attention, {count, count});
  const TensorView hidden = transformer.forward(transformer.upload_ids(ids), attention);
  const TensorView rows = transformer.logits(hidden.reshaped({count, config().hidden}));
  std::vector<float> flat(static_cast<std::size_t>(rows.shape.elements()));
  platform_.device->download(flat.data(), rows.data, rows.bytes());
  std::vector<std::vector<double>> out;
  for (int i = 0; i < count; ++i)
    out.emplace_back(flat.begin() + std::ptrdiff_t{i} * config().vocab,
                     flat.begin() + std::ptrdiff_t{i + 1} * config().vocab);
  return out;
}

std::vector<double> RunModel::losses(const std::vector<TokenId>& ids, const std::string& mode) {
  const int count = static_cast<int>(ids.size());
  AttentionBackend& attention = platform_.backend(mode);
  Device& device = *platform_.device;
  Transformer transformer(platform_, model_, {1, count, count, count});
  transformer.reserve(attention, {count, count});
  const TensorView hidden = transformer.forward(transformer.upload_ids(ids), attention);
  const TensorView rows =
      transformer.logits(hidden.reshaped({count, config().hidden}).slice(0, 0, count - 1));
  const Tensor targets = device.allocate_tensor(DType::i32, {count - 1}, MemoryUse::other);
  device.upload(targets.view.data, ids.data() + 1, targets.view.bytes());
  std::vector<double> out(ids.size() - 1);
  const Buffer losses = device.allocate(out.size() * sizeof(double), MemoryUse::other);
  platform_.ops->token_losses(rows, targets.view, static_cast<double*>(losses.data()));
  device.download(out.data(), losses.data(), losses.bytes());
  return out;
}

std::vector<TokenId> RunModel::greedy(const std::vector<TokenId>& prompt, int count,
                                      const std::string& mode) {
  const int prompt_tokens = static_cast<int>(prompt.size());
  AttentionBackend& attention = platform_.backend(mode);
  Transformer transformer(platform_, model_, {1, prompt_tokens + count, prompt_tokens, 1});
  for (const Reservation& call : generation_calls(attention, prompt_tokens, count))
    transformer.reserve(attention, call);
  return generate(transformer, attention, prompt, count, {}).ids.front();
}

std::vector<DType> dtypes_of(const Platform& platform) {
  if (platform.device->host_memory()) return {DType::f32};
  return {DType::f32, DType::f16, DType::bf16};
}

double relative_to_scale(const std::vector<std::vector<double>>& ours,
                         const std::vector<std::vector<double>>& expected) {
  double scale = 0;
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t j = 0; j < expected[i].size(); ++j) {
      scale = std::max(scale, std::abs(expected[i][j]));
      const double difference = std::abs(ours.at(i).at(j) - expected[i][j]);
      worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
    }
  }
  return worst / scale;
}

}  // namespace attn
