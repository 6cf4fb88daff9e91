"""Tests of tools/fetch_model against a hub of its own: single and sharded, gated, truncated, mirrored."""

import hashlib
import json
import shutil
import struct
import unittest

from fetch_server import REPOSITORY, FetchTest, SHARED, Server, TOOLS, bytes_like_text, sha256


class RealCheckpoint(FetchTest):
    """A real checkpoint, over HTTP."""

    def setUp(self):
        super().setUp()
        if not (SHARED / "checkpoints").is_dir():
            self.skipTest(f"{SHARED} is not there")
        self.server.folder = SHARED

    def test_a_real_checkpoint_arrives_byte_by_byte(self):
        self.check_run(
            0,
            "6 files",
            "fetch_model",
            "tiny-random-gpt2",
            "--from",
            self.server.url + "/checkpoints",
            "--dest",
            self.dest,
        )
        self.assertEqual(
            (self.dest / "model.safetensors").read_bytes(),
            (SHARED / "checkpoints/tiny-random-gpt2/model.safetensors").read_bytes(),
        )


def safetensors(tensors):
    """The file format: length of the header, header, data."""
    header, offset = {}, 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(tensors.values())


class Models(FetchTest):
    """tools/fetch_model against a hub of the test's own."""

    def setUp(self):
        super().setUp()
        self.base = "/org/tiny/resolve/main/"
        self.weights = safetensors({"w": bytes_like_text(40_000, 4), "b": b"12345678"})
        self.put("config.json", b'{"model_type": "gpt2"}')
        self.put("tokenizer.json", b"{}")

    def put(self, name, content):
        self.server.files[self.base + name] = content

    def put_whole(self):
        self.put("model.safetensors", self.weights)

    def put_sharded(self):
        self.shards = {
            "model-00001-of-00002.safetensors": self.weights,
            "model-00002-of-00002.safetensors": safetensors({"v": b"abc"}),
        }
        for name, content in self.shards.items():
            self.put(name, content)
        index = {
            "metadata": {},
            "weight_map": {"w": list(self.shards)[0], "b": list(self.shards)[0], "v": list(self.shards)[1]},
        }
        self.put("model.safetensors.index.json", json.dumps(index).encode())

    def check(self, code, words, *arguments, **environment):
        return self.check_run(
            code, words, "fetch_model", *arguments, HF_ENDPOINT=self.server.url, **environment
        )

    def fetch(self, code=0, words="org/tiny", **environment):
        return self.check(code, words, "org/tiny", "--dest", self.dest, **environment)

    def test_a_single_file_model_arrives_and_a_second_run_asks_nobody(self):
        self.put_whole()
        self.fetch()
        self.assertEqual(self.left(), ["config.json", "fetched.json", "model.safetensors", "tokenizer.json"])
        self.assertEqual((self.dest / "model.safetensors").read_bytes(), self.weights)
        self.server.seen = []
        self.fetch(words="already here and right")
        self.assertEqual(self.server.seen, [])

    def test_a_file_that_was_changed_here_is_fetched_again(self):
        self.put_whole()
        self.fetch()
        (self.dest / "model.safetensors").write_bytes(self.weights[:-1] + b"?")
        self.fetch(words="config.json: already here and right")
        self.assertEqual((self.dest / "model.safetensors").read_bytes(), self.weights)

    def test_shards_arrive_by_their_index(self):
        self.put_sharded()
        self.fetch()
        for name, content in self.shards.items():
            self.assertEqual((self.dest / name).read_bytes(), content)

    def test_a_missing_shard_is_named_and_the_rest_is_not_fetched_twice(self):
        self.put_sharded()
        missing = list(self.shards)[1]
        content = self.server.files.pop(self.base + missing)
        self.fetch(3, f"names the shard {missing}")
        self.put(missing, content)
        self.server.seen = []
        self.fetch()
        self.assertNotIn(self.base + list(self.shards)[0], [path for path, _, _ in self.server.seen])

    def test_an_index_cannot_write_outside_its_folder(self):
        index = {"weight_map": {"w": "../../evil.safetensors"}}
        self.put("model.safetensors.index.json", json.dumps(index).encode())
        self.fetch(3, "not the name of a shard")

    def test_vocab_and_merges_do_where_tokenizer_json_is_missing(self):
        self.put_whole()
        del self.server.files[self.base + "tokenizer.json"]
        self.fetch(3, "no tokenizer that attnbench reads")
        self.put("vocab.json", b"{}")
        self.put("merges.txt", b"#version: 0.2\n")
        self.fetch()
        self.assertIn("merges.txt", self.left())

    def test_a_model_without_safetensors_says_so(self):
        self.put("pytorch_model.bin", b"x")
        self.fetch(3, "it has pytorch_model.bin")

    def test_truncated_safetensors_are_refused_even_without_a_stated_size(self):
        self.server.states_length = False
        self.put("model.safetensors", self.weights[:-10])
        self.fetch(3, "is not a whole safetensors file")
        self.assertNotIn("model.safetensors", self.left())

    def test_the_hubs_hash_is_compared_through_its_redirect_and_the_token_stays_at_home(self):
        self.put_whole()
        store = Server()
        self.addCleanup(store.close)
        store.files["/blob"] = self.weights
        path = self.base + "model.safetensors"
        headers = {"X-Repo-Commit": "c" * 40, "X-Linked-Etag": '"' + "0" * 64 + '"'}
        self.server.redirect[path] = (store.url + "/blob", headers)
        self.fetch(3, "not the right file", HF_TOKEN="secret")
        headers["X-Linked-Etag"] = f'"{sha256(self.weights)}"'
        self.fetch(0, "checked: SHA-256", HF_TOKEN="secret")
        self.assertEqual({token for _, _, token in self.server.seen}, {"Bearer secret"})
        self.assertEqual({token for _, _, token in store.seen}, {None})
        self.assertEqual(json.loads((self.dest / "fetched.json").read_text())["commit"], "c" * 40)

    def test_small_files_are_compared_with_gits_hash(self):
        self.put_whole()
        path = self.base + "config.json"
        content = self.server.files[path]
        right = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        self.server.redirect[path] = (
            self.server.url + "/c",
            {"X-Repo-Commit": "c" * 40, "ETag": f'"{"1" * 40}"'},
        )
        self.server.files["/c"] = content
        self.fetch(3, "git's SHA-1")
        self.server.redirect[path] = (
            self.server.url + "/c",
            {"X-Repo-Commit": "c" * 40, "ETag": f'"{right}"'},
        )
        self.fetch(0, "checked: git's SHA-1")

    def test_a_gated_model_names_the_token(self):
        self.server.status[self.base + "config.json"] = 401
        self.fetch(3, "HF_TOKEN is not set")
        self.fetch(3, "HF_TOKEN is set", HF_TOKEN="refused")

    def test_a_folder_with_another_model_is_not_mixed(self):
        self.put_whole()
        self.fetch()
        self.check(3, "holds org/tiny at main", "org/other", "--dest", self.dest)
        self.check(3, "holds org/tiny at main", "org/tiny", "--revision", "v2", "--dest", self.dest)

    def test_a_mirror_holds_the_files_under_the_models_name(self):
        self.put_whole()
        mirror = self.dir / "mirror/gpt2"
        mirror.mkdir(parents=True)
        for path, content in self.server.files.items():
            (mirror / path.rsplit("/", 1)[1]).write_bytes(content)
        models = self.dir / "models"
        for source in (mirror.parent, mirror):
            self.check(0, "openai-community/gpt2", "gpt2", "--from", source, ATTNBENCH_MODELS=str(models))
            self.assertEqual((models / "gpt2/model.safetensors").read_bytes(), self.weights)
            shutil.rmtree(models)
        self.check(3, "there is no config.json at", "distilgpt2", "--from", self.dir, "--dest", self.dest)

    def test_names_that_nobody_knows_are_refused_with_a_suggestion(self):
        self.check(2, "there is gpt2", "gptt2")
        self.check(2, "neither a name nor", "a/b/c")
        self.check(2, "which model?")
        self.check(0, "meta-llama/Llama-3.2-1B", "--list")

    def test_an_unreachable_hub_is_said_in_words(self):
        done = self.check_run(
            6,
            "cannot find the host",
            "fetch_model",
            "gpt2",
            "--dest",
            self.dest,
            HF_ENDPOINT="http://no-such-host.invalid",
        )
        self.assertIn("--from", done.stderr)
        self.assertFalse(self.dest.exists())

    def test_every_name_is_a_preset_of_the_library(self):
        presets = REPOSITORY / "lib/model/presets.cc"
        if not presets.exists():
            self.skipTest("lib/model/presets.cc is not there")
        text = presets.read_text(encoding="utf-8")
        for name, repository in json.loads((TOOLS / "models.json").read_text()).items():
            self.assertIn(f'"{repository.removesuffix("-deduped")}"', text, name)


if __name__ == "__main__":
    unittest.main()
