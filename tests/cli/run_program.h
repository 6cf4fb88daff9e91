// run_program: runs one of the project's programs as a person would; captures exit code, stdout and stderr.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attn {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal number if a signal ended it
  std::string out, err;
};

// `program` is a name in build/bin. Both streams are files (not terminals); stdin is empty. environment:
// "NAME=value" entries added to this process's own. Runs in the folder `working_folder` if given.
ProgramResult run_program(const std::string& program, const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment = {},
                          const std::filesystem::path& working_folder = {});

// A fresh folder for a test's files, removed by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Whole files, for tests.
std::string read_text(const std::filesystem::path& path);
void write_text_file(const std::filesystem::path& path, const std::string& text);

}  // namespace attn
