"""The walk by packed tables: one state of a process, as the extension in C takes it.

It is for x86-64 and AArch64, and leaves every frame that is unusual to :class:`clew.walk.fast.FastWalker`, untouched.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from clew.errors import Error
from clew.image import Image
from clew.read.packed import PackedTable, layout
from clew.read.packed.layout import PackedMachine, packed_machine
from clew.table import Table
from clew.target.model import Module
from clew.walk.go_files import is_go
from clew.write.packed import packed_table

if TYPE_CHECKING:
    from clew.native.packed_walk import PackedFile, PackedWalker
    from clew.walk.fast import FastWalker


_MASK = (1 << 64) - 1

_files: WeakKeyDictionary[Table, PackedFile | None] = WeakKeyDictionary()
"""What the extension takes of a file, by its table, which all processes that have the file share."""


def packed_walker(walker: FastWalker) -> PackedWalker | None:
    """What walks the samples of a walker's target by packed tables; None where that cannot be done.

    The extension is built where there is a C compiler. Modules that lie upon each other are for the other walkers.
    """
    target = packed_machine(walker.target.machine)
    try:
        from clew.native.packed_walk import PackedWalker
    except ImportError:
        return None
    modules = walker.rows.modules
    if target is None or any(after.start < before.end for before, after in pairwise(modules)):
        return None
    loader = _Loader(walker, target)
    columns = [np.array([value & _MASK for value in column], np.uint64) for column in _columns(modules)]
    return PackedWalker(target.number, walker.code_mask, loader.load, *columns)


def _columns(modules: list[Module]) -> tuple[list[int], list[int], list[int]]:
    return ([each.start for each in modules], [each.end for each in modules], [each.bias for each in modules])


class _Loader:
    """Gives the extension a module's table when it first meets the module."""

    def __init__(self, walker: FastWalker, target: PackedMachine) -> None:
        self._modules = walker.rows.modules
        self._known_code = walker.steps.known_code
        self._target = target

    def load(self, number: int) -> PackedFile | None:
        """The table, which of its rules may be applied, and where frames are left to others; None: everywhere."""
        module = self._modules[number]
        table = module.table
        if table is None or module.image is None or table.machine != self._target.machine:
            return None
        if table not in _files:
            _files[table] = None if is_go(module) else self._file(module, module.image, table)
        return _files[table]

    def _file(self, module: Module, image: Image, table: Table) -> PackedFile | None:
        places = self._known_code.places(table, module)
        if places is None:
            return None
        try:
            try:
                return self._opened(packed_table(image, table, check=False), places)
            except ValueError:
                # What is in the cache is damaged: checked here, it is not taken, but made anew.
                return self._opened(packed_table(image, table), places)
        except Error:
            return None

    def _opened(self, opened: PackedTable, places: tuple[list[int], list[int]]) -> PackedFile:
        """Raises ValueError if the table is not sound."""
        from clew.native.packed_walk import PackedFile

        return PackedFile(opened.data, self._plain(opened), *(np.array(column, np.uint64) for column in places))

    def _plain(self, opened: PackedTable) -> npt.NDArray[np.uint8]:
        """Which rules are a register plus an offset, and registers near it: 1 or 0 for each."""
        rules = opened.parts["rules"]
        plain = (rules["cfa"] >> 6 == layout.CFA_REGISTER) & (rules["flags"] & (layout.SIGNAL | layout.CELLS) == 0)
        if self._target.machine.link_register is None:
            # A return address that is where it was says nothing where calls push it.
            plain &= rules["same"] >> np.uint32(self._target.pc) & 1 == 0
        return np.asarray(plain, np.uint8)
