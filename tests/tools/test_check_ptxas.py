"""Tests of tools/check_ptxas: what ptxas says is read, and a kernel that is not clean fails its compilation."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools/check_ptxas"

CLEAN = """\
ptxas info    : 11 bytes gmem
ptxas info    : Compiling entry function 'plain' for 'sm_80'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 528 bytes cmem[0]
"""
SPILLS = """\
ptxas info    : Compiling entry function 'wide' for 'sm_90'
ptxas info    : Function properties for wide
    72 bytes stack frame, 120 bytes spill stores, 100 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
"""
STACK = CLEAN.replace("0 bytes stack frame", "8 bytes stack frame")
CALLED = CLEAN + """\
ptxas info    : Function properties for helper
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""
SERIALIZED = CLEAN + "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"


class Launcher(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.object = self.root / "kernel.cu.o"

    def tearDown(self):
        self.folder.cleanup()

    def compile(self, says, status=0):
        """Through the launcher: a compiler that says this, makes its object, and ends so."""
        compiler = self.root / "compiler.py"
        compiler.write_text(
            "import sys\n"
            f"sys.stderr.write({says!r})\n"
            "open(sys.argv[sys.argv.index('-o') + 1], 'w').close()\n"
            f"sys.exit({status})\n"
        )
        command = [sys.executable, str(TOOL), sys.executable, str(compiler), "-c", "kernel.cu", "-o", str(self.object)]
        return subprocess.run(command, capture_output=True, text=True)

    def table(self):
        return subprocess.run([sys.executable, str(TOOL), "--table", str(self.root)], capture_output=True, text=True)

    def test_clean_kernels_compile_in_silence_and_are_reported(self):
        done = self.compile(CLEAN)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(self.object.exists())
        self.assertEqual((self.root / "kernel.cu.o.ptxas").read_text(), "sm_80 40 1024 0 0 0 plain\n")
        table = self.table()
        self.assertEqual(table.returncode, 0)
        self.assertIn("1 kernels, 0 that spill", table.stdout)

    def test_what_is_not_clean_fails_by_its_name_and_architecture(self):
        for says, words in (
            (CLEAN + SPILLS, ("wide", "sm_90", "120 spilled")),
            (STACK, ("plain", "8 bytes of stack")),
            (CALLED, ("helper", "16 bytes of stack")),
            (SERIALIZED, ("C7510",)),
        ):
            done = self.compile(says)
            self.assertEqual(done.returncode, 1, says)
            self.assertFalse(self.object.exists())
            for word in words:
                self.assertIn(word, done.stderr)
        self.compile(SPILLS)
        self.assertEqual(self.table().returncode, 1)

    def test_other_words_of_the_compiler_and_its_status_pass_through(self):
        done = self.compile(CLEAN + "kernel.cu(3): warning #177-D: variable was never referenced\n")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "kernel.cu(3): warning #177-D: variable was never referenced\n")
        done = self.compile("kernel.cu(3): error: no\n", status=2)
        self.assertEqual(done.returncode, 2)
        self.assertIn("error: no", done.stderr)

    def test_a_folder_without_reports_is_not_clean(self):
        self.assertEqual(self.table().returncode, 1)


if __name__ == "__main__":
    unittest.main()
