"""Tests of tools/fetch_datasets: archives, mirrors, books, and the real files where they are."""

import io
import json
import shutil
import socket
import subprocess
import unittest
import zipfile

from fetch_server import FetchTest, SHARED, TOOLS, bytes_like_text, sha256


class DataSets(FetchTest):
    """tools/fetch_datasets with a manifest of the test's own, so that it needs no real data."""

    TEXTS = {"a.raw": bytes_like_text(50_000, 2), "b.raw": "Grüße — 42 °C\n".encode() * 100}
    BOOK = bytes_like_text(20_000, 3)

    def setUp(self):
        super().setUp()
        self.tools = self.dir / "tools"
        self.tools.mkdir()
        for name in ("fetch_datasets", "fetching.py", "http_request.py"):
            text = (TOOLS / name).read_text(encoding="utf-8")
            without_pauses = text.replace("(0.2, 1.0)", "(0.0, 0.0)")
            (self.tools / name).write_text(without_pauses, encoding="utf-8")
        url = self.server.url
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, text in self.TEXTS.items():
                archive.writestr(f"set/{name}", text)
        self.archive = packed.getvalue()
        self.server.files["/set.zip"] = self.archive
        entries = [
            {
                "name": name,
                "bytes": len(text),
                "sha256": sha256(text),
                "url": f"{url}/set.zip",
                "member": f"set/{name}",
            }
            for name, text in self.TEXTS.items()
        ]
        self.manifest = {
            "wikitext": {"about": "", "licence": "none", "folders": ["wt", "."], "files": entries},
            "pg19": {
                "about": "",
                "licence": "none",
                "folders": ["pg19", "."],
                "book_url": url + "/{split}/{id}.txt",
                "table": {"name": "metadata.csv", "url": url + "/metadata.csv"},
                "files": [
                    {"name": "7.txt", "split": "test", "bytes": len(self.BOOK), "sha256": sha256(self.BOOK)}
                ],
            },
        }
        self.server.files |= {
            "/test/7.txt": self.BOOK,
            "/train/8.txt": b"another",
            "/metadata.csv": b"7,T,1900,u\n",
        }
        self.write_manifest()

    def write_manifest(self):
        (self.tools / "datasets.json").write_text(json.dumps(self.manifest))

    def check(self, code, words, *arguments):
        return self.check_run(code, words, self.tools / "fetch_datasets", *arguments, "--dest", self.dest)

    def unpacked(self, name):
        return subprocess.run(
            ["zstd", "-q", "-d", "-c", str(self.dest / name)], capture_output=True, check=True
        ).stdout

    def test_members_of_an_archive_are_stored_as_zst_and_a_second_run_does_nothing(self):
        self.check(0, "SHA-256 right", "wikitext")
        for name, text in self.TEXTS.items():
            self.assertEqual(self.unpacked(f"wikitext/{name}.zst"), text)
        self.assertEqual(self.left(), ["wikitext/a.raw.zst", "wikitext/b.raw.zst"])
        self.assertEqual(len(self.server.seen), 1)
        self.check(0, "nothing to do", "wikitext")
        self.assertEqual(len(self.server.seen), 1)

    def test_a_stored_file_that_is_damaged_is_fetched_again(self):
        self.check(0, "2 fetched", "wikitext")
        with open(self.dest / "wikitext/a.raw.zst", "r+b") as file:
            file.seek(100)
            file.write(b"damage")
        self.check(0, "1 fetched", "wikitext")
        self.assertEqual(self.unpacked("wikitext/a.raw.zst"), self.TEXTS["a.raw"])

    def test_a_mirror_may_hold_plain_files_packed_files_or_the_archive(self):
        mirror = self.dir / "mirror"
        (mirror / "wt").mkdir(parents=True)
        (mirror / "wt/a.raw").write_bytes(self.TEXTS["a.raw"])
        (mirror / "b.raw").write_bytes(self.TEXTS["b.raw"])
        subprocess.run(["zstd", "-q", "--rm", str(mirror / "b.raw")], check=True)
        self.check(0, "2 fetched", "wikitext", "--from", mirror)
        shutil.rmtree(self.dest)
        self.server.folder = mirror
        self.check(0, "2 fetched", "wikitext", "--from", self.server.url)
        shutil.rmtree(self.dest)
        shutil.rmtree(mirror)
        self.check(0, "2 fetched", "wikitext", "--from", self.server.url)
        shutil.rmtree(self.dest)
        (self.dir / "any.zip").write_bytes(self.archive)
        self.check(0, "2 fetched", "wikitext", "--from", self.dir / "any.zip")
        self.assertEqual(self.unpacked("wikitext/b.raw.zst"), self.TEXTS["b.raw"])

    def test_a_wrong_hash_is_refused_and_nothing_is_kept(self):
        self.manifest["wikitext"]["files"][0]["sha256"] = "0" * 64
        self.write_manifest()
        self.check(3, "not the right file", "wikitext")
        self.assertFalse((self.dest / "wikitext").exists())

    def test_a_packed_file_with_a_wrong_text_is_refused(self):
        mirror = self.dir / "mirror"
        mirror.mkdir()
        (mirror / "7.txt").write_bytes(b"not the book")
        subprocess.run(["zstd", "-q", "--rm", str(mirror / "7.txt")], check=True)
        self.check(3, "not the right file", "pg19", "--from", mirror)
        (mirror / "7.txt.zst").write_bytes(b"not zstd")
        self.check(3, "does not unpack", "pg19", "--from", mirror)
        self.assertFalse((self.dest / "pg19").exists())

    def test_a_damaged_archive_is_refused(self):
        self.server.files["/set.zip"] = self.archive[:200]
        self.check(3, "not a sound .zip", "wikitext")
        self.assertFalse((self.dest / "wikitext").exists())

    def test_books_come_by_number_and_an_unlisted_one_says_that_it_is_not_checked(self):
        self.check(0, "7.txt.zst: 20000 bytes of text, SHA-256 right", "pg19")
        self.assertEqual(self.left(), ["pg19/7.txt.zst", "pg19/metadata.csv"])
        self.assertEqual(self.unpacked("pg19/7.txt.zst"), self.BOOK)
        self.check(0, "NOT CHECKED", "pg19", "--books", "8,7")
        self.assertEqual(self.unpacked("pg19/8.txt.zst"), b"another")
        self.check(0, "nothing to do", "pg19", "--books", "8,7")

    def test_a_book_of_the_published_size_is_taken_and_said_to_be_no_further_checked(self):
        published = bytes_like_text(20_500, 4)
        self.manifest["pg19"]["files"][0]["published_bytes"] = len(published)
        self.write_manifest()
        self.server.files["/test/7.txt"] = published
        self.check(0, "NOT CHECKED further", "pg19")
        self.assertEqual(self.unpacked("pg19/7.txt.zst"), published)
        self.check(0, "nothing to do", "pg19")
        shutil.rmtree(self.dest)
        self.server.files["/test/7.txt"] = self.BOOK
        self.check(0, "SHA-256 right", "pg19")
        shutil.rmtree(self.dest)
        self.server.files["/test/7.txt"] = published + b"."
        self.check(3, "not the right file", "pg19")

    def test_a_set_has_another_name_and_files_without_a_hash_say_so(self):
        self.manifest["wikitext"]["also"] = ["wikitext-2"]
        for key in ("bytes", "sha256"):
            del self.manifest["wikitext"]["files"][0][key]
        self.write_manifest()
        self.check(0, "a.raw.zst: 50000 bytes of text, NOT CHECKED", "wikitext-2")
        self.assertEqual(self.left(), ["wikitext/a.raw.zst", "wikitext/b.raw.zst"])
        self.check(0, "wikitext: all of it was here", "wikitext-2")

    def test_a_book_that_nobody_has_is_named_with_the_places_tried(self):
        self.check(3, "/validation/99.txt: the server says 404", "pg19", "--books", "99")

    def test_a_broken_transfer_is_resumed_by_the_next_run(self):
        self.server.cut_after, self.server.cuts_left = 4000, 1
        original = self.server.answer

        def answer_once(request):  # the book is cut, then gone
            if self.server.ranges_of("/test/7.txt"):
                self.server.status["/test/7.txt"] = 503  # before the client can have its answer and go on
            original(request)

        self.server.answer = answer_once
        self.check(6, "4000 bytes are kept", "pg19")
        self.server.answer, self.server.status, self.server.seen = original, {}, []
        self.check(0, "SHA-256 right", "pg19")
        self.assertEqual(self.server.ranges_of("/test/7.txt"), ["bytes=4000-"])
        self.assertEqual(self.unpacked("pg19/7.txt.zst"), self.BOOK)

    def test_no_network_is_said_in_words(self):
        with socket.socket() as unused:  # bound and not listening: refuses
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
            self.check(6, "refuses the connection", "pg19", "--from", url)
        self.check(6, "cannot find the host", "pg19", "--from", "http://no-such-host.invalid")

    def test_wrong_usage_is_exit_2(self):
        self.check(2, "invalid choice", "pile")
        self.check(2, "--books is for pg19", "wikitext", "--books", "1")
        self.check(2, "numbers of books", "pg19", "--books", "../1")
        self.check(2, "there is no such folder", "pg19", "--from", self.dir / "absent")

    def test_a_place_that_cannot_be_written_is_named(self):
        self.dest.write_text("a file, not a folder")
        self.check(3, str(self.dest), "pg19")


class RealData(FetchTest):
    """The manifest of the project against the real files, over HTTP."""

    def setUp(self):
        super().setUp()
        if not (SHARED / "wikitext-2").is_dir():
            self.skipTest(f"{SHARED} is not there")
        self.server.folder = SHARED

    def test_wikitext_and_books_have_the_listed_hashes(self):
        for dataset, files in (("wikitext", 3), ("pg19", 5)):
            self.check_run(
                0,
                f"{files} fetched",
                "fetch_datasets",
                dataset,
                "--from",
                self.server.url,
                "--dest",
                self.dest,
            )
            self.check_run(0, "nothing to do", "fetch_datasets", dataset, "--dest", self.dest)
        text = subprocess.run(
            ["zstd", "-qdc", str(self.dest / "wikitext/wiki.test.raw.zst")], capture_output=True
        ).stdout
        self.assertEqual(text, (SHARED / "wikitext-2/wiki.test.raw").read_bytes())


if __name__ == "__main__":
    unittest.main()
