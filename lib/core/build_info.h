// How this program was built: the part of a result record that the compiler knows.
#pragma once

#include <string_view>

namespace attn {

struct BuildInfo {
  std::string_view version;      // of the project
  std::string_view git_commit;   // 40 hexadecimal digits, or empty outside a git checkout
  bool git_dirty;                // tracked files differed from the commit
  std::string_view compiler;     // name and version
  std::string_view flags;        // of the C++ compiler
  std::string_view build_type;   // Release, Debug, ...
  std::string_view source_tree;  // the checkout, where bundled models, datasets and prompts are found
  bool with_cuda;
};

const BuildInfo& build_info();

}  // namespace attn
