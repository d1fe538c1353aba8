"""What the environment says of debuginfod, the servers of debug files: see debuginfod-client-config(7) of elfutils.

Read apart from the client, so that nothing of the network is loaded where no server is named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from clew.errors import Error
from clew.image.source import first_bytes

#: Far beyond what anybody means, and small enough for every clock.
_LONGEST = 10**7

_HEADERS_SIZE = 1 << 16
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e]*)")


@dataclass(frozen=True, slots=True)
class DebuginfodSettings:
    """Which servers are asked, how patiently, and where their files are kept.

    Attributes:
        urls: the servers, in the order in which they are asked.
        cache: the directory of the files.
        timeout: seconds in which a server has to send 100 KiB, or everything; None for any time.
        maximum_time: seconds in which a file has to be there; None for any time.
        maximum_size: the largest file that is taken, in bytes; None for any size that makes sense.
        retries: how often a server is asked again after a failure that may pass.
        headers: further headers of each request, names and values.
    """

    urls: tuple[str, ...]
    cache: str
    timeout: float | None = 90
    maximum_time: float | None = None
    maximum_size: int | None = None
    retries: int = 2
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> DebuginfodSettings | None:
        """The settings in the environment, or None where it names no server: then nothing is ever asked.

        A number that is none is taken as if it were not there.
        """
        known = os.environ if environment is None else environment
        # Later versions have words such as ima:enforcing between the URLs, for what follows them.
        words = [word for word in known.get("DEBUGINFOD_URLS", "").split() if not word.startswith("ima:")]
        if not words:
            return None
        timeout = _number(known, "DEBUGINFOD_TIMEOUT", 90)
        maximum_time = _number(known, "DEBUGINFOD_MAXTIME", 0)
        maximum_size = _number(known, "DEBUGINFOD_MAXSIZE", 0)
        return cls(
            urls=tuple(dict.fromkeys(words)),
            cache=cache_directory(known),
            timeout=min(timeout, _LONGEST) if timeout > 0 else None,
            maximum_time=min(maximum_time, _LONGEST) if maximum_time > 0 else None,
            maximum_size=maximum_size if maximum_size > 0 else None,
            retries=min(max(_number(known, "DEBUGINFOD_RETRY_LIMIT", 2), 0), 100),
            headers=_headers(known.get("DEBUGINFOD_HEADERS_FILE", "")),
        )


def cache_directory(environment: Mapping[str, str]) -> str:
    """Where files are kept: the place that the environment names, or the first of elfutils' own."""
    named = environment.get("DEBUGINFOD_CACHE_PATH", "")
    if named:
        return named
    home = environment.get("HOME", "") or "/"
    # The place of early versions, which is used on where it is already.
    early = os.path.join(home, ".debuginfod_client_cache")
    if os.path.isdir(early):
        return early
    return os.path.join(environment.get("XDG_CACHE_HOME", "") or os.path.join(home, ".cache"), "debuginfod_client")


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "").strip()
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) else default


def _headers(path: str) -> tuple[tuple[str, str], ...]:
    """The headers in a file, one a line; what is none is left out."""
    if not path:
        return ()
    try:
        lines = first_bytes(path, _HEADERS_SIZE).decode("latin-1").split("\n")
    except Error:
        return ()
    found = (_HEADER.fullmatch(line.strip()) for line in lines)
    return tuple((match[1], match[2]) for match in found if match is not None)
