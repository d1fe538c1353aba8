"""clew: the unwind-table compiler.

What a program needs most stands here; each name is loaded when it is first used.

>>> import clew
>>> with clew.open_image("/proc/self/exe") as image:
...     table = clew.read_table(image)
>>> table.row_count > 0
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew._lazy import lazily
from clew._version import __version__
from clew.errors import (
    DependencyError,
    Error,
    EvaluationError,
    FormatError,
    NotFoundError,
    Problem,
    UsageError,
)

if TYPE_CHECKING:
    from clew.arch import Machine, machine_for, machine_named
    from clew.image import Image, open_image
    from clew.inprocess import NativeFrame, backtrace
    from clew.memory import BytesMemory, Memory, ProcessMemory
    from clew.read.dwarf_cfi import CfiSection, EhFrameHeader, explain
    from clew.read.frames import frame_sections, read_table
    from clew.read.packed import PackedTable
    from clew.read.stats import Stats, read_stats, survey
    from clew.table import Expression, Row, Rule, Table, compare, evaluate, merge, normalise, table_of
    from clew.target import Target, Thread, open_core, open_minidump, open_perf_data, open_process, open_target
    from clew.walk import End, FastWalker, Frame, SampleWalker, Stack, Trust, Walker
    from clew.write.packed import packed, packed_table

_HOMES = {
    "clew.arch": ("Machine", "machine_for", "machine_named"),
    "clew.image": ("Image", "open_image"),
    "clew.inprocess": ("NativeFrame", "backtrace"),
    "clew.memory": ("BytesMemory", "Memory", "ProcessMemory"),
    "clew.read.dwarf_cfi": ("CfiSection", "EhFrameHeader", "explain"),
    "clew.read.frames": ("frame_sections", "read_table"),
    "clew.read.packed": ("PackedTable",),
    "clew.read.stats": ("Stats", "read_stats", "survey"),
    "clew.table": (
        "Expression",
        "Row",
        "Rule",
        "Table",
        "compare",
        "evaluate",
        "merge",
        "normalise",
        "table_of",
    ),
    "clew.target": (
        "Target",
        "Thread",
        "open_core",
        "open_minidump",
        "open_perf_data",
        "open_process",
        "open_target",
    ),
    "clew.write.packed": ("packed", "packed_table"),
    "clew.walk": ("End", "FastWalker", "Frame", "SampleWalker", "Stack", "Trust", "Walker"),
}
__all__ = [
    "BytesMemory",
    "CfiSection",
    "DependencyError",
    "EhFrameHeader",
    "End",
    "Error",
    "EvaluationError",
    "Expression",
    "FastWalker",
    "FormatError",
    "Frame",
    "Image",
    "Machine",
    "Memory",
    "NativeFrame",
    "NotFoundError",
    "PackedTable",
    "Problem",
    "ProcessMemory",
    "Row",
    "Rule",
    "SampleWalker",
    "Stack",
    "Stats",
    "Table",
    "Target",
    "Thread",
    "Trust",
    "UsageError",
    "Walker",
    "__version__",
    "backtrace",
    "compare",
    "evaluate",
    "explain",
    "frame_sections",
    "machine_for",
    "machine_named",
    "merge",
    "normalise",
    "open_core",
    "open_image",
    "open_minidump",
    "open_perf_data",
    "open_process",
    "open_target",
    "packed",
    "packed_table",
    "read_stats",
    "read_table",
    "survey",
    "table_of",
]

__getattr__, _ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
