// Rotary settings of a config.json, in the old and the new spelling.
#pragma once

#include "lib/model/config.h"
#include "lib/model/config_reader.h"

namespace attn {

// theta: `rope_parameters.rope_theta`, `rope_theta`, `rotary_emb_base`, else 10000. Share of a head that
// turns: `partial_rotary_factor`, `rotary_pct`, else `default_share`. Scaling: `rope_parameters` or
// `rope_scaling` with `rope_type` or `type`. Throws Error{unsupported} naming a rope type that is not
// implemented.
RopeConfig read_rope(const ConfigReader& config, int head_dim, double default_share);

}  // namespace attn
