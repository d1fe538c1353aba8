"""A stopped machine: its threads with their registers, its memory, and the modules that are loaded in it.

    from clew.target import open_target

    with open_target("1234") as target:
        for thread in target.threads:
            print(thread.name, hex(thread.pc), target.modules.at(thread.pc))

Targets are processes of this machine, ELF cores and minidumps of any. A recording of ``perf record`` is a row of them, see
:mod:`clew.target.perfdata`. What cannot be read of one is in ``target.problems``; only :class:`clew.errors.Error` is ever raised.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from clew.target.model import Module, Modules, Target, Thread

if TYPE_CHECKING:
    from clew.target.core import open_core
    from clew.target.minidump import open_minidump
    from clew.target.opening import open_target
    from clew.target.perfdata import PerfData, Sample, SampledProcess, open_perf_data
    from clew.target.process import open_process

# Who walks a process need not load what reads recordings: each of these is loaded when it is first used.
_HOME_OF = {
    "open_core": "core",
    "open_minidump": "minidump",
    "open_target": "opening",
    "open_process": "process",
    "open_perf_data": "perfdata",
    "PerfData": "perfdata",
    "Sample": "perfdata",
    "SampledProcess": "perfdata",
}

__all__ = [
    "Module",
    "Modules",
    "PerfData",
    "Sample",
    "SampledProcess",
    "Target",
    "Thread",
    "open_core",
    "open_minidump",
    "open_perf_data",
    "open_process",
    "open_target",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
