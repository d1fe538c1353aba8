"""The stack of this very process, through the in-process library (``docs/guide.md``, "In-process library")."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from clew.errors import DependencyError

LIBRARY = Path(__file__).parent / "native" / "libclew-unwind.so"
"""The library that :func:`backtrace` calls."""

PRELOAD = LIBRARY.with_name("libclew-preload.so")
"""For ``LD_PRELOAD``: ``backtrace``, ``unw_backtrace`` and ``_Unwind_Backtrace`` of a program that knows nothing of clew."""

PERF = LIBRARY.with_name("libclew-perf.so")
"""For ``LD_PRELOAD``: what a perf that is linked with libunwind uses of it (x86-64)."""

_MOST = 1 << 16


@dataclass(frozen=True, slots=True)
class NativeFrame:
    """A frame of a thread of this process.

    Attributes:
        pc: its return address; of a function that was interrupted by a signal, where it was.
        module: path of the file that it lies in, as the dynamic linker has it; None if it is in none.
        module_offset: the pc, counted from where the module is loaded.
        symbol: the exported symbol around it, or None: most functions of a stripped file have none.
        symbol_offset: bytes from the symbol's address.
    """

    pc: int
    module: str | None = None
    module_offset: int | None = None
    symbol: str | None = None
    symbol_offset: int | None = None


class _DlInfo(ctypes.Structure):
    """What dladdr answers (dlfcn.h)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_size_t),
    )


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise DependencyError(
            "the in-process library is not built" if not LIBRARY.exists() else f"cannot be loaded: {error}",
            file=str(LIBRARY),
            hint="it is built with clew where there is a C compiler: python -m clew.native.unwind.compile "
            + str(LIBRARY.parent),
        ) from None
    if library.clew_init():
        raise DependencyError("the in-process library cannot work here", file=str(LIBRARY))
    library.clew_backtrace.argtypes = (ctypes.POINTER(ctypes.c_size_t), ctypes.c_int)
    return library


@cache
def _dladdr() -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(None).dladdr
    function.argtypes = (ctypes.c_size_t, ctypes.POINTER(_DlInfo))
    return function


def backtrace(limit: int = 256) -> list[NativeFrame]:
    """The native frames of the calling thread, the innermost first; those of the call itself are left out.

    Args:
        limit: how many frames at most.

    Raises:
        DependencyError: the in-process library is not built, or this machine is not one that it is for.

    >>> frames = backtrace()  # doctest: +SKIP
    >>> frames[-1].symbol  # doctest: +SKIP
    '_start'
    """
    library = _library()
    limit = max(0, min(limit, _MOST))
    buffer = (ctypes.c_size_t * (limit + 16))()
    count = library.clew_backtrace(buffer, limit + 16)
    frames = [_frame(pc) for pc in buffer[:count]]
    first = 0
    while first < len(frames) and _is_of_the_call(frames[first]):
        first += 1
    return frames[first : first + limit]


def _is_of_the_call(frame: NativeFrame) -> bool:
    return os.path.basename(frame.module or "").startswith(("libffi.", "_ctypes."))


def _frame(pc: int) -> NativeFrame:
    info = _DlInfo()
    # A return address may be the next function's first.
    if not _dladdr()(pc - 1, ctypes.byref(info)) or not info.file:
        return NativeFrame(pc)
    symbol = info.name.decode(errors="replace") if info.name else None
    return NativeFrame(
        pc,
        os.fsdecode(info.file),
        pc - info.base,
        symbol,
        pc - info.address if symbol is not None else None,
    )
