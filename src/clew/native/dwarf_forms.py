"""Forms: how the values of attributes are encoded (DWARF 5, 7.5.6; GNU's of split and supplementary files).

A value is a number, whatever its form: an address, a constant, an offset, an index; for strings and blocks in place it is
the offset where they begin. What it means, the form says.
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.cursor import ONES, WORD, Cursor
    from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
else:
    from clew.native.cursor import ONES, WORD, Cursor

    uint64_t = uint32_t = int64_t = cython.longlong

from clew.native.cursor import Malformed, Truncated

# What :func:`form_size` answers for forms whose size their bytes say.
LEB = -1
STRING = -2
BLOCK1 = -3
BLOCK2 = -4
BLOCK4 = -5
BLOCK_LEB = -6
INDIRECT = -7

#: DW_FORM_indirect may lead to another one; nobody needs more.
_MOST_INDIRECT = cython.declare(cython.int, 8)


@cython.cfunc
@cython.nogil
@cython.exceptval(-100, check=False)
def form_size(form: uint32_t, address_size: cython.int, offset_size: cython.int, version: cython.int) -> cython.int:
    """Bytes of a form, or which of the variable ones it is. Raises Malformed for one that nobody has defined."""
    if form in (0x0B, 0x0C, 0x11, 0x25, 0x29):  # data1 flag ref1 strx1 addrx1
        return 1
    if form in (0x05, 0x12, 0x26, 0x2A):  # data2 ref2 strx2 addrx2
        return 2
    if form in (0x27, 0x2B):  # strx3 addrx3
        return 3
    if form in (0x06, 0x13, 0x1C, 0x28, 0x2C):  # data4 ref4 ref_sup4 strx4 addrx4
        return 4
    if form in (0x07, 0x14, 0x20, 0x24):  # data8 ref8 ref_sig8 ref_sup8
        return 8
    if form in (0x0E, 0x17, 0x1D, 0x1F, 0x1F20, 0x1F21):  # strp sec_offset strp_sup line_strp GNU_ref_alt GNU_strp_alt
        return offset_size
    if form == 0x01:  # addr
        return address_size
    if form == 0x10:  # ref_addr, which was an address in DWARF 2
        return address_size if version <= 2 else offset_size
    if form in (0x19, 0x21):  # flag_present implicit_const
        return 0
    if form in (0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02):
        return -1  # sdata udata ref_udata strx addrx loclistx rnglistx GNU_addr_index GNU_str_index
    if form == 0x08:
        return -2
    if form == 0x0A:
        return -3
    if form == 0x03:
        return -4
    if form == 0x04:
        return -5
    if form in (0x09, 0x18):  # block exprloc
        return -6
    if form == 0x16:
        return -7
    if form == 0x1E:  # data16
        return 16
    raise Malformed("a form that no standard defines")


@cython.cclass
class FormCursor(Cursor):
    """A cursor over a unit of ``.debug_info``.

    Args:
        data: the section.
        address_size, offset_size, version: the unit's.

    Attributes:
        form: of the value that was read last; what DW_FORM_indirect stood for.
    """

    def __init__(self, data, pos=0, end=None, big=False, address_size=8, offset_size=4, version=4):
        Cursor.__init__(self, data, pos, end, big)
        self.address_size = address_size
        self.offset_size = offset_size
        self.version = version
        self.form = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=True)
    def value(self, form: uint32_t, constant: int64_t) -> uint64_t:
        """The value of this form; ``constant`` is that of DW_FORM_implicit_const, from the abbreviation."""
        size: cython.int
        start: uint64_t
        named: uint64_t
        rounds: cython.int = 0
        while form == 0x16:
            named = self.uleb()
            rounds += 1
            # The value of DW_FORM_implicit_const stands in an abbreviation, which there is none of here.
            if rounds > _MOST_INDIRECT or named == 0x21 or named > WORD:
                raise Malformed("DW_FORM_indirect leads nowhere")
            form = cython.cast(uint32_t, named)
        self.form = form
        if form == 0x21:
            return cython.cast(uint64_t, constant) & ONES
        if form == 0x0D:
            return cython.cast(uint64_t, self.sleb()) & ONES
        if form == 0x19:
            return 1
        size = form_size(form, self.address_size, self.offset_size, self.version)
        if size == -1:
            return self.uleb()
        if 0 <= size <= 8:
            return self.fixed(size)
        start = self.pos
        self.pass_over(form)
        return start

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def pass_over(self, form: uint32_t) -> cython.int:
        """Moves on behind a value."""
        return self.pass_kind(form_size(form, self.address_size, self.offset_size, self.version))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def pass_kind(self, size: cython.int) -> cython.int:
        """The same for what :func:`form_size` says of the form."""
        if size >= 0:
            self.skip(size)
        elif size == -1:
            while True:
                if self.pos >= self.end:
                    raise Truncated("the data ends inside a LEB128 number")
                self.pos += 1
                if self.data[self.pos - 1] < 0x80:
                    break
        elif size == -2:
            while True:
                if self.pos >= self.end:
                    raise Truncated("the data ends inside a string")
                self.pos += 1
                if self.data[self.pos - 1] == 0:
                    break
        elif size == -3:
            self.skip(self.fixed(1))
        elif size == -4:
            self.skip(self.fixed(2))
        elif size == -5:
            self.skip(self.fixed(4))
        elif size == -6:
            self.skip(self.uleb())
        else:
            self.value(0x16, 0)
        return 0
