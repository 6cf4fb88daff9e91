"""Tests of tools/peers/tokenizers_bench.py with a package and an attnppl of the test's own: each byte is its id."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "peers" / "tokenizers_bench.py"

PACKAGE = '''
__version__ = "0.0"
class Encoding:
    def __init__(self, text): self.ids = list(text.encode())
class Tokenizer:
    @staticmethod
    def from_file(path): return Tokenizer()
    def encode_batch_fast(self, texts, add_special_tokens): return [Encoding(text) for text in texts]
'''

PROGRAM = '''#!{python}
import hashlib, struct, sys
from pathlib import Path
texts = [file.read_bytes() for file in sorted(Path(sys.argv[sys.argv.index("--dataset") + 1]).iterdir())]
ids = list(b"".join(texts)){change}
print("tokens", len(ids))
print("sha256", hashlib.sha256(struct.pack(f"<{{len(ids)}}I", *ids)).hexdigest())
print("bytes", sum(len(text) for text in texts))
print("MB/s {speed}")
'''


class TokenizersBench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.write("tokenizers.py", PACKAGE)
        self.write("tok/tokenizer.json", "{}")
        self.write("books/2.txt", "two \u00e9")
        self.write("books/10.txt", "ten" * 1000)
        self.write("books/metadata.csv", "1,no text,1900,u")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def run_tool(self, change: str = "", speed: float = 1e6, text: str = "books"):
        program = self.write("attnppl", PROGRAM.format(python=sys.executable, change=change, speed=speed))
        program.chmod(0o755)
        command = [sys.executable, "-B", TOOL, "--attnppl", program, "--tokenizer", self.folder / "tok"]
        command += ["--text", self.folder / text, "--reps", "1"]
        return subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(self.folder)})

    def test_equal_ids_give_both_speeds(self):
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"tok +books +3006 +3006 +1000000.00 MB/s")

    def test_a_single_file(self):
        self.assertEqual(self.run_tool(text="books/2.txt").returncode, 0)

    def test_an_id_that_differs_is_an_error(self):
        done = self.run_tool(change="; ids[5] += 1")
        self.assertEqual(done.returncode, 3)
        self.assertIn("the ids differ", done.stderr)

    def test_slower_than_the_floor_is_a_failure(self):
        done = self.run_tool(speed=19.9)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tok on books", done.stderr)

    def test_a_text_that_is_not_there(self):
        done = self.run_tool(text="absent")
        self.assertEqual(done.returncode, 3)
        self.assertIn("does not exist", done.stderr)


if __name__ == "__main__":
    unittest.main()
