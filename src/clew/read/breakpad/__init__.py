"""Breakpad symbol files: their records as columns, and their ``STACK CFI`` as a Table."""

from __future__ import annotations

from clew.read.breakpad.records import CfiText, ModuleRecord, Records, StackWin, read_records

__all__ = ["CfiText", "ModuleRecord", "Records", "StackWin", "read_records"]
