"""Brings one file from an address or a folder to its place: resumed where it broke off, and checked.

While it is on its way the file is TARGET.part; TARGET.part.json says where it comes from. Only a file whose
size and hash are right is renamed to TARGET, so a file with its final name is whole.
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
import ssl
import sys
import time

from http_request import BAD_INPUT, Broken, Facts, FetchError, NotThere, WrongFile, facts_of, is_url, open_url

PAUSES_SECONDS = (0.2, 1.0)  # before another attempt, when the last one brought no byte
BLOCK_BYTES = 1 << 20


@dataclasses.dataclass
class Fetched:
    size: int
    sha256: str
    checked: str  # what it was compared with, in words
    commit: str | None = None  # of a model hub


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


def fetch(source, target, *, size=None, sha256=None, token=None):
    """Brings SOURCE (address or path of a file) to TARGET. Throws FetchError; TARGET is then as it was."""
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
            kept = (
                f"\n  {have} bytes are kept; the same command goes on from there"
                if have and is_url(source)
                else ""
            )
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
                facts = facts_of(response, first)
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
    """How much of an earlier attempt may be kept: none where a change of the file could not be noticed."""
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
        raise WrongFile(
            f"{source} has {total} bytes instead of {size}: it is not the right file; nothing is kept"
        )


def _check_room(part, needed):
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise FetchError(
            f"no room: {part.parent} has {free >> 20} MiB free, {part.name} needs {needed >> 20} MiB more"
        )


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
        return (
            f"{source} is not the right file; nothing is kept\n"
            f"  SHA-256 {sha256_of(part)}\n  instead {should}"
        )
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
