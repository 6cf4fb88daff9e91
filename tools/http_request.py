"""One request: what a server says of a file, or in words why it cannot be had."""

import dataclasses
import http.client
import pathlib
import re
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request

USAGE, BAD_INPUT, NETWORK = 2, 3, 6  # exit codes, those of lib/core/error.h
TIMEOUT_SECONDS = 60


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


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Keeps what each host says before it sends us on, and never shows our token to another host."""

    def __init__(self):
        self.answers = []

    def redirect_request(self, request, response, code, message, headers, url):
        self.answers.append(headers)
        following = super().redirect_request(request, response, code, message, headers, url)
        token = request.unredirected_hdrs.get("Authorization")
        if (
            following
            and token
            and urllib.parse.urlsplit(url)[:2] == urllib.parse.urlsplit(request.full_url)[:2]
        ):
            following.add_unredirected_header("Authorization", token)
        return following


def open_url(url, offset=0, token=None):
    """The response, and the headers that describe the file: a hub's own, where it redirects to a store."""
    redirects = _Redirects()
    try:
        request = urllib.request.Request(
            url, headers={"User-Agent": "attnbench-fetch", "Accept-Encoding": "identity"}
        )
        if offset:
            request.add_header("Range", f"bytes={offset}-")
        if token:
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        response = urllib.request.build_opener(redirects).open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not offset:
            error.close()
            raise _status_error(url, error) from None
        response = error
    except urllib.error.URLError as error:
        raise _unreachable(url, error.reason) from None
    except (http.client.InvalidURL, ValueError) as error:
        raise FetchError(f"{url} is not an address: {error}", USAGE) from None
    except (http.client.HTTPException, OSError) as error:
        raise Broken(f"{url}: the connection broke: {error or type(error).__name__}") from None
    of_hub = [said for said in redirects.answers if "X-Repo-Commit" in said or "X-Linked-Etag" in said]
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
        text = (
            f"the certificate of {host} is not trusted ({reason.verify_message}); is ca-certificates there?"
        )
    elif isinstance(reason, TimeoutError):
        text = f"{host} did not answer within {TIMEOUT_SECONDS} s"
    else:
        text = f"cannot reach {host}: {reason}"
    return FetchError(f"{text}\n  ({url}; --from takes another address, or a folder)", NETWORK)


def facts_of(response, first):
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
