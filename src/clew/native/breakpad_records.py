"""Splits the text of a Breakpad symbol file into columns: one pass, a row for each record, names left where they are.

The format is that of Breakpad's ``docs/symbol_files.md``. What real files do besides is accepted and counted: see
:mod:`clew.read.breakpad.records`, which says what becomes of each flaw.
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.breakpad_columns import Columns
    from cython.cimports.libc.stdint import uint32_t, uint64_t
else:
    from clew.native.breakpad_columns import Columns

    uint32_t = uint64_t = cython.longlong

from clew.native.breakpad_columns import FILE, FUNC, INFO, MODULE, ORIGIN, PUBLIC
from clew.native.breakpad_fields import (
    EMPTY,
    LARGE,
    LATE_MODULE,
    MALFORMED,
    NO_NEWLINE,
    NO_NUMBER,
    ORPHAN_INLINE,
    ORPHAN_LINE,
    SECOND_MODULE,
    UNKNOWN,
    UNNAMED,
)

#: The words that records begin with, one after the other; where each begins is its number.
_WORDS = b"FUNCFILEINLINE_ORIGINLINEINFOMODULEPUBLICSTACKWINCFI"
_W_FUNC = cython.declare(cython.size_t, 0)
_W_FILE = cython.declare(cython.size_t, 4)
_W_INLINE = cython.declare(cython.size_t, 8)  # INLINE_ORIGIN begins with it
_W_INFO = cython.declare(cython.size_t, 25)
_W_MODULE = cython.declare(cython.size_t, 29)
_W_PUBLIC = cython.declare(cython.size_t, 35)
_W_STACK = cython.declare(cython.size_t, 41)
_W_WIN = cython.declare(cython.size_t, 46)
_W_CFI = cython.declare(cython.size_t, 49)

_SPACE = cython.declare(cython.uchar, 0x20)
_NEWLINE = cython.declare(cython.uchar, 0x0A)
_LIMIT = cython.declare(uint64_t, 0xFFFFFFFF)
_ONES = cython.declare(uint64_t, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Scanner(Columns):
    """Reads a symbol file.

    Args:
        data: its bytes.
    """

    def __init__(self, data):
        Columns.__init__(self, data, _WORDS)
        self.inside = self.has_module = False
        self.last_line = 0

    def run(self):
        """Reads the whole text."""
        while self.pos < self.end:
            self.lines += 1
            if not (self.inside and self.plain_line()):
                self.record()
        if self.end and self.data[self.end - 1] != _NEWLINE:
            self.flaw(NO_NEWLINE)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def plain_line(self) -> cython.bint:
        """Reads a line record, the most common kind by far; False, and nothing is read, where it is not a plain one."""
        count: cython.size_t = self.line_count
        address: uint64_t
        size: uint64_t
        line: uint64_t
        file: uint64_t
        self.at = self.pos
        self.odd = False
        address = self.plain_hex()
        if self.odd:
            return False
        size = self.plain_hex()
        line = self.plain_natural(_SPACE)
        file = self.plain_natural(_NEWLINE)
        if self.odd or size == 0 or size > _LIMIT or size - 1 > _ONES - address or file == _LIMIT:
            return False
        if self.lines != self.last_line + 1:
            self.anchor(count)
        self.last_line = self.lines
        if count == self.l_file.shape[0]:
            self.roomier(self.line_columns)
        self.l_address[count] = address
        self.l_size[count] = size
        self.l_line[count] = line
        self.l_file[count] = file
        self.line_count = count + 1
        self.pos = self.at if self.at < self.end else self.end
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def anchor(self, count: cython.size_t) -> cython.int:
        """Notes the line of text of a line record that does not stand right behind another."""
        at: cython.size_t = self.anchor_count
        if at == self.a_record.shape[0]:
            self.roomier(self.anchor_columns)
        self.a_record[at] = count
        self.a_text[at] = self.lines
        self.anchor_count = at + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def record(self) -> cython.int:
        """Reads one line of text, whatever it is, and goes to the next."""
        begin: cython.size_t
        self.enter()
        begin = self.pos
        if begin < self.stop:
            if self.word(_W_STACK, 5):
                self.stack(begin)
            elif self.word(_W_FUNC, 4):
                self.symbol(FUNC)
            elif self.word(_W_FILE, 4):
                self.named(FILE)
            elif self.word(_W_PUBLIC, 6):
                self.symbol(PUBLIC)
            elif self.word(_W_INLINE, 6):
                self.inline()
            elif self.word(_W_INLINE, 13):
                self.named(ORIGIN)
            elif self.word(_W_INFO, 4):
                self.named(INFO)
            elif self.word(_W_MODULE, 6):
                self.named(MODULE)
            elif self.digits[self.data[begin]] < 16:
                self.line()
            else:
                self.flaw(UNKNOWN)
        self.pos = self.next
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def line(self) -> cython.int:
        """A line record that is not plain."""
        count: cython.size_t = self.line_count
        if not self.hexadecimal(0):
            self.flaw(UNKNOWN)
        elif not (self.hexadecimal(1) and self.reference(2, 0) and self.reference(3, NO_NUMBER)):
            self.flaw(MALFORMED)
        elif not self.inside:
            self.flaw(ORPHAN_LINE)
        elif not self.field[1]:
            self.flaw(EMPTY)
        elif self.is_large or self.field[1] > _LIMIT or self.field[1] - 1 > _ONES - self.field[0]:
            self.flaw(LARGE)
        else:
            self.finish()
            self.anchor(count)
            if count == self.l_file.shape[0]:
                self.roomier(self.line_columns)
            self.l_address[count] = self.field[0]
            self.l_size[count] = self.field[1]
            self.l_line[count] = self.field[2]
            self.l_file[count] = self.field[3]
            self.line_count = count + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def symbol(self, kind: cython.size_t) -> cython.int:
        """``FUNC [m] address size parameter_size name`` or ``PUBLIC [m] address parameter_size name``."""
        at: cython.size_t = self.symbol_count
        multiple: cython.bint = False
        last: cython.size_t = 2 if kind == FUNC else 1
        if kind == FUNC:
            # Lines of a function that cannot be read must not become another's.
            self.inside = False
        self.blanks()
        if self.stop - self.pos > 1 and self.data[self.pos] == 0x6D and self.data[self.pos + 1] == _SPACE:
            multiple = True
            self.pos += 2
        if not (self.hexadecimal(0) and self.hexadecimal(1) and (kind == PUBLIC or self.hexadecimal(2))):
            return self.flaw(MALFORMED)
        if self.is_large:
            return self.flaw(LARGE)
        if kind == FUNC:
            self.inside = True
            if not self.field[1]:
                return self.without_code()
            if self.field[1] - 1 > _ONES - self.field[0]:
                # It is cut at the last address.
                self.flaw(LARGE)
                self.field[1] = _ONES - self.field[0] + 1
        if self.field[last] > _LIMIT:
            self.flaw(LARGE)
            self.field[last] = 0
        if at == self.s_kind.shape[0]:
            self.roomier(self.symbol_columns)
        self.s_length[at] = self.name()
        self.s_offset[at] = self.pos
        if self.pos == self.stop:
            self.flaw(UNNAMED)
        self.s_kind[at] = kind
        self.s_multiple[at] = multiple
        self.s_address[at] = self.field[0]
        self.s_size[at] = self.field[1] if kind == FUNC else 0
        self.s_parameter[at] = self.field[last]
        self.s_text[at] = self.lines
        self.s_line[at] = self.line_count
        self.s_inline[at] = self.inline_count
        self.symbol_count = at + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def without_code(self) -> cython.int:
        """A function of size zero: it is nowhere, and neither are its lines."""
        self.inside = False
        return self.flaw(EMPTY)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def named(self, kind: cython.size_t) -> cython.int:
        """``FILE number name``, ``INLINE_ORIGIN number name``, ``INFO text`` or ``MODULE text``."""
        at: cython.size_t = self.named_count
        self.field[0] = 0
        if kind <= ORIGIN:
            if not self.decimal(0) or self.is_negative:
                return self.flaw(MALFORMED)
            if self.is_large or self.field[0] == NO_NUMBER:
                return self.flaw(LARGE)
        elif kind == MODULE:
            if self.has_module:
                return self.flaw(SECOND_MODULE)
            self.has_module = True
            if self.lines > 1:
                self.flaw(LATE_MODULE)
        if at == self.n_kind.shape[0]:
            self.roomier(self.named_columns)
        self.n_length[at] = self.name()
        self.n_offset[at] = self.pos
        if self.pos == self.stop:
            self.flaw(UNNAMED)
        self.n_kind[at] = kind
        self.n_number[at] = self.field[0]
        self.n_line[at] = self.lines
        self.named_count = at + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def inline(self) -> cython.int:
        """``INLINE depth call_line call_file origin [address size]+``; the old form has no call_file, so an odd count."""
        at: cython.size_t = self.inline_count
        into: cython.size_t = self.range_count
        count: cython.size_t = self.count_fields()
        old: cython.size_t = count & 1
        if count < 6 - old:
            return self.flaw(MALFORMED)
        self.field[3] = NO_NUMBER
        if not self.decimal(0) or self.is_negative or not self.reference(1, 0):
            return self.flaw(MALFORMED)
        if not old and not self.reference(3, NO_NUMBER):
            return self.flaw(MALFORMED)
        if not self.reference(2, NO_NUMBER):
            return self.flaw(MALFORMED)
        if self.is_large or self.field[0] > 0xFFFF:
            return self.flaw(LARGE)
        if not self.inside:
            return self.flaw(ORPHAN_INLINE)
        count = (count - 4 + old) >> 1
        while count:
            count -= 1
            if not (self.hexadecimal(4) and self.hexadecimal(5)):
                return self.flaw(MALFORMED)
            if self.is_large or (self.field[5] and self.field[5] - 1 > _ONES - self.field[4]):
                return self.flaw(LARGE)
            if not self.field[5]:
                self.flaw(EMPTY)
                continue
            if into == self.r_address.shape[0]:
                self.roomier(self.range_columns)
            self.r_address[into] = self.field[4]
            self.r_size[into] = self.field[5]
            into += 1
        if at == self.i_old.shape[0]:
            self.roomier(self.inline_columns)
        self.i_old[at] = old
        self.i_depth[at] = self.field[0]
        self.i_line[at] = self.field[1]
        self.i_file[at] = self.field[3]
        self.i_origin[at] = self.field[2]
        self.i_range[at] = self.range_count
        self.i_text[at] = self.lines
        self.inline_count = at + 1
        self.range_count = into
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def stack(self, begin: cython.size_t) -> cython.int:
        """``STACK WIN`` with its ten numbers, or ``STACK CFI``, of which only the place is kept."""
        at: cython.size_t = self.run_count
        self.blanks()
        if self.word(_W_CFI, 3):
            if at and self.c_end[at - 1] == begin:
                self.c_end[at - 1] = self.next
                return 0
            if at == self.c_offset.shape[0]:
                self.roomier(self.run_columns)
            self.c_offset[at] = begin
            self.c_end[at] = self.next
            self.c_text[at] = self.lines
            self.run_count = at + 1
            return 0
        if not self.word(_W_WIN, 3):
            return self.flaw(UNKNOWN)
        return self.win()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def win(self) -> cython.int:
        """The numbers of ``STACK WIN`` and its program, or its flag."""
        at: cython.size_t = self.win_count
        i: cython.size_t
        sizes: uint32_t[::1]
        for i in range(10):
            if not self.hexadecimal(i):
                return self.flaw(MALFORMED)
            if i != 1 and self.field[i] > _LIMIT:
                self.is_large = True
        self.blanks()
        if self.pos == self.stop:
            return self.flaw(MALFORMED)
        if self.is_large:
            return self.flaw(LARGE)
        if at == self.w_type.shape[0]:
            self.roomier(self.win_columns)
        self.w_length[at] = 0
        self.w_offset[at] = self.pos
        self.w_base[at] = 0
        self.w_program[at] = self.field[9] != 0
        if self.field[9]:
            self.w_length[at] = min(self.stop - self.pos, _LIMIT)
        else:
            if not self.hexadecimal(9):
                return self.flaw(MALFORMED)
            self.w_base[at] = self.is_large or self.field[9] != 0
            self.finish()
        self.w_type[at] = self.field[0]
        self.w_address[at] = self.field[1]
        for i in range(7):
            sizes = self.w_sizes[i]
            sizes[at] = self.field[i + 2]
        self.w_text[at] = self.lines
        self.win_count = at + 1
        return 0
