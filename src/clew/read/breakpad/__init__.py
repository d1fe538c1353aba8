"""Breakpad symbol files: their records as columns, and their ``STACK CFI`` as a Table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew._lazy import lazily

if TYPE_CHECKING:
    from clew.read.breakpad.module import ModuleRecord
    from clew.read.breakpad.records import CfiText, Records, StackWin, read_records

_HOMES = {
    "clew.read.breakpad.module": ("ModuleRecord",),
    "clew.read.breakpad.records": ("CfiText", "Records", "StackWin", "read_records"),
}

__all__ = ["CfiText", "ModuleRecord", "Records", "StackWin", "read_records"]

__getattr__, __dir__ = lazily(__name__, _HOMES)
