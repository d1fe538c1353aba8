"""Getting one file from one debuginfod server, however that behaves: at most so long, at most so much, and never half.

Servers are not trusted. Every read has a deadline, headers included; redirects are counted, and lead to HTTP only; what is
shorter than the server said, or compressed though nobody asked for that, is refused.
"""

from __future__ import annotations

import base64
import errno
import http.client
import io
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from clew._version import __version__
from clew.errors import Error, NotFoundError
from clew.image.source import open_file

if TYPE_CHECKING:
    from clew.symbols.debuginfod_cache import Incoming
    from clew.symbols.debuginfod_settings import DebuginfodSettings

#: No debug file is that large; without a limit a server could fill the disk.
_LARGEST = 1 << 34
#: What a server has to send within the time-out: DEBUGINFOD_TIMEOUT in debuginfod-client-config(7).
_LEAST = 100 << 10
_PIECE = 1 << 18
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)


class TransferError(Exception):
    """A server did not send a file.

    Attributes:
        reason: why, as the end of a sentence about the server.
        missing: whether the server does not have it.
        again: whether to ask it again may help.
        silent: whether the server itself seems not to be there.
    """

    def __init__(self, reason: str, *, missing: bool = False, again: bool = False, silent: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing
        self.again = again
        self.silent = silent


def receive(url: str, settings: DebuginfodSettings, file: Incoming) -> None:
    """Gets what a URL names, ``http``, ``https`` or ``file``.

    Raises:
        TransferError: it did not come, or not whole.
    """
    limit = min(settings.maximum_size or _LARGEST, _LARGEST)
    try:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "file":
            _copy(parts, limit, file)
        elif parts.scheme in ("http", "https"):
            _download(url, settings, limit, file)
        else:
            raise TransferError("is no http, https or file URL", silent=True)
    # What a server sends can raise any of these out of the standard library.
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _explained(error) from None


def shown(url: str) -> str:
    """A URL as it may be printed: without a password."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}" if rest else url


def _copy(parts: urllib.parse.SplitResult, limit: int, file: Incoming) -> None:
    if parts.netloc not in ("", "localhost"):
        raise TransferError("names a file of another host", silent=True)
    try:
        _, descriptor, size = open_file(urllib.parse.unquote(parts.path))
    except NotFoundError:
        raise TransferError("there is no such file", missing=True) from None
    except Error as error:
        raise TransferError(error.message) from None
    with open(descriptor, "rb", buffering=0) as source:
        _check_size(size, limit)
        while piece := source.read(_PIECE):
            _check_size(file.size + len(piece), limit)
            _write(file, piece)


def _download(url: str, settings: DebuginfodSettings, limit: int, file: Incoming) -> None:
    pace = _Pace(settings.timeout, settings.maximum_time)
    url, user = _without_user(url)
    own = {"User-Agent": f"clew/{__version__}", "Accept-Encoding": "identity"}
    if settings.maximum_size is not None:
        own["X-DEBUGINFOD-MAXSIZE"] = str(settings.maximum_size)
    headers = user | dict(settings.headers) | own
    for _ in range(_MOST_REDIRECTS + 1):
        with _ask(url, headers, pace) as answer:
            if answer.status not in _REDIRECTS:
                return _store(answer, limit, pace, file)
            target, _ = _without_user(urllib.parse.urljoin(url, answer.headers.get("Location", "")))
        if not target.startswith(("http://", "https://")):
            raise TransferError("redirects to something else than http or https")
        if url.startswith("https:") and not target.startswith("https:"):
            raise TransferError("redirects from https to http")
        if urllib.parse.urlsplit(target).netloc != urllib.parse.urlsplit(url).netloc:
            # What else is in the headers may be a secret between the user and the server that is named.
            headers = own
        url = target
    raise TransferError(f"redirects more than {_MOST_REDIRECTS} times")


def _ask(url: str, headers: dict[str, str], pace: _Pace) -> http.client.HTTPResponse:
    """What a server answers, whatever that is."""
    opener = urllib.request.OpenerDirector()
    # Neither what makes errors of answers and follows redirects, nor what knows of other schemes.
    for handler in (urllib.request.ProxyHandler(), _Http(pace), _Https(pace)):
        opener.add_handler(handler)
    answer = opener.open(urllib.request.Request(url, headers=headers), timeout=pace.remaining())
    if not isinstance(answer, http.client.HTTPResponse):
        raise TransferError("did not answer")
    return answer


def _store(answer: http.client.HTTPResponse, limit: int, pace: _Pace, file: Incoming) -> None:
    status = answer.status
    if status in (404, 410):
        raise TransferError(f"HTTP {status}: it does not have the file", missing=True)
    if status == 406:
        # Of debuginfod: the file is larger than X-DEBUGINFOD-MAXSIZE.
        raise TransferError("HTTP 406: the file is larger than DEBUGINFOD_MAXSIZE")
    if status != 200:
        raise TransferError(f"answered HTTP {status}", again=status >= 500 or status == 429)
    encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise TransferError("sent the file compressed, though that was not asked for")
    sizes = [_size(answer.headers.get(name)) for name in ("Content-Length", "X-DEBUGINFOD-SIZE")]
    for size in sizes:
        _check_size(size or 0, limit)
    while piece := answer.read1(_PIECE):
        _check_size(file.size + len(piece), limit)
        _write(file, piece)
        pace.got(len(piece))
    if sizes[0] is not None and file.size != sizes[0]:
        raise TransferError(f"broke off after {file.size:,} of {sizes[0]:,} bytes", again=True)


def _write(file: Incoming, piece: bytes) -> None:
    try:
        file.write(piece)
    except OSError as error:
        raise TransferError(f"sent what cannot be written to {file.path}: {error.strerror}") from None


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise TransferError(f"has a file of more than {limit:,} bytes")


def _size(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 40 else None


def _without_user(url: str) -> tuple[str, dict[str, str]]:
    """A URL without the user's name and password, and the header that says them."""
    parts = urllib.parse.urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    coded = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
    return parts._replace(netloc=place).geturl(), {"Authorization": f"Basic {coded}"}


def _explained(error: Exception) -> TransferError:
    """What an error of the standard library says of the server."""
    inner: object = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, TimeoutError):
        return TransferError("timed out", silent=True)
    if isinstance(inner, ConnectionRefusedError):
        return TransferError("refused the connection", silent=True)
    if isinstance(inner, socket.gaierror):
        return TransferError(f"its address is not known: {inner.strerror}", silent=True)
    if isinstance(inner, ssl.SSLCertVerificationError):
        return TransferError(f"its certificate is not to be trusted: {inner.verify_message}", silent=True)
    if isinstance(inner, OSError) and inner.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return TransferError("cannot be reached", silent=True)
    # Before http.client's own: one of its errors is of both kinds.
    if isinstance(inner, ConnectionError):
        return TransferError("broke off the connection", again=True)
    if isinstance(inner, http.client.IncompleteRead):
        return TransferError("broke off in the middle of the file", again=True)
    if isinstance(inner, http.client.InvalidURL):
        return TransferError("is no URL", silent=True)
    if isinstance(inner, http.client.HTTPException):
        return TransferError("answered something else than HTTP", silent=True)
    return TransferError(f"cannot be asked: {inner}".replace("\n", " ")[:200], silent=True)


