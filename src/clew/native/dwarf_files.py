"""Paths of source files, numbered across units: from the file numbers of one line program to those of all.

A unit's header has hundreds of files, most of them the same as in other units, and few that code came from. Only the latter
are looked at, and a path is put together once for each way to say it.
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.cursor import WORD, Cursor
    from cython.cimports.clew.native.dwarf_line_tables import LineTables
    from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
else:
    from clew.native.cursor import WORD, Cursor
    from clew.native.dwarf_line_tables import LineTables

    uint64_t = uint32_t = uint8_t = cython.longlong

from clew.native.columns import empty, enlarged, zeros
from clew.native.cursor import Malformed

#: Strings longer than this are left out; no file system has such a path.
_LONGEST = 1 << 16


def is_absolute(path):
    """Whether a path needs no directory: of POSIX, or of Windows for what MinGW and clang-cl made."""
    return path[:1] in ("/", "\\") or (path[1:2] == ":" and path[2:3] in ("/", "\\") and path[:1].isalpha())


def joined(name, directory, compilation):
    """A path as binutils' addr2line puts it together: the name if it is absolute, else its directory before it; else the
    compilation's directory before that. Each may be None."""
    if name is None or is_absolute(name):
        return name
    if directory is not None:
        name = f"{directory}/{name}"
        if is_absolute(directory):
            return name
    return name if compilation is None else f"{compilation}/{name}"


@cython.cclass
class FileBook:
    """The files of all units.

    Args:
        line, strings, line_strings, offsets, supplementary: ``.debug_line``, ``.debug_str``, ``.debug_line_str``,
            ``.debug_str_offsets``, and ``.debug_str`` of the supplementary file.
        big: whether numbers are big-endian.

    Attributes:
        files: the paths.
        budget: bytes of paths that may still be put together; below zero some are missing.
    """

    def __init__(self, line, strings, line_strings, offsets, supplementary, big):
        self.tables = LineTables(line, big)
        self.strings = strings
        self.line_strings = line_strings
        self.supplementary = supplementary
        self.offsets = offsets
        self.files = []
        self.numbers = {}
        self.known = {}
        self.map = empty(64, "u4")
        self.stamp = zeros(64, "u4")
        self.turn = 0
        self.limit = 0
        self.directory = self.name = None
        self.offsets_base = 0
        self.defined = ()
        self.budget = 64 * (len(line) + len(strings) + len(line_strings)) + (1 << 24)

    def open(self, offset, directory, name, offsets_base, defined):
        """:meth:`begin` for Python callers."""
        self.begin(offset, directory, name, offsets_base, defined)

    def path(self, number):
        """The path of a file of the unit, or None."""
        if not 0 <= number < self.limit:
            return None
        found = self.number_of(number)
        return None if found == WORD else self.files[found]

    def directories(self):
        """The directories in the unit's header; None for one without a readable name."""
        tables: LineTables = self.tables
        return [self.text(tables.kind[i], tables.number[i]) for i in range(tables.first_file)]

    @cython.cfunc
    def begin(self, offset: uint64_t, directory: object, name: object, offsets_base: uint64_t, defined: tuple):
        """Goes to another unit: where its line program is, its directory and name, where the offsets of its strings begin,
        and where the program defines files itself."""
        count: cython.size_t
        self.tables.read(offset)
        self.directory = directory
        self.name = name
        self.offsets_base = offsets_base
        self.defined = defined
        count = self.tables.count - self.tables.first_file
        # Before version 5 numbers begin at 1, and 0 is the unit itself.
        self.limit = count if self.tables.version >= 5 else count + len(defined) + 1
        self.turn += 1
        if self.limit > cython.cast(cython.size_t, self.map.shape[0]):
            self.map = enlarged(self.map, 2 * self.limit)
            self.stamp = enlarged(self.stamp, 2 * self.limit, 0)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def use(self, number: uint32_t) -> cython.int:
        """Makes ready a file of the unit, so that ``map`` has its number among all, or all ones."""
        if number < self.limit and self.stamp[number] != self.turn:
            self.stamp[number] = self.turn
            self.map[number] = self.number_of(number)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def number_of(self, number: uint32_t) -> uint32_t:
        """The number among all of a file of the unit."""
        tables: LineTables = self.tables
        at: cython.size_t = tables.first_file + number
        count: cython.size_t = tables.count
        above: cython.size_t
        if tables.version < 5:
            if number == 0:
                return self.add(joined(self.name, None, self.directory))
            at -= 1
            if at >= count:
                return self.add(self.definition(self.defined[at - count]))
        if at >= count:
            return WORD
        # Directories count from 0 in version 5; before that from 1, and 0 is that of the compilation.
        above = tables.directory[at]
        if tables.version < 5:
            above = above - 1 if above else tables.first_file
        kind: uint8_t = 0
        folder_number: uint64_t = 0
        if above < tables.first_file:
            kind = tables.kind[above]
            folder_number = tables.number[above]
        key = (tables.kind[at], tables.number[at], kind, folder_number, self.offsets_base, self.directory)
        found = self.known.get(key)
        if found is None:
            # Long directories of many files would otherwise take time and memory without end.
            if self.budget < 0:
                return WORD
            path = joined(self.text(tables.kind[at], tables.number[at]), self.text(kind, folder_number), self.directory)
            self.budget -= len(path or "") + 64
            found = self.add(path)
            self.known[key] = found
        return found

    def add(self, path):
        """The number of a path."""
        if path is None:
            return WORD
        number = self.numbers.get(path)
        if number is None:
            number = self.numbers[path] = len(self.files)
            self.files.append(path)
        return number

    def definition(self, offset):
        """The path of a file that ``DW_LNE_define_file`` defines, whose operands are at an offset."""
        name = self.text(1, offset)
        if name is None:
            return None
        reader: Cursor = Cursor(self.tables.data, offset)
        folder = None
        try:
            reader.pos = offset + len(name.encode("utf-8", "surrogateescape")) + 1
            above = reader.uleb()
            if 0 < above <= self.tables.first_file:
                folder = self.text(self.tables.kind[above - 1], self.tables.number[above - 1])
        except Malformed:
            return None
        return joined(name, folder, self.directory)

    @cython.cfunc
    def text(self, kind: uint8_t, number: uint64_t) -> object:
        """A string by what :mod:`clew.native.dwarf_line_tables` knows of it; None where there is none."""
        data: object
        if kind == 1:
            data = self.tables.data
        elif kind == 2:
            data = self.strings
        elif kind == 3:
            data = self.line_strings
        elif kind == 4:
            data = self.supplementary
        elif kind == 5:
            reader: Cursor = Cursor(self.offsets, 0, None, self.tables.big)
            if number > cython.cast(uint64_t, reader.end) or self.offsets_base > cython.cast(uint64_t, reader.end):
                return None
            reader.pos = self.offsets_base + number * self.tables.width
            try:
                number = reader.fixed(self.tables.width)
            except Malformed:
                return None
            data = self.strings
        else:
            return None
        if number >= cython.cast(uint64_t, len(data)):
            return None
        size: cython.size_t = 128
        while True:
            piece = bytes(data[number : number + size])
            end = piece.find(0)
            if end >= 0:
                return piece[:end].decode("utf-8", "surrogateescape")
            if len(piece) < size or size >= _LONGEST:
                return None
            size *= 8
