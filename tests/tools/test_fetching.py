"""Tests of tools/fetching.py: one file, from a server that breaks off, changes its mind or lies."""

import hashlib
import json
import shutil
import unittest

from fetch_server import FetchTest, bytes_like_text, sha256  # and makes tools/ importable
import fetching
from http_request import NETWORK, FetchError, WrongFile


class OneFile(FetchTest):
    """tools/fetching.py itself."""

    CONTENT = bytes_like_text(300_000)

    def setUp(self):
        super().setUp()
        self.server.files["/f"] = self.CONTENT
        self.target = self.dest / "f"
        pauses = fetching.PAUSES_SECONDS
        fetching.PAUSES_SECONDS = (0.0, 0.0)
        self.addCleanup(setattr, fetching, "PAUSES_SECONDS", pauses)

    def fetch(self, **expected):
        return fetching.fetch(self.server.url + "/f", self.target, **expected)

    def test_a_whole_file_arrives_and_nothing_else(self):
        fetched = self.fetch(size=len(self.CONTENT), sha256=sha256(self.CONTENT))
        self.assertEqual(self.target.read_bytes(), self.CONTENT)
        self.assertEqual(
            (fetched.size, fetched.sha256, fetched.checked), (300_000, sha256(self.CONTENT), "SHA-256")
        )
        self.assertEqual(self.left(), ["f"])

    def test_a_broken_transfer_goes_on_by_itself(self):
        self.server.cut_after, self.server.cuts_left = 100_000, 2
        self.fetch(sha256=sha256(self.CONTENT))
        self.assertEqual(self.target.read_bytes(), self.CONTENT)
        self.assertEqual(self.server.ranges_of("/f"), [None, "bytes=100000-", "bytes=200000-"])

    def test_the_next_run_goes_on_where_the_last_one_stopped(self):
        self.server.cut_after, self.server.cuts_left = 120_000, 1
        original = self.server.answer

        def answer_once(request):  # the first body is cut, then the server is gone
            if self.server.seen:
                self.server.status["/f"] = 503  # before the client can have its answer and go on
            original(request)

        self.server.answer = answer_once
        with self.assertRaises(FetchError) as caught:
            self.fetch()
        self.assertEqual(caught.exception.exit_code, NETWORK)
        self.assertIn("120000 bytes are kept", str(caught.exception))
        self.assertFalse(self.target.exists())

        self.server.answer, self.server.status, self.server.seen = original, {}, []
        self.fetch()
        self.assertEqual(self.server.ranges_of("/f"), ["bytes=120000-"])
        self.assertEqual(self.target.read_bytes(), self.CONTENT)
        self.assertEqual(self.left(), ["f"])

    def leave_a_part(self, content, validator, url=None):
        self.dest.mkdir()
        (self.dest / "f.part").write_bytes(content)
        note = {"url": url or self.server.url + "/f", "validator": validator}
        (self.dest / "f.part.json").write_text(json.dumps(note))

    def test_a_part_of_a_file_that_has_changed_is_not_used(self):
        self.leave_a_part(b"x" * 1000, "of an older version")
        self.fetch()
        self.assertEqual(self.target.read_bytes(), self.CONTENT)

    def test_a_part_from_another_address_is_not_used(self):
        self.leave_a_part(b"x" * 1000, hashlib.md5(self.CONTENT).hexdigest(), url="http://elsewhere/f")
        self.fetch()
        self.assertEqual(self.server.ranges_of("/f"), [None])
        self.assertEqual(self.target.read_bytes(), self.CONTENT)

    def test_a_damaged_part_is_noticed_by_the_hash_and_fetched_anew(self):
        self.leave_a_part(b"x" * 1000, '"' + hashlib.md5(self.CONTENT).hexdigest() + '"')
        self.fetch(sha256=sha256(self.CONTENT))
        self.assertEqual(self.server.ranges_of("/f"), ["bytes=1000-", None])
        self.assertEqual(self.target.read_bytes(), self.CONTENT)

    def test_a_part_that_is_already_whole_is_accepted(self):
        self.leave_a_part(self.CONTENT, '"' + hashlib.md5(self.CONTENT).hexdigest() + '"')
        self.fetch(sha256=sha256(self.CONTENT))
        self.assertEqual(self.server.ranges_of("/f"), [f"bytes={len(self.CONTENT)}-"])
        self.assertEqual(self.target.read_bytes(), self.CONTENT)

    def test_a_server_without_ranges_sends_it_all_again(self):
        self.server.ranges = False
        self.server.cut_after, self.server.cuts_left = 100_000, 1
        self.fetch()
        self.assertEqual(self.target.read_bytes(), self.CONTENT)

    def test_a_server_that_never_gets_further_is_given_up(self):
        self.server.ranges = False
        self.server.cut_after, self.server.cuts_left = 100_000, 1000
        with self.assertRaises(FetchError) as caught:
            self.fetch()
        self.assertEqual(caught.exception.exit_code, NETWORK)
        self.assertEqual(len(self.server.seen), 4)

    def test_a_wrong_hash_keeps_nothing(self):
        with self.assertRaises(WrongFile) as caught:
            self.fetch(sha256="0" * 64)
        self.assertIn(sha256(self.CONTENT), str(caught.exception))
        self.assertFalse(self.dest.exists())

    def test_a_wrong_hash_leaves_the_file_of_an_earlier_run_alone(self):
        self.fetch()
        with self.assertRaises(WrongFile):
            self.fetch(sha256="0" * 64)
        self.assertEqual(self.target.read_bytes(), self.CONTENT)

    def test_a_wrong_size_is_refused_before_the_transfer(self):
        with self.assertRaises(WrongFile) as caught:
            self.fetch(size=7)
        self.assertIn("has 300000 bytes instead of 7", str(caught.exception))
        self.assertFalse(self.dest.exists())

    def test_a_file_without_stated_size_is_checked_after_the_transfer(self):
        self.server.states_length = False
        self.fetch(size=len(self.CONTENT))
        with self.assertRaises(WrongFile):
            self.fetch(size=len(self.CONTENT) + 1)

    def test_a_disk_without_room_is_noticed_before_the_transfer(self):
        usage = shutil.disk_usage
        fetching.shutil.disk_usage = lambda folder: usage(folder)._replace(free=1000)
        self.addCleanup(setattr, fetching.shutil, "disk_usage", usage)
        with self.assertRaises(FetchError) as caught:
            self.fetch()
        self.assertIn("no room", str(caught.exception))
        self.assertFalse(self.dest.exists())

    def test_two_programs_do_not_write_the_same_file(self):
        self.dest.mkdir()
        with open(self.dest / "f.part", "ab") as other:
            fetching.fcntl.flock(other, fetching.fcntl.LOCK_EX)
            with self.assertRaises(FetchError) as caught:
                self.fetch()
        self.assertIn("another program", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
