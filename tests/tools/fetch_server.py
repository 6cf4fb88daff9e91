"""A local server that can break, refuse and lie, and what the tests of fetching share."""

import hashlib
import http.server
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SHARED = REPOSITORY.parent / "shared" / "data"
TOOLS = REPOSITORY / "tools"
sys.path.insert(0, str(TOOLS))


class Server:
    """Serves files from memory (or a folder) on 127.0.0.1, with the behaviour a test asks for."""

    def __init__(self):
        self.files = {}  # path -> bytes
        self.folder = None
        self.headers = {}  # path -> more headers
        self.ranges = True
        self.states_length = True
        self.cut_after = None  # bytes of a body after which the connection is closed
        self.cuts_left = 0
        self.status = {}  # path -> status instead of the file
        self.redirect = {}  # path -> (address, headers)
        self.seen = []  # (path, Range header, Authorization header)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def content(self, path):
        if path in self.files:
            return self.files[path]
        if self.folder and (self.folder / path[1:]).is_file():
            return (self.folder / path[1:]).read_bytes()
        return None

    def answer(self, request):
        path, wanted = request.path, request.headers.get("Range")
        self.seen.append((path, wanted, request.headers.get("Authorization")))
        if path in self.redirect:
            address, headers = self.redirect[path]
            request.send_response(302)
            for name, value in {"Location": address, "Content-Length": "0", **headers}.items():
                request.send_header(name, value)
            request.end_headers()
            return
        body = self.content(path)
        if path in self.status or body is None:
            request.send_error(self.status.get(path, 404))
            return
        begin = int(wanted[6:-1]) if wanted and self.ranges else 0
        if begin and begin >= len(body):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(body)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(206 if begin else 200)
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        if self.states_length:
            request.send_header("Content-Length", str(len(body) - begin))
        request.send_header("ETag", '"' + hashlib.md5(body).hexdigest() + '"')
        for name, value in self.headers.get(path, {}).items():
            request.send_header(name, value)
        request.end_headers()
        rest = body[begin:]
        if self.cut_after is not None and self.cuts_left > 0 and len(rest) > self.cut_after:
            self.cuts_left -= 1
            rest = rest[: self.cut_after]
        request.wfile.write(rest)
        request.close_connection = True

    def ranges_of(self, path):
        return [wanted for seen, wanted, _ in self.seen if seen == path]


class FetchTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = pathlib.Path(holder.name)
        self.dest = self.dir / "dest"
        self.server = Server()
        self.addCleanup(self.server.close)

    def run_tool(self, tool, *arguments, **environment):
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.lower().endswith("_proxy")
            and name not in ("HF_TOKEN", "HF_ENDPOINT", "ATTNBENCH_MODELS")
        }
        return subprocess.run(
            [sys.executable, "-B", str(TOOLS / tool), *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**kept, **environment},
        )

    def check_run(self, code, words, tool, *arguments, **environment):
        """Runs the tool; its exit code is CODE and its message contains WORDS."""
        done = self.run_tool(tool, *arguments, **environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(words, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done

    def left(self):
        return sorted(str(path.relative_to(self.dest)) for path in self.dest.rglob("*") if path.is_file())


def bytes_like_text(count, seed=1):
    """Deterministic, and not compressible to nothing."""
    return b"".join(
        hashlib.sha256(b"%d %d" % (seed, i)).hexdigest().encode() + b"\n" for i in range(count // 65 + 1)
    )[:count]


def sha256(content):
    return hashlib.sha256(content).hexdigest()
