"""Brings one file from an address or a folder to its place: resumed when broken off, checked before it gets its name.

While it is on its way the file is TARGET.part; TARGET.part.json says where it comes from. Only a file whose size and hash
are right is renamed to TARGET, so a file with its final name is whole.
"""

import dataclasses
import errno
import fcntl
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

USAGE, BAD_INPUT, NETWORK = 2, 3, 6  # exit codes, those of lib/core/error.h
TIMEOUT_SECONDS = 60
PAUSES_SECONDS = (0.2, 1.0)  # before another attempt, when the last one brought no byte
BLOCK_BYTES = 1 << 20


class FetchError(Exception):
    def __init__(self, message, exit_code=BAD_INPUT):
        super().__init__(message)
        self.exit_code = exit_code


class NotThere(FetchError):
    """The source answers, but does not have this file."""


class NoAccess(FetchError):
    """The source has it, perhaps, but not for us (401, 403)."""


class WrongFile(FetchError):
    """Size or hash is not what it must be: nothing of it is kept."""


class Broken(FetchError):
    """The connection or the server failed; another attempt may succeed."""

    def __init__(self, message, exit_code=NETWORK):
        super().__init__(message, exit_code)


@dataclasses.dataclass
class Fetched:
    size: int
    sha256: str
    checked: str  # what it was compared with, in words
    commit: str | None = None  # of a model hub


@dataclasses.dataclass
class Facts:
    """What the headers say of a file."""

    total: int | None = None
    sha256: str | None = None
    git_sha1: str | None = None
    commit: str | None = None
    validator: str | None = None  # changes when the file does


def is_url(source):
    return re.match(r"https?://", str(source)) is not None


def join(source, relative):
    """SOURCE/relative, for an address and for a folder."""
    if not is_url(source):
        return str(pathlib.Path(source) / relative)
    parts = urllib.parse.urlsplit(str(source))
    path = parts.path.rstrip("/") + "/" + urllib.parse.quote(relative)
    return urllib.parse.urlunsplit(parts._replace(path=path))


def sha256_of(path):
    with open(path, "rb") as file:
        return hash_blocks(file, hashlib.sha256())


def hash_blocks(file, digest):
    while block := file.read(BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest()


def git_sha1_of(path):
    """The name git gives to a file's content: SHA-1 of "blob SIZE", a zero byte, the content."""
    digest = hashlib.sha1(b"blob %d\0" % os.path.getsize(path))
    with open(path, "rb") as file:
        return hash_blocks(file, digest)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Keeps what each host says before it sends us on, and never shows our token to another host."""

    def __init__(self):
        self.answers = []

    def redirect_request(self, request, response, code, message, headers, url):
        self.answers.append(headers)
        following = super().redirect_request(request, response, code, message, headers, url)
        token = request.unredirected_hdrs.get("Authorization")
        if following and token and urllib.parse.urlsplit(url)[:2] == urllib.parse.urlsplit(request.full_url)[:2]:
            following.add_unredirected_header("Authorization", token)
        return following


def open_url(url, offset=0, token=None):
    """The response, and the headers that describe the file: a hub's own, where it redirects to a store that knows less."""
    redirects = _Redirects()
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "attnbench-fetch", "Accept-Encoding": "identity"})
        if offset:
            request.add_header("Range", f"bytes={offset}-")
        if token:
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        response = urllib.request.build_opener(redirects).open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not offset:
            raise _status_error(url, error) from None
        response = error
    except urllib.error.URLError as error:
        raise _unreachable(url, error.reason) from None
    except (http.client.InvalidURL, ValueError) as error:
        raise FetchError(f"{url} is not an address: {error}", USAGE) from None
    except (http.client.HTTPException, OSError) as error:
        raise Broken(f"{url}: the connection broke: {error or type(error).__name__}") from None
    of_hub = [headers for headers in redirects.answers if "X-Repo-Commit" in headers or "X-Linked-Etag" in headers]
    return response, of_hub[0] if of_hub else response.headers


def _status_error(url, error):
    said = f"{url}: the server says {error.code} {error.reason}"
    if error.code in (404, 410):
        return NotThere(said)
    if error.code in (401, 403):
        return NoAccess(said)
    if error.code == 429 or error.code >= 500:
        return Broken(said)
    return FetchError(said)


