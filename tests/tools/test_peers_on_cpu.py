"""Tests of tools/peers: small runs on the CPU, where torch and transformers are there."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PEERS = Path(__file__).resolve().parents[2] / "tools" / "peers"
MISSING = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
if MISSING:
    print(f"[skipped] {' and '.join(MISSING)} cannot be imported")


@unittest.skipIf(MISSING, "no torch")
class OnTheCpu(unittest.TestCase):
    def run_tool(self, name: str, *arguments) -> list:
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-B",
                PEERS / name,
                "--device",
                "cpu",
                "--reps",
                "2",
                "--out",
                folder,
                *arguments,
            ]
            done = subprocess.run(command, capture_output=True, text=True)
            text = Path(folder, name.replace(".py", ".jsonl")).read_text()
        return done.returncode, [json.loads(line) for line in text.splitlines()]

    def test_modes_agree_and_run_what_they_claim(self):
        code, records = self.run_tool(
            "hf_bench.py", "--model", "pythia-14m", "--prompt-tokens", "20", "--new-tokens", "4", "--batch-sizes", "2",
            "--mode", "hf-eager,hf-sdpa-flash,hf-sdpa-math",
        )  # fmt: skip
        self.assertEqual(code, 0)
        self.assertEqual([r["outcome"] for r in records], ["ok"] * 3)
        self.assertEqual(len({r["ids_sha256"] for r in records}), 1)
        self.assertEqual([r["equal_leading_tokens"] for r in records[1:]], [8, 8])
        self.assertIn("flash", records[1]["decode_kernel"])
        self.assertIn("math", records[2]["prefill_kernel"])

    def test_attention_is_right_and_what_cannot_run_is_a_row(self):
        code, records = self.run_tool(
            "sdpa_bench.py", "--q-len", "1,6", "--kv-len", "40", "--q-heads", "4", "--kv-heads", "2", "--head-dim", "16",
            "--mode", "torch-eager,sdpa-flash,sdpa-cudnn",
        )  # fmt: skip
        self.assertEqual(code, 4)
        self.assertEqual([r["outcome"] for r in records], ["ok", "ok", "unsupported"] * 2)
        self.assertTrue(
            all(r["relative_error"] < 1e-5 and r["time_ms"] > 0 for r in records if r["outcome"] == "ok")
        )


if __name__ == "__main__":
    unittest.main()
