"""Tests of tools/check_layers.py: each rule refuses what it must, and the tree as it stands passes."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))
import check_layers  # noqa: E402


class Tree(unittest.TestCase):
    """A small source tree that passes; each test adds the file that must not."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        for path in ("kernels/dtype.h", "kernels/attention_params.h", "kernels/cpu/norm.h", "kernels/cuda/norm.h",
                     "lib/core/error.h", "lib/tensor/tensor.h", "lib/backend/device.h", "lib/backend/ops.h",
                     "lib/backend_cpu/cpu_platform.h", "lib/text/token.h", "lib/text/tokenizer.h", "lib/model/config.h",
                     "lib/results/record.h", "lib/measure/measure.h", "apps/guarded_main.h", "apps/attnppl/run.h"):
            self.write(path)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, *lines, first="// One job."):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join((first, *lines)) + "\n", encoding="utf-8")

    def accepts(self, path, *lines):
        self.write(path, *lines)
        self.assertEqual(check_layers.check(self.root), [])

    def refuses(self, path, *lines, because, first="// One job."):
        self.write(path, *lines, first=first)
        complaints = check_layers.check(self.root)
        self.assertEqual(len(complaints), 1, complaints)
        self.assertTrue(complaints[0].startswith(f"{path}:{1 + len(lines)}:"), complaints[0])
        self.assertIn(because, complaints[0])

    def test_a_room_may_include_itself_and_what_lies_below(self):
        self.accepts("lib/model/forward.cc", '#include "lib/model/config.h"', '#include "lib/backend/ops.h"',
                     '#include "lib/tensor/tensor.h"', '#include "lib/core/error.h"', '#include "kernels/dtype.h"',
                     '#include "lib/text/token.h"', "#include <vector>", "#include <nlohmann/json_fwd.hpp>")

    def test_nobody_looks_up(self):
        self.refuses("lib/core/error.cc", '#include "lib/tensor/tensor.h"', because="must not include")
        (self.root / "lib/core/error.cc").unlink()
        self.refuses("kernels/cpu/norm.cc", '#include "lib/core/error.h"', because="kernels/cpu may include only: kernels")

    def test_a_single_file_of_a_room_may_be_open(self):
        self.refuses("lib/model/forward.cc", '#include "lib/text/tokenizer.h"', because="lib/text/token.h")
        (self.root / "lib/model/forward.cc").unlink()
        self.accepts("lib/measure/measure.cc", '#include "lib/backend/device.h"')
        self.refuses("lib/measure/measure.cc", '#include "lib/backend/ops.h"', because="must not include")

    def test_measure_and_results_do_not_know_each_other(self):
        self.refuses("lib/results/writer.cc", '#include "lib/measure/measure.h"', because="must not include")

    def test_only_the_factory_reaches_the_devices(self):
        self.accepts("lib/backend/platform.cc", '#include "lib/backend_cpu/cpu_platform.h"', "#if ATTN_WITH_CUDA", "#endif")
        self.refuses("lib/backend/device.cc", '#include "lib/backend_cpu/cpu_platform.h"', because="must not include")

    def test_only_the_factory_asks_whether_there_is_cuda(self):
        self.refuses("lib/model/forward.cc", "#ifdef ATTN_WITH_CUDA", because="lib/backend/platform.cc")

    def test_kernels_are_for_their_two_rooms(self):
        self.accepts("lib/backend_cpu/cpu_ops.cc", '#include "kernels/cpu/norm.h"', '#include "kernels/attention_params.h"')
        self.refuses("lib/model/forward.cc", '#include "kernels/attention_params.h"', because="must not include")
        (self.root / "lib/model/forward.cc").unlink()
        self.refuses("lib/backend_cpu/cpu_ops.cc", '#include "kernels/cuda/norm.h"', because="must not include")

    def test_apps_include_lib_but_neither_kernels_nor_another_app(self):
        self.accepts("apps/attnbench/main.cc", '#include "lib/model/config.h"', '#include "apps/guarded_main.h"')
        self.refuses("apps/attnbench/main.cc", '#include "kernels/dtype.h"', because="never kernels")
        self.refuses("apps/attnbench/main.cc", '#include "apps/attnppl/run.h"', because="another app")

    def test_cuda_headers_stay_in_the_cuda_rooms(self):
        self.accepts("kernels/cuda/norm.cu", "#include <cuda_runtime.h>")
        self.accepts("lib/backend_cuda/device.cc", "#include <cublas_v2.h>")
        self.refuses("lib/backend/graph.h", "#include <cuda_runtime.h>", because="is a CUDA header")

    def test_paths_start_at_the_root_and_exist(self):
        self.refuses("lib/core/a.cc", '#include "error.h"', because="from the root")
        self.refuses("lib/core/a.cc", "#include <lib/core/error.h>", because="in quotes")
        self.refuses("lib/core/a.cc", '#include "lib/core/gone.h"', because="there is no file")

    def test_generated_headers_have_one_reader(self):
        self.accepts("lib/core/build_info.cc", '#include "build_config.h"')
        self.refuses("lib/results/environment.cc", '#include "git_commit.h"', because="lib/core/build_info.cc")

    def test_the_first_line_says_the_job(self):
        self.refuses("lib/core/a.h", because="first line", first="#pragma once")

    def test_an_unknown_room_is_refused(self):
        self.write("lib/helpers/a.h")
        complaints = check_layers.check(self.root)
        self.assertEqual(len(complaints), 1)
        self.assertIn("lib/helpers", complaints[0])

    def test_links_follow_the_same_table(self):
        self.write("lib/model/CMakeLists.txt", "attn_add_library(attn_model SOURCES a.cc PUBLIC attn_backend attn_text)",
                   first="# attn_eval is only a word in a comment")
        self.write("lib/backend_cpu/CMakeLists.txt", "target_link_libraries(attn_backend_cpu PRIVATE attn_kernels_cpu)", first="")
        self.assertEqual(check_layers.check(self.root), [])
        self.write("lib/text/CMakeLists.txt", "target_link_libraries(attn_text PRIVATE attn_model)", first="")
        complaints = check_layers.check(self.root)
        self.assertEqual(complaints, ["lib/text/CMakeLists.txt:2: lib/text must not link attn_model"])

    def test_the_program_says_so_by_its_exit_code(self):
        def run(*arguments):
            program = [sys.executable, str(REPOSITORY / "tools/check_layers.py"), *arguments]
            return subprocess.run(program, capture_output=True, text=True, check=False)

        self.assertEqual(run(str(self.root)).returncode, 0)
        self.write("lib/core/a.h", '#include "lib/model/config.h"')
        bad = run(str(self.root))
        self.assertEqual(bad.returncode, 1)
        self.assertIn("lib/core/a.h:2", bad.stdout)
        self.assertEqual(run("--no-such-option").returncode, 2)
        self.assertEqual(run(str(self.root / "lib/core")).returncode, 2)


class ThisRepository(unittest.TestCase):
    def test_the_tree_as_it_stands_passes(self):
        self.assertEqual(check_layers.check(REPOSITORY), [])


if __name__ == "__main__":
    unittest.main()
