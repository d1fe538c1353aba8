"""Packages of split units, ``.dwp`` files: which part of each section belongs to a unit (DWARF 5, 7.3.5; GNU's before)."""

from __future__ import annotations

import struct

from clew.errors import Error, Problem
from clew.image import Image

#: Columns of the index in DWARF 5, and in GNU's version 2.
_SECTIONS_5 = {1: "info", 3: "abbrev", 4: "line", 5: "loclists", 6: "str_offsets", 7: "macro", 8: "rnglists"}
_SECTIONS_2 = {1: "info", 2: "types", 3: "abbrev", 4: "line", 5: "loc", 6: "str_offsets", 7: "macinfo", 8: "macro"}
_MOST_COLUMNS = 16

Parts = dict[str, tuple[int, int]]


def read_package(image: Image) -> tuple[dict[int, Parts], list[Problem]]:
    """The parts of each unit of a package, by its id: section names with offsets and sizes.

    Args:
        image: the package.
    """
    name = ".debug_cu_index"
    section = image.section(name)
    if section is None:
        return {}, [Problem("there is no index of units", section=name)]
    order = ">" if image.byte_order == "big" else "<"
    try:
        data = bytes(section.expanded)
        version, columns, units, slots = struct.unpack_from(order + "IIII", data)
        # In DWARF 5 the version is of two bytes, with padding behind.
        version = version & 0xFFFF if order == "<" or version <= 0xFFFF else version >> 16
        if version not in (2, 5) or columns > _MOST_COLUMNS:
            return {}, [Problem(f"version {version} of the index is not known", section=name)]
        ids = struct.unpack_from(f"{order}{slots}Q", data, 16)
        rows = struct.unpack_from(f"{order}{slots}I", data, 16 + 8 * slots)
        table = 16 + 12 * slots
        kinds = struct.unpack_from(f"{order}{columns}I", data, table)
        offsets, sizes = table + 4 * columns, table + 4 * columns * (units + 1)
        names = _SECTIONS_5 if version == 5 else _SECTIONS_2
        result: dict[int, Parts] = {}
        for identity, row in zip(ids, rows, strict=True):
            if not 0 < row <= units:
                continue
            at = struct.unpack_from(f"{order}{columns}I", data, offsets + 4 * columns * (row - 1))
            size = struct.unpack_from(f"{order}{columns}I", data, sizes + 4 * columns * (row - 1))
            result[identity] = {
                f".debug_{names[kind]}.dwo": (at[i], size[i]) for i, kind in enumerate(kinds) if kind in names
            }
    except struct.error:
        return {}, [Problem("the index of units is cut", section=name)]
    except Error as error:
        return {}, [Problem(error.message, section=name)]
    return result, []
