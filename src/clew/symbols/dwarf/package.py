"""Packages of split units, ``.dwp`` files: which part of each section belongs to a unit (DWARF 5, 7.3.5; GNU's before)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from clew.errors import Error, Problem
from clew.image import Image

#: Columns of the index in DWARF 5, and in GNU's version 2.
_SECTIONS_5 = {1: "info", 3: "abbrev", 4: "line", 5: "loclists", 6: "str_offsets", 7: "macro", 8: "rnglists"}
_SECTIONS_2 = {1: "info", 2: "types", 3: "abbrev", 4: "line", 5: "loc", 6: "str_offsets", 7: "macinfo", 8: "macro"}
_MOST_COLUMNS = 16
_HEADER = 16
_INDEX = ".debug_cu_index"

Parts = Mapping[str, tuple[int, int]]


class Package:
    """The index of a package.

    Args:
        image: the package.

    Attributes:
        problems: what is wrong with it.
    """

    def __init__(self, image: Image) -> None:
        self.problems: list[Problem] = []
        self._names: list[str | None] = []
        self._ids = np.zeros(0, np.uint64)
        self._rows = self._offsets = self._sizes = np.zeros(0, np.uint32)
        section = image.section(_INDEX)
        if section is None:
            self._report("there is no index of units")
            return
        info = image.section(".debug_info.dwo")
        try:
            data = section.expanded
            room = 0 if info is None or not info.has_data else len(info.expanded)
        except Error as error:
            self._report(error.message)
            return
        self._read(np.frombuffer(data, np.uint8), ">" if image.byte_order == "big" else "<")
        # Each unit has parts of its own. What they have together says how much there is to read.
        if "info" in self._names and len(self._sizes):
            total = int(self._sizes[:, self._names.index("info")].astype(np.uint64).sum())
            if total > 2 * room + 65536:
                self._report("the parts of units lie in each other")
                self._ids = self._ids[:0]

    def find(self, identity: int) -> Parts | None:
        """The parts of the unit with an id: offset and size by the name of the section. None where there is no such unit."""
        place = int(np.searchsorted(self._ids, np.uint64(identity)))
        if place == len(self._ids) or int(self._ids[place]) != identity:
            return None
        row = int(self._rows[place]) - 1
        columns = zip(self._names, self._offsets[row].tolist(), self._sizes[row].tolist(), strict=True)
        return {f".debug_{name}.dwo": (offset, size) for name, offset, size in columns if name is not None}

    def _report(self, message: str) -> None:
        self.problems.append(Problem(message, section=_INDEX))

    def _read(self, data: npt.NDArray[np.uint8], order: str) -> None:
        """Reads the header, the table of ids, and those of offsets and sizes."""
        words = data[: len(data) & -4].view(f"{order}u4")
        if len(words) < 4:
            self._report("the index of units is cut")
            return
        version, columns, units, slots = words[:4].tolist()
        # In DWARF 5 the version is of two bytes, with padding behind.
        version = version & 0xFFFF if order == "<" or version <= 0xFFFF else version >> 16
        if version not in (2, 5) or columns > _MOST_COLUMNS:
            self._report(f"version {version} of the index, with {columns} columns, is not known")
            return
        table = _HEADER // 4 + 3 * slots
        end = table + columns * (2 * units + 1)
        if end > len(words):
            self._report("the index of units is cut")
            return
        ids = data[_HEADER : _HEADER + 8 * slots].view(f"{order}u8").astype(np.uint64)
        rows = words[_HEADER // 4 + 2 * slots : table].astype(np.uint32)
        used = np.flatnonzero((rows > 0) & (rows <= units))
        used = used[np.argsort(ids[used], kind="stable")]
        self._ids, self._rows = ids[used], rows[used]
        known = _SECTIONS_5 if version == 5 else _SECTIONS_2
        self._names = [known.get(kind) for kind in words[table : table + columns].tolist()]
        tables = words[table + columns : end].astype(np.uint32).reshape(2, units, columns)
        self._offsets, self._sizes = tables[0], tables[1]
