// What a test asks of a model in a folder: logits of every position, losses, a greedy continuation, in any
// mode.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lib/backend/platform.h"
#include "lib/model/model.h"
#include "lib/text/token.h"
#include "tests/test_device.h"

namespace attn {

class RunModel {
 public:
  // The platform must outlive it.
  explicit RunModel(Platform& platform, const std::filesystem::path& folder, DType dtype = DType::f32);

  // [position][vocab], f32 as computed, in double.
  std::vector<std::vector<double>> logits(const std::vector<TokenId>& ids, const std::string& mode);
  // -ln p(ids[i + 1] | ids[0 .. i]) by ops.token_losses.
  std::vector<double> losses(const std::vector<TokenId>& ids, const std::string& mode);
  // With the cache, one token at a time.
  std::vector<TokenId> greedy(const std::vector<TokenId>& prompt, int count, const std::string& mode);

  const ModelConfig& config() const { return model_.config; }

 private:
  Platform& platform_;
  Model model_;
};

inline const std::vector<std::string> kEveryMode{"reference", "baseline", "flash"};

// The element types of the device: the CPU computes in f32 alone.
std::vector<DType> dtypes_of(const Platform& platform);

// Largest |ours - expected| over the largest |expected|. NaN counts as infinite.
double relative_to_scale(const std::vector<std::vector<double>>& ours,
                         const std::vector<std::vector<double>>& expected);

}  // namespace attn
