"""Minidumps as targets: of Windows, and of Breakpad and Crashpad on every other system.

    from clew.target import open_minidump

    with open_minidump("crash.dmp", sysroot="/path/to/the/system") as target:
        crashed = next(thread for thread in target.threads if thread.id == target.crashed)

:class:`MinidumpFile` reads the streams, :mod:`clew.target.minidump.records` what they say.
"""

from __future__ import annotations

from clew.target.minidump.file import Location, MinidumpFile, Stream, StreamType
from clew.target.minidump.opening import open_minidump

__all__ = ["Location", "MinidumpFile", "Stream", "StreamType", "open_minidump"]
