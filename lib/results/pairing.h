// Which records may be compared: equal in all settings but the attention mode.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/results/record.h"

namespace attn {

// One configuration with at least one record on both sides. More than one: it was measured several times.
struct RecordPair {
  std::string app;
  Fields parameters;  // without the mode and what follows from it
  std::vector<const ResultRecord*> base, other;
};

struct Unpaired {
  const ResultRecord* record;
  std::string reason;  // e.g. "the nearest flash record differs in batch_size (1, 8)"
};

struct Pairing {
  std::vector<RecordPair> pairs;  // in the order in which the configurations first appear
  std::vector<Unpaired> unpaired;
  std::vector<std::string> warnings;  // paired although the environments differ in the commit, the CPU, ...
};

// Never pairs across apps, devices, compilers, compiler flags or build types. The pointers point into
// `records`.
Pairing pair_records(std::span<const ResultRecord> records, std::string_view base_mode,
                     std::string_view other_mode);

}  // namespace attn
