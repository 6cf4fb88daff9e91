// Values that CMake generated.
#include "lib/core/build_info.h"

#include "build_config.h"
#include "git_commit.h"

namespace attn {

const BuildInfo& build_info() {
  static constexpr BuildInfo info{ATTN_VERSION,        ATTN_GIT_COMMIT, ATTN_GIT_DIRTY,   ATTN_COMPILER,
                                  ATTN_COMPILER_FLAGS, ATTN_BUILD_TYPE, ATTN_SOURCE_TREE, ATTN_WITH_CUDA};
  return info;
}

}  // namespace attn
