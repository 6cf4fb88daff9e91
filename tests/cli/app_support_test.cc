// Exit codes of errors, the progress bar's text, SIGINT.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

#include "apps/guarded_main.h"
#include "apps/interrupt.h"
#include "apps/progress.h"
#include "apps/summary_fields.h"
#include "lib/core/error.h"
#include "tests/catch.h"
#include "tests/cli/run_program.h"

using namespace attn;

TEST_CASE("an error becomes the exit code of its kind") {
  CHECK(guarded_main("test", [] { return 0; }) == 0);
  CHECK(guarded_main("test", []() -> int { fail(ErrorKind::usage, "u"); }) == 2);
  CHECK(guarded_main("test", []() -> int { fail(ErrorKind::unsupported, "u"); }) == 4);
  CHECK(guarded_main("test", []() -> int { throw std::bad_alloc(); }) == 5);
  CHECK(guarded_main("test", []() -> int { throw std::runtime_error("x"); }) == 7);
}

TEST_CASE("the progress bar shows the share and the time left") {
  CHECK(progress_line(0, 10, 0, "") == "[....................]   0 %");
  CHECK(progress_line(5, 10, 90, "prefill") == "[##########..........]  50 %  1:30 left  prefill");
  CHECK(progress_line(12, 10, 5, "") == "[####################] 100 %  0:00 left");
  CHECK(progress_line(1, 2, 7325, "").find("2:02:05 left") != std::string::npos);
  CHECK(progress_line(0, 0, 0, "x") == "[....................]   0 %  x");
}

TEST_CASE("nothing of the progress bar reaches a stderr that is no terminal") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "stderr";
  std::fflush(stderr);
  const int saved = dup(STDERR_FILENO);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(file, STDERR_FILENO);
  {
    Progress progress(10);
    progress.update(5, "prefill");
    progress.clear();
    progress.update(10, "decode");
  }
  std::fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(file);
  CHECK(std::filesystem::file_size(path) == 0);
}

TEST_CASE("the first SIGINT is only noted") {
  CHECK_FALSE(interrupted());
  catch_interrupts();
  std::raise(SIGINT);
  CHECK(interrupted());
}

TEST_CASE("a summary in a record has null for the deviation of one sample") {
  const double one = 2;
  const auto summary = summary_of({&one, 1});
  CHECK(to_json(summary_fields(*summary)) ==
        R"({"n":1,"median":2.0,"mean":2.0,"stddev":null,"p10":2.0,"p90":2.0,"p99":2.0,"min":2.0,"max":2.0})");
}