def _unreachable(url, reason):
    host = urllib.parse.urlsplit(url).netloc
    if isinstance(reason, socket.gaierror):
        text = f"cannot find the host {host}: is there a network?"
    elif isinstance(reason, ConnectionRefusedError):
        text = f"{host} refuses the connection: is the server running?"
    elif isinstance(reason, ssl.SSLCertVerificationError):
        text = f"the certificate of {host} is not trusted ({reason.verify_message}): is ca-certificates installed?"
    elif isinstance(reason, TimeoutError):
        text = f"{host} did not answer within {TIMEOUT_SECONDS} s"
    else:
        text = f"cannot reach {host}: {reason}"
    return FetchError(f"{text}\n  ({url}; --from takes another address, or a folder)", NETWORK)


def _facts(response, first):
    facts = Facts(commit=first.get("X-Repo-Commit"))
    if response.status == 206 or response.status == 416:
        total = re.search(r"/(\d+)$", response.headers.get("Content-Range") or "")
        facts.total = int(total[1]) if total else None
    elif length := response.headers.get("Content-Length"):
        facts.total = int(length)
    tag = first.get("X-Linked-Etag") or (first.get("ETag") if facts.commit else None) or ""
    tag = tag.removeprefix("W/").strip('"')
    if re.fullmatch(r"[0-9a-f]{64}", tag):
        facts.sha256 = tag
    elif facts.commit and re.fullmatch(r"[0-9a-f]{40}", tag):
        facts.git_sha1 = tag
    facts.validator = tag or response.headers.get("ETag") or response.headers.get("Last-Modified")
    return facts


