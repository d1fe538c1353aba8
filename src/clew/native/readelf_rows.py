"""The text of readelf's rows, and of the names of registers."""

import cython

if cython.compiled:
    from cython.cimports.clew.native.readelf_columns import Columns
    from cython.cimports.clew.native.textbuffer import TextBuffer
    from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
else:
    from clew.native.readelf_columns import Columns
    from clew.native.textbuffer import TextBuffer

    int64_t = uint8_t = uint64_t = cython.longlong

from clew.native.readelf_columns import phrase

#: The low 32 bits. Larger literals in the code would be Python objects.
_HALF = cython.declare(int64_t, 0xFFFFFFFF)

_CFA_EXPRESSION = cython.declare(cython.size_t, phrase(b"exp      "))
_LOCATION = cython.declare(cython.size_t, phrase(b"   LOC"))
_CFA = cython.declare(cython.size_t, phrase(b"CFA      "))
_RETURN_ADDRESS = cython.declare(cython.size_t, phrase(b"ra    "))

# The kinds of rules that are not words of their own, as in readelf_columns: with a number, and with a register.
_AT_CFA = cython.declare(cython.uchar, 5)
_IN_REGISTER = cython.declare(cython.uchar, 7)

#: Registers whose names are words of the text buffer: first the names, then as many longer forms, "r6 (rbp)".
NAMED = cython.declare(cython.size_t, 256)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def low32(value: uint64_t) -> int64_t:
    """The low half as a C ``int``."""
    half: int64_t = value & _HALF
    return half - _HALF - 1 if half >> 31 else half


@cython.final
@cython.cclass
class Rows(Columns):
    """The row in force, and its text.

    Args:
        out: where text goes; its words are ``WORDS`` and, from number ``names_at`` on, register names.
        rare_name: the name of a register from 256 on, as bytes or None.
        known, allowance, bare: see :class:`clew.native.readelf_columns.Columns`.
    """

    def __init__(self, out, names_at, known, rare_name, allowance, bare):
        Columns.__init__(self, known, allowance, bare)
        self.out = out
        self.names_at = names_at
        self.rare_name = rare_name

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def name(self, register: uint64_t) -> cython.int:
        """A register's name alone."""
        if register < NAMED:
            return self.out.word(self.names_at + register)
        return self.odd_name(register, False)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def number_and_name(self, register: uint64_t) -> cython.int:
        """A register's number, and its name in brackets where it has one."""
        if register < NAMED:
            return self.out.word(self.names_at + NAMED + register)
        return self.odd_name(register, True)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def odd_name(self, register: uint64_t, both: cython.bint) -> cython.int:
        """The same for registers that have no word."""
        name = self.rare_name(register)
        text = b"r%d" % low32(register)
        if name is not None:
            text = b"%s (%s)" % (text, name) if both else name
        self.out.append(text)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def title(self, size: cython.size_t) -> cython.int:
        """The line above an entry's first row."""
        out: TextBuffer = self.out
        at: cython.size_t = out.pos
        i: cython.size_t
        register: cython.size_t
        out.word(_LOCATION)
        out.pad(at, 2 * size)
        out.word(_CFA)
        for i in range(self.count):
            register = self.shown[i]
            if register == self.return_address:
                out.word(_RETURN_ADDRESS)
            else:
                at = out.pos
                self.name(register)
                out.pad(at, 5)
        return out.byte(0x0A)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def row(self, location: uint64_t, size: cython.size_t) -> cython.int:
        """One row, under its title where it is the entry's first; addresses are ``size`` bytes wide."""
        out: TextBuffer = self.out
        at: cython.size_t
        i: cython.size_t
        register: cython.size_t
        kind: uint8_t
        self.widest = self.columns
        if not self.titled:
            self.titled = True
            self.title(size)
        out.hex(location, 2 * size)
        out.byte(0x20)
        if self.cfa_expression:
            out.word(_CFA_EXPRESSION)
        else:
            at = out.pos
            self.name(self.cfa_register)
            out.integer(low32(self.cfa_offset), True)
            out.pad(at, 8)
        for i in range(self.count):
            register = self.shown[i]
            kind = self.kind[register]
            if kind < _AT_CFA:
                out.word(kind)
                continue
            at = out.pos
            if kind == _IN_REGISTER:
                self.number_and_name(cython.cast(uint64_t, self.offset[register]) & _HALF)
            else:
                out.byte(0x63 if kind == _AT_CFA else 0x76)
                out.integer(self.offset[register], True)
            out.pad(at, 5)
        return out.byte(0x0A)
