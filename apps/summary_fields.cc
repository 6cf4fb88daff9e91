// The order of the keys is the documented one.
#include "apps/summary_fields.h"

namespace attn {

Fields summary_fields(const Summary& s) {
  return {{"n", s.n},     {"median", s.median}, {"mean", s.mean}, {"stddev", s.stddev}, {"p10", s.p10},
          {"p90", s.p90}, {"p99", s.p99},       {"min", s.min},   {"max", s.max}};
}

}  // namespace attn
