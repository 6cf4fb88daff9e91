"""Tests of tools/peers: all that needs no torch."""

import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PEERS = REPOSITORY / "tools" / "peers"
sys.path.insert(0, str(PEERS))
import hf_bench  # noqa: E402
import op_problem  # noqa: E402
import peer_models  # noqa: E402
import peer_records  # noqa: E402
import sdpa_bench  # noqa: E402


def refused(parse, *arguments) -> str:
    """The message of a command line that is refused with exit code 2."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            parse(list(arguments))
        except SystemExit as end:
            if end.code == 2:
                return said.getvalue().strip().splitlines()[-1]
    raise AssertionError(f"{arguments} were accepted")


class Options(unittest.TestCase):
    def test_lists_take_commas_spaces_and_repetition(self):
        options = hf_bench.parse(
            [
                "--model",
                "gpt2,pythia-2.8b",
                "--prompt-tokens",
                "1",
                "2,3",
                "--new-tokens",
                "4",
                "--new-tokens",
                "5",
            ]
        )
        self.assertEqual(options.model, ["gpt2", "pythia-2.8b"])
        self.assertEqual((options.prompt_tokens, options.new_tokens), ([1, 2, 3], [4, 5]))
        self.assertEqual((options.batch_sizes, options.mode), ([1], hf_bench.DEFAULT_MODES))
        self.assertEqual(len(hf_bench.cases_of(options)), 6)

    def test_a_wrong_command_line_is_named(self):
        for text, arguments in (
            ("--prompt-tokens is needed", ["--model", "gpt2"]),
            ("--mode 'flash' is not known", ["--model", "gpt2", "--prompt-tokens", "8", "--mode", "flash"]),
            (
                "names 'hf-eager' twice",
                ["--model", "gpt2", "--prompt-tokens", "8", "--mode", "hf-eager,hf-eager"],
            ),
            (
                "--new-tokens must be at least 1, not 0",
                ["--model", "gpt2", "--prompt-tokens", "8", "--new-tokens", "0"],
            ),
            ("--prompt-tokens 'x' is not a number", ["--model", "gpt2", "--prompt-tokens", "x"]),
            ("--reps must be at least 1", ["--model", "gpt2", "--prompt-tokens", "8", "--reps", "0"]),
        ):
            self.assertIn(text, refused(hf_bench.parse, *arguments))

    def test_learned_positions_end_and_rotary_ones_go_on(self):
        hf_bench.check_cases(hf_bench.parse(["--model", "pythia-14m", "--prompt-tokens", "4096"]))
        with self.assertRaises(peer_records.PeerError) as caught:
            hf_bench.check_cases(
                hf_bench.parse(["--model", "gpt2", "--prompt-tokens", "1000", "--new-tokens", "25"])
            )
        self.assertEqual(caught.exception.kind, "bad_input")
        self.assertIn("1024 learned positions", str(caught.exception))
        self.assertIsNone(peer_models.PRESETS["pythia-14m"].warning(512))
        self.assertIn("trained context of 512", peer_models.PRESETS["pythia-14m"].warning(513))

    def test_an_unknown_model_is_one_line_and_exit_code_3(self):
        command = [
            sys.executable,
            "-B",
            PEERS / "hf_bench.py",
            "--model",
            "pythia-3b",
            "--prompt-tokens",
            "8",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertRegex(done.stderr, r"^hf_bench: no preset 'pythia-3b'.*\n$")


class Problems(unittest.TestCase):
    def test_the_product_of_the_lists(self):
        problems = sdpa_bench.problems_of(
            sdpa_bench.parse(
                ["--dim-x-heads", "64x32,256x8", "--q-len", "512,2048,16384", "--tokens", "16384"]
            )
        )
        self.assertEqual([p.batch for p in problems], [32, 8, 1] * 2)
        self.assertEqual({(p.head_dim, p.q_heads, p.kv_heads) for p in problems}, {(64, 32, 32), (256, 8, 8)})
        self.assertTrue(all(p.kv_len == p.q_len and p.causal for p in problems))
        self.assertFalse(sdpa_bench.problems_of(sdpa_bench.parse(["--no-causal"]))[0].causal)

    def test_what_does_not_fit_is_named(self):
        for text, arguments in (
            ("must divide q_heads", ["--q-heads", "6", "--kv-heads", "4"]),
            ("not of the form 64x32", ["--dim-x-heads", "64"]),
            ("leave out --batch", ["--tokens", "512", "--batch", "2"]),
            ("less than --q-len", ["--tokens", "256", "--q-len", "512"]),
        ):
            self.assertIn(text, refused(sdpa_bench.parse, *arguments))

    def test_visible_pairs_count_the_bottom_right_triangle(self):
        for q_len, kv_len in ((1, 9), (5, 5), (3, 7), (7, 3), (4, 1)):
            problem = op_problem.Problem(2, 4, 2, 8, q_len, kv_len, True)
            counted = sum(j <= i + kv_len - q_len for i in range(q_len) for j in range(kv_len))
            self.assertEqual(problem.visible_pairs(), counted)
            self.assertEqual(problem.flops(counted), 4.0 * 8 * counted * 2 * 4)
        full = op_problem.Problem(2, 4, 2, 8, 3, 7, False)
        self.assertEqual(full.visible_pairs(), 21)
        self.assertEqual(full.least_bytes(2), (2 * 3 * 4 + 2 * 7 * 2) * 2 * 8 * 2)

    def test_rotated_buffers_exceed_the_cache(self):
        self.assertEqual(op_problem.copies_for(1e9, 50 << 20), 1)
        copies = op_problem.copies_for(25e6, 50 << 20)
        self.assertGreater(copies * 25e6, 4 * (50 << 20))
        self.assertEqual(op_problem.copies_for(10, 50 << 20), op_problem.MOST_COPIES)


class Presets(unittest.TestCase):
    def test_the_presets_are_those_of_the_project(self):
        source = (REPOSITORY / "lib" / "model" / "presets.cc").read_text()
        lines = re.findall(r'\{"([^"]+)", "[^"]+", (\w+)\(([\d, ]*)\)\}', source)
        self.assertEqual({name for name, _, _ in lines}, set(peer_models.PRESETS))
        for name, family, numbers in lines:
            if family == "neox_20b":
                numbers = re.search(r"config = neox\(([\d, ]+)\)", source).group(1)
            wanted = getattr(peer_models, family.replace("_20b", ""))(*map(int, numbers.split(",")))
            ours = peer_models.PRESETS[name]
            self.assertEqual(peer_models.replace(ours, activation=wanted.activation), wanted, name)


class Statistics(unittest.TestCase):
    def test_percentiles_interpolate(self):
        summary = peer_records.summary_of([4.0, 1.0, 2.0, 3.0])
        self.assertEqual(
            (summary["n"], summary["median"], summary["mean"], summary["min"], summary["max"]),
            (4, 2.5, 2.5, 1, 4),
        )
        self.assertAlmostEqual(summary["p10"], 1.3)
        self.assertAlmostEqual(summary["p90"], 3.7)
        self.assertAlmostEqual(summary["stddev"], (5 / 3) ** 0.5)
        self.assertIsNone(peer_records.summary_of([1.0])["stddev"])
        self.assertIsNone(peer_records.summary_of([]))

    def test_metrics_of_one_repetition(self):
        series = peer_records.token_series([[100.0, 110.0, 120.0, 150.0]], batch=2, prompt_tokens=50)
        self.assertEqual(series["ttft_ms"], [100.0])
        self.assertEqual(series["itl_ms"], [10.0, 10.0, 30.0])
        self.assertAlmostEqual(series["tpot_ms"][0], 50 / 3)
        self.assertAlmostEqual(series["throughput_tps"][0], 120.0)
        self.assertAlmostEqual(series["output_tps"][0], 8000 / 150)
        self.assertAlmostEqual(series["total_tps"][0], 108000 / 150)
        self.assertAlmostEqual(series["prefill_tps"][0], 1000.0)
        self.assertEqual(peer_records.token_series([[5.0]], 1, 1)["tpot_ms"], [])
        with self.assertRaises(peer_records.PeerError):
            peer_records.token_series([[2.0, 1.0]], 1, 1)

    def test_a_prompt_is_the_one_that_attnbench_draws(self):
        self.assertEqual(peer_records.mix_bits(0), 0xE220A8397B1DCDAF)  # first output of SplitMix64, seed 0
        ids = peer_records.random_prompt(50304, 40, 0)
        self.assertTrue(all(0 <= i < 50304 for i in ids))
        # prompt_sha256 of attnbench --model pythia-14m --random-weights --prompt-tokens 40 --seed 0
        self.assertEqual(
            peer_records.token_sha256(ids), "e430cf3d22b303a46578e9d3239b890fa9b977bdec0e2a35663396d3fcf23e50"
        )
        self.assertEqual(peer_records.random_prompt(50304, 10, 0), ids[:10])
        self.assertNotEqual(peer_records.random_prompt(50304, 10, 1), ids[:10])


class Records(unittest.TestCase):
    """What is written, with a run that is made up."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = Path(self.folder.name)

    def record(self, new_tokens=3, **changes) -> dict:
        options = hf_bench.parse(["--model", "pythia-14m", "--prompt-tokens", "4"])
        parameters = hf_bench.parameters_of(
            options, "pythia-14m", "hf-eager", "cuda:0", "bf16", (4, 2, new_tokens), [1, 2, 3, 4], 0
        )
        record = peer_records.new_record("attnbench", parameters, {"peer": "transformers", "device": "a GPU"})
        stamps = [[10.0, 12.0, 15.0][:new_tokens]] * 2
        run = types.SimpleNamespace(
            token_ms=stamps,
            wall_ms=[15.1, 15.3],
            cold_token_ms=stamps[0],
            ids=[[1, 2, 3], [1, 2, 3]],
            finite=True,
            compile_s=None,
            prefill_kernel="p",
            decode_kernel="d",
            peak_bytes=3 << 20,
            peak_reserved_bytes=4 << 20,
            weights_bytes=1 << 20,
        )
        vars(run).update(changes)
        hf_bench.fill_record(record, run, 1.5, lambda batch, kv_len: 1e6 * batch * kv_len)
        peer_records.add_system_b_keys(record)
        return record

    def test_the_keys_are_those_of_attnbench(self):
        record = peer_records.in_order(self.record())
        self.assertEqual(
            (record["schema"], record["app"], record["outcome"]), ("attnbench/1", "attnbench", "ok")
        )
        self.assertEqual((record["ttft_ms"], record["tpot_ms"], record["peak_mem_mb"]), (10.0, 2.5, 3.0))
        self.assertAlmostEqual(record["decode_gb_s"], 11.0 / 2.5)
        self.assertEqual(
            (record["batch_size"], record["prompt_seq_len"], record["max_new_tokens"]), (2, 4, 3)
        )
        self.assertEqual(record["config"]["model_name"], "pythia-14m")
        self.assertEqual(record["statistics"]["itl_ms"]["n"], 4)
        self.assertEqual(record["samples"]["token_ms"], [[10.0, 12.0, 15.0]] * 2)
        self.assertEqual(list(record)[-5:], ["parameters", "memory", "statistics", "samples", "environment"])
        self.assertRegex(record["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def keys_in(self, source: str, function: str) -> list:
        body = (REPOSITORY / source).read_text().split(function, 1)[1].split(";\n", 2)
        return re.findall(r'\{"(\w+)", ', body[0] + body[1])

    def test_the_parameters_are_those_of_attnbench(self):
        ours = self.keys_in("apps/attnbench/record_case.cc", "Fields parameter_fields(")
        self.assertLessEqual(set(self.record()["parameters"]), set(ours))
        ours = self.keys_in("apps/attnbench/run_op.cc", "record.environment = environment;")
        problem = op_problem.Problem(1, 1, 1, 8, 4, 4, True)
        sweep = types.SimpleNamespace(
            options=sdpa_bench.parse([]), device="cpu", dtype_name="f32", threads=2, environment={}
        )
        self.assertLessEqual(
            set(sdpa_bench.OpSweep.new_record(sweep, problem, "sdpa-flash")["parameters"]), set(ours)
        )

    def test_one_new_token_has_no_tpot(self):
        record = self.record(new_tokens=1)
        self.assertIsNone(record["tpot_ms"])
        self.assertIn("one new token", record["tpot_reason"])
        self.assertNotIn("decode_gb_s", record)

    def test_logits_that_are_not_finite_have_no_times(self):
        record = self.record(finite=False, token_ms=[])
        self.assertEqual((record["outcome"], record["ttft_ms"]), ("nonfinite", None))
        self.assertNotIn("statistics", record)

    def test_agreement_counts_leading_tokens(self):
        first, second = self.record(), self.record()
        second["parameters"]["mode"] = "hf-compiled"
        ids = {"hf-eager": [[1, 2, 3], [1, 2, 3]], "hf-compiled": [[1, 2, 3], [1, 9, 3]]}
        peer_records.add_agreement([first, second], ids)
        self.assertNotIn("agrees_with", first)
        self.assertEqual(
            (second["agrees_with"], second["equal_leading_tokens"], second["compared_tokens"]),
            ("hf-eager", 4, 6),
        )

    def test_lines_are_appended_and_a_torn_one_moves_aside(self):
        path = self.out / "new" / "hf_bench.jsonl"
        peer_records.Writer(str(self.out / "new"), "hf_bench.jsonl").append(self.record())
        with open(path, "a") as file:
            file.write('{"schema": "attn')
        peer_records.Writer(str(path), "unused").append(self.record())
        lines = path.read_text().splitlines()
        self.assertEqual([json.loads(line)["app"] for line in lines], ["attnbench"] * 2)
        self.assertEqual((self.out / "new" / "hf_bench.jsonl.torn").read_text(), '{"schema": "attn\n')

    def test_a_document_holds_all_records(self):
        writer = peer_records.Writer(str(self.out / "all.json"), "unused")
        writer.append(self.record())
        writer.append(self.record())
        self.assertEqual(len(json.loads((self.out / "all.json").read_text())["results"]), 2)
        self.assertEqual([path.name for path in self.out.iterdir()], ["all.json"])

    def test_no_number_is_nan_and_a_bad_place_is_named(self):
        with self.assertRaises(ValueError):
            peer_records.Writer(str(self.out), "x.jsonl").append({"x": float("nan"), "parameters": {}})
        (self.out / "file").write_text("")
        with self.assertRaises(peer_records.PeerError) as caught:
            peer_records.Writer(str(self.out / "file" / "x.jsonl"), "unused")
        self.assertIn("choose another place with --out", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
