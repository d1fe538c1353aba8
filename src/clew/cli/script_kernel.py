"""The kernel's symbols: of the copy that perf keeps, or of ``/proc/kallsyms`` where the recorded kernel is the one that runs."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.native.script_kallsyms import kernel_symbols

if TYPE_CHECKING:
    from clew.target.perfdata import PerfData
    from clew.target.perfdata.records import Mapped

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

KERNEL_NAME = "[kernel.kallsyms]"
_PROC = "/proc/kallsyms"
_NOTES = "/sys/kernel/notes"
_LARGEST = 1 << 28
_HIGHEST = (1 << 64) - 1
_PAGE = 4096


class Kernel:
    """Names the kernel's code.

    Args:
        data: the recording that it is in.

    Attributes:
        modules: what the pieces of its code are called: itself, and its modules as ``[name]``.
    """

    def __init__(self, data: PerfData) -> None:
        self._data = data
        self._mappings = sorted(_pieces(data.kernel), key=lambda each: each.start)
        self._starts = np.array([each.start for each in self._mappings], np.uint64)
        self._ends = np.array([min(each.end, _HIGHEST) for each in self._mappings], np.uint64)
        self.modules = [_module_name(each.path) for each in self._mappings]
        self._text: bytes | None = None
        self._address: U64 = np.zeros(0, np.uint64)
        self._begin = self._end = self._address

    def lookup(self, addresses: U64) -> tuple[I64, I64, U64]:
        """For each address the module that it is in, or -1; the symbol, for :meth:`name`, or -1; how far behind its beginning."""
        self._read()
        module = np.searchsorted(self._starts, addresses, "right").astype(np.int64) - 1
        inside = (module >= 0) & (addresses < self._ends[np.maximum(module, 0)]) if len(self._starts) else module >= 0
        module[~inside] = -1
        symbol = np.searchsorted(self._address, addresses, "right").astype(np.int64) - 1
        symbol[~inside] = -1
        known = symbol >= 0
        # A symbol before the piece of code that an address is in is of something else.
        known[known] = self._address[symbol[known]] >= self._starts[module[known]]
        symbol[~known] = -1
        offsets = np.zeros(len(addresses), np.uint64)
        offsets[known] = addresses[known] - self._address[symbol[known]]
        return module, symbol, offsets

    def name(self, index: int) -> str:
        """A symbol's name."""
        assert self._text is not None
        return self._text[int(self._begin[index]) : int(self._end[index])].decode("utf-8", "backslashreplace")

    def _read(self) -> None:
        if self._text is not None:
            return
        self._text = b""
        for path in self._candidates():
            text = _contents(path)
            address, begin, end = kernel_symbols(text)
            # Without the right to see them, all addresses are zero.
            if not len(address) or not address.any():
                continue
            moved = self._moved(text, address, begin, end)
            if moved is None:
                continue
            address = address - np.uint64(moved & _HIGHEST)
            order = np.argsort(address, kind="stable") if (address[1:] < address[:-1]).any() else slice(None)
            self._text, self._address, self._begin, self._end = text, address[order], begin[order], end[order]
            self._extend()
            return

    def _extend(self) -> None:
        """Lets the kernel's own code reach to its last symbol: the recording tells of ``.text`` only, not of ``.init.text``."""
        main = next((i for i, each in enumerate(self._mappings) if each.path.startswith(KERNEL_NAME)), -1)
        if main < 0 or not self._text:
            return
        # A module's symbols have its name behind them.
        own = np.frombuffer(self._text, np.uint8)[np.minimum(self._end, len(self._text) - 1).astype(np.int64)] == ord(
            "\n"
        )
        last = int(self._address[own].max(initial=0))
        following = int(self._starts[main + 1]) if main + 1 < len(self._starts) else _HIGHEST
        self._ends[main] = max(int(self._ends[main]), min(last + _PAGE, following))

    def _moved(self, text: bytes, address: U64, begin: U64, end: U64) -> int | None:
        """How far the kernel of this text lies from the recorded one; None where that cannot be told.

        A recording says where one symbol was, ``[kernel.kallsyms]_text``: with ``kaslr``, that differs from boot to boot.
        """
        main = next((each for each in self._data.kernel if each.path.startswith(KERNEL_NAME)), None)
        if main is None:
            return None
        name = main.path[len(KERNEL_NAME) :].encode()
        if not name:
            return 0
        at = text.find(b" " + name + b"\n") + 1
        index = int(np.searchsorted(begin, np.uint64(at)))
        if not at or index >= len(begin) or int(begin[index]) != at:
            return None
        return int(address[index]) - main.offset

    def _candidates(self) -> list[str]:
        """Where its symbols may be, best first: the copy that perf made when it recorded is read faster than the kernel's own."""
        build_id = self._data.features.kernel_build_id
        if build_id is None:
            release = self._data.features.release
            return [_PROC] if release in (None, platform.release()) else []
        folder = os.environ.get("PERF_BUILDID_DIR") or os.path.expanduser("~/.debug")
        copy = f"{folder}/{KERNEL_NAME}/{build_id.hex()}/kallsyms"
        own = [_PROC] if build_id in _contents(_NOTES) else []
        if own and not self._is_this_boot(copy):
            return [*own, copy]
        return [copy, *own]

    def _is_this_boot(self, copy: str) -> bool:
        """Whether a copy is from the time since the kernel was started, so that modules are where they are now."""
        try:
            with open("/proc/uptime", "rb") as stream:
                running = float(stream.read().split()[0])
            from time import time

            return os.stat(copy).st_mtime > time() - running
        except (OSError, ValueError, IndexError):
            return False


def _pieces(kernel: list[Mapped]) -> list[Mapped]:
    """The kernel's pieces of code, each once; where the same is told twice, what was said last."""
    found: dict[str, Mapped] = {}
    for each in kernel:
        found[each.path] = each
    return [each for each in found.values() if each.path]


def _module_name(path: str) -> str:
    """What perf calls a piece of the kernel's code.

    >>> _module_name("[kernel.kallsyms]_text"), _module_name("/lib/modules/6.1/kernel/fs/foo-bar.ko.xz")
    ('[kernel.kallsyms]', '[foo_bar]')
    """
    if path.startswith("["):
        return path[: path.find("]") + 1] or path
    return "[" + os.path.basename(path).partition(".ko")[0].replace("-", "_") + "]"


def _contents(path: str) -> bytes:
    """The bytes of a file; none where there is none that may be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(_LARGEST)
    except OSError:
        return b""