@dataclass(slots=True)
class _Pace:
    """Until when the next part has to be there.

    Attributes:
        timeout: seconds for each 100 KiB, None for any time.
        maximum: seconds for everything, None for any time.
    """

    timeout: float | None
    maximum: float | None
    _begin: float = field(default_factory=time.monotonic)
    _part: float = field(default_factory=time.monotonic)
    _bytes: int = 0

    def remaining(self) -> float | None:
        """The seconds that are left, None for any number. Raises TimeoutError where none are."""
        ends = [begin + time for begin, time in ((self._part, self.timeout), (self._begin, self.maximum)) if time]
        if not ends:
            return None
        left = min(ends) - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def got(self, size: int) -> None:
        """Notes that so many bytes came."""
        self._bytes += size
        if self._bytes >= _LEAST:
            self._bytes, self._part = 0, time.monotonic()


class _PacedReads(io.RawIOBase):
    """What a socket receives, each time only for as long as the pace allows.

    The time-out of a socket is one for each read, and starts again with every byte that drips in.
    """

    def __init__(self, connection: Any, pace: _Pace) -> None:
        self._socket = connection
        # A file of its own, which keeps the socket open when it is closed by its name.
        self._reads = connection.makefile("rb", buffering=0)
        self._pace = pace

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._pace.remaining())
        count: int | None = self._reads.readinto(buffer)
        return count

    def close(self) -> None:
        self._reads.close()
        super().close()


class _PacedSocket:
    """A connected socket for http.client, whose reads are paced."""

    def __init__(self, connection: Any, pace: _Pace) -> None:
        self._socket = connection
        self._pace = pace

    def makefile(self, _mode: str) -> io.BufferedReader:
        """What http.client reads the answer from."""
        return io.BufferedReader(_PacedReads(self._socket, self._pace))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


def _paced(kind: type[http.client.HTTPConnection], pace: _Pace) -> Any:
    """A kind of connection, with paced reads."""

    class Connection(kind):  # type: ignore[valid-type,misc]
        sock: Any

        def connect(self) -> None:
            super().connect()
            self.sock = _PacedSocket(self.sock, pace)

    return Connection


class _Http(urllib.request.HTTPHandler):
    def __init__(self, pace: _Pace) -> None:
        super().__init__()
        self._pace = pace

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_paced(http.client.HTTPConnection, self._pace), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, pace: _Pace) -> None:
        super().__init__()
        self._pace = pace

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_paced(http.client.HTTPSConnection, self._pace), req, context=_trusted())


@cache
def _trusted() -> ssl.SSLContext:
    """Checks certificates against those of the system; reading these takes a while."""
    return ssl.create_default_context()