def fetch(source, target, *, size=None, sha256=None, token=None):
    """Brings SOURCE (address or path of a file) to TARGET. Errors: FetchError and its kinds; TARGET is then untouched."""
    target = pathlib.Path(target)
    new_folder = not target.parent.exists()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    with open(part, "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FetchError(f"{part} is being written by another program") from None
        try:
            facts, resumed = _bring(source, part, size, sha256, token)
            fetched = _verify(part, facts, size, sha256)
            if fetched is None and resumed:  # what was here from an earlier attempt may be to blame
                _discard_content(part)
                facts, _ = _bring(source, part, size, sha256, token)
                fetched = _verify(part, facts, size, sha256)
            if fetched is None:
                raise WrongFile(_mismatch(source, part, facts, size, sha256))
            os.replace(part, target)
            _note(part).unlink(missing_ok=True)
            return fetched
        except WrongFile:
            _discard_content(part)
            raise
        except FetchError as error:
            have = part.stat().st_size
            kept = f"\n  {have} bytes are kept; the same command goes on from there" if have and is_url(source) else ""
            raise type(error)(f"{error}{kept}", error.exit_code) from None
        finally:
            if part.exists() and part.stat().st_size == 0:
                part.unlink()
                _note(part).unlink(missing_ok=True)
                if new_folder:
                    target.parent.rmdir()


def _note(part):
    return part.with_name(part.name + ".json")


def _discard_content(part):
    os.truncate(part, 0)
    _note(part).unlink(missing_ok=True)


def _bring(source, part, size, sha256, token):
    if is_url(source):
        return _transfer(str(source), part, size, sha256, token)
    path = pathlib.Path(source)
    if not path.is_file():
        raise NotThere(f"there is no file {path}")
    facts = Facts(total=path.stat().st_size)
    _check_room(part, facts.total)
    _check_size(source, facts.total, size)
    shutil.copyfile(path, part)
    return facts, False


def _transfer(url, part, size, sha256, token):
    """Appends to PART until it is whole. Returns the facts, and whether an earlier part was used."""
    idle = 0
    resumed = False
    while True:
        offset = _usable_bytes(url, part, sha256)
        try:
            response, first = open_url(url, offset, token)
            with response:
                facts = _facts(response, first)
                _check_size(url, facts.total, size)
                starts_at = _start_of(response, facts, part, offset)
                if starts_at is None:  # what we have does not fit what the server has
                    _discard_content(part)
                    continue
                resumed = resumed or starts_at > 0
                _check_room(part, (facts.total or 0) - starts_at)
                _note(part).write_text(json.dumps({"url": url, "validator": facts.validator}))
                received = 0 if response.status == 416 else _append(response, part, starts_at, facts.total)
            if facts.total is None or starts_at + received == facts.total:
                return facts, resumed
            raise Broken(f"{url}: the connection ended after {starts_at + received} of {facts.total} bytes")
        except Broken as error:
            idle = 0 if part.stat().st_size > offset else idle + 1
            if idle > len(PAUSES_SECONDS):
                raise error
            if idle:
                time.sleep(PAUSES_SECONDS[idle - 1])


def _usable_bytes(url, part, sha256):
    """How much of an earlier attempt may be kept: none, unless it is of this file and a change would be noticed."""
    have = part.stat().st_size
    try:
        note = json.loads(_note(part).read_text())
    except (OSError, ValueError):
        note = {}
    if have and note.get("url") == url and (sha256 or note.get("validator")):
        return have
    _discard_content(part)
    return 0


def _start_of(response, facts, part, offset):
    """Where the bytes of this response belong; None when the file has changed since the earlier attempt."""
    if response.status == 200:  # the whole file: also the answer of a server that does not know Range
        _discard_content(part)
        return 0
    if not offset or response.status not in (206, 416):
        raise FetchError(f"{response.url}: the server says {response.status} to a plain request")
    noted = json.loads(_note(part).read_text()).get("validator")
    if noted and facts.validator and noted != facts.validator:
        return None
    if response.status == 416:  # nothing left to send: whole already, or longer than the server's file
        return offset if facts.total == offset else None
    begin = re.match(r"bytes (\d+)-", response.headers.get("Content-Range") or "")
    return offset if begin and int(begin[1]) == offset else None


def _append(response, part, starts_at, total):
    received = 0
    progress = _Progress(part.name.removesuffix(".part"), total)
    with open(part, "ab") as file:
        try:
            while block := response.read(BLOCK_BYTES):
                file.write(block)
                received += len(block)
                progress.show(starts_at + received)
        except http.client.IncompleteRead as error:
            file.write(error.partial)
            raise Broken(f"{response.url}: the connection ended early") from None
        except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            raise Broken(f"{response.url}: the connection broke: {error or type(error).__name__}") from None
        finally:
            progress.end()
    return received


def _check_size(source, total, size):
    if size is not None and total is not None and total != size:
        raise WrongFile(f"{source} has {total} bytes instead of {size}: it is not the right file; nothing is kept")


def _check_room(part, needed):
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise FetchError(f"no room: {part.parent} has {free >> 20} MiB free, {part.name} needs {needed >> 20} MiB more")


def _verify(part, facts, size, sha256):
    """None when the content is wrong."""
    right_size = facts.total if size is None else size
    right_sha256 = sha256 or facts.sha256
    actual_size, actual_sha256 = part.stat().st_size, sha256_of(part)
    if right_size is not None and actual_size != right_size:
        return None
    if right_sha256:
        fits, checked = actual_sha256 == right_sha256, "SHA-256"
    elif facts.git_sha1:
        fits, checked = git_sha1_of(part) == facts.git_sha1, "git's SHA-1"
    elif right_size is not None:
        fits, checked = True, "size"
    else:
        fits, checked = True, "nothing: the source states neither size nor hash"
    return Fetched(actual_size, actual_sha256, checked, facts.commit) if fits else None


def _mismatch(source, part, facts, size, sha256):
    should = sha256 or facts.sha256
    if should:
        return (f"{source} is not the right file; nothing is kept\n"
                f"  SHA-256 {sha256_of(part)}\n  instead {should}")
    if facts.git_sha1:
        return f"{source}: git's SHA-1 is {git_sha1_of(part)} instead of {facts.git_sha1}; nothing is kept"
    return f"{source}: {part.stat().st_size} bytes arrived instead of {size or facts.total}; nothing is kept"


class _Progress:
    """One line on a terminal, nothing in a pipe."""

    def __init__(self, name, total):
        self.name, self.total, self.shown = name, total, 0.0
        self.visible = sys.stderr.isatty()

    def show(self, have):
        if self.visible and time.monotonic() - self.shown > 0.1:
            self.shown = time.monotonic()
            of = f" of {self.total / 1e6:.1f}" if self.total else ""
            sys.stderr.write(f"\r\033[K{self.name}: {have / 1e6:.1f}{of} MB")
            sys.stderr.flush()

    def end(self):
        if self.visible:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def guarded_main(program, main):
    """Runs main(); an error becomes one message and the exit code of its kind."""
    try:
        return main() or 0
    except FetchError as error:
        message, code = str(error), error.exit_code
    except KeyboardInterrupt:
        message, code = "stopped; what has arrived is kept, the same command goes on from there", 130
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        hint = "; free some space, the same command then goes on" if error.errno == errno.ENOSPC else ""
        message, code = f"{place}{error.strerror or error}{hint}", BAD_INPUT
    print(f"{program}: {message}", file=sys.stderr)
    return code
